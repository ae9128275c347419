// copying: digits that a recurrent model reads and then writes, from one vector or with attention.
import {
  BOS, EOS, digits, isHeldOut, likeliest, range, share, sourcesOf, taughtOf, tokensOf, written,
} from "./batches.js";

const [SHORTEST, TESTED, MOST] = [2, 30, 16]; // digits, lists of each length, digits of a reader's own
const BEYOND = 4; // tokens that an answer may be longer than its list, BOS among them
const TOKENS = ["<pad>", "<bos>", "<eos>", ...digits];
const FIRST = TOKENS.indexOf("0");
const numberOf = new Map(digits.map((digit, i) => [digit, FIRST + i]));
const textOf = (ids) => ids.map((id) => TOKENS[id]);
const [EMBEDDED, SCORER] = [16, 32]; // dimensions that stay, whatever the state's is
const [STEPS, RATE, ROWS] = [1000, 0.05, 32];

/**
 * state: the dimension of both states. The batches and the lists that are tested are the same for
 * every model of a seed, whether it has attention or not.
 */
export function copying({ attention, state, longest }, random) {
  const design = { kind: "recurrent", source_vocab: TOKENS.length, target_vocab: TOKENS.length,
    d_embed: EMBEDDED, d_hidden: state, attention, ...(attention && { d_scorer: SCORER }) };
  const options = { steps: STEPS, lr: RATE, schedule: "cosine", warmup: 60, clip: 1 };
  const lists = (rows) => taughtOf(rows.map((ids) => [...ids, EOS]), rows);

  /** A list of this length to train on, or one of the quarter that is kept for testing. */
  function draw(from, length, testing) {
    for (;;) {
      const ids = range(length, () => FIRST + from.integer(10));
      if (isHeldOut(ids.join(" "), 4) === testing) return ids;
    }
  }

  const tested = range(longest - SHORTEST + 1, (k) =>
    range(TESTED, () => draw(random, SHORTEST + k, true))).flat();
  const exam = lists(tested);

  /** Of the lists of each length: digits right after the right ones, and lists wholly right. */
  function probe(read) {
    const got = likeliest(read(exam).logits, TOKENS.length);
    const rows = tested.map((ids, row) => range(ids.length + 1, (i) =>
      got[row * exam.target_time + i] === (ids[i] ?? EOS)));
    const lengths = range(longest - SHORTEST + 1, (k) => {
      const own = rows.slice(k * TESTED, (k + 1) * TESTED);
      return { length: SHORTEST + k, digits: share(own.flatMap((right) => right.slice(0, -1))),
        lists: share(own.map((right) => right.every(Boolean))) };
    });
    const all = share(rows.flatMap((right) => right.slice(0, -1)));
    const examples = range(longest - SHORTEST + 1, (k) => k * TESTED).map((row) => {
      const said = tested[row].map((_, i) => TOKENS[got[row * exam.target_time + i]]);
      return { input: textOf(tested[row]), wanted: textOf(tested[row]), got: said,
        right: rows[row].slice(0, -1) };
    });
    return { accuracy: all, lengths, examples,
      numbers: { "digits right": all, "lists wholly right": share(rows.map((right) =>
        right.every(Boolean))) } };
  }

  function parse(text) {
    const plain = [...text.replace(/[\s,]/g, "")];
    const { ids, error } = tokensOf(plain, numberOf, "digits only");
    if (error || (ids.length && ids.length <= MOST)) return { ids, error };
    return { error: `It takes one to ${MOST} digits; these are ${plain.length}.` };
  }

  const write = (read, ids) => written(read, [[...ids, EOS]], TOKENS.length, ids.length + BEYOND)[0];

  /** Where the model looked before it wrote each digit, and the end; none without attention. */
  function maps(read, text) {
    const { ids } = text === null ? { ids: tested.at(-1) } : parse(text);
    if (!ids) return null;
    const said = write(read, ids);
    const shown = { ...sourcesOf([[...ids, EOS]]), target_in: Int32Array.from([BOS, ...said]),
      target_out: Int32Array.from([EOS, ...said], () => -1), target_time: said.length + 1 };
    const labels = (of) => textOf([...of, EOS]);
    return read(shown, { maps: true }).maps.map((map) => (
      { ...map, name: "attention", rows: labels(said), columns: labels(ids) }));
  }

  function ask(read, text) {
    const { ids, error } = parse(text);
    if (error) return { error };
    const said = write(read, ids);
    return { input: textOf(ids), output: textOf(said),
      right: said.join() === ids.join() };
  }

  const batch = (from) => lists(range(ROWS, () =>
    draw(from, SHORTEST + from.integer(longest - SHORTEST + 1), false)));
  return { design, options, tokens: [TOKENS], batch, probe, maps, ask };
}
