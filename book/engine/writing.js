// writing: a language model of characters, on a text that the reader chooses or pastes.
import { isHeldOut, numbered, pack, range, tokensOf } from "./batches.js";
import { countedLosses } from "./counts.js";
import { makeRandom } from "./random.js";
import { drawn, probabilities } from "./sampling.js";
import * as tasks from "./tasks.js";

const [WINDOW, LINE, LINES] = [64, 30, 40]; // positions; letters of a list's line; lines of a list
const [LEAST, MOST] = [400, 120_000]; // characters of a text
const KINDS = 120; // characters that have a token
const END = "\n"; // token 0: behind each line of a list, and before it
const [ROWS, WINDOWS] = [32, 8]; // of a batch: lines, or windows of running text
const [PROBED, TOGETHER] = [300, 64]; // taught rows whose loss is shown; rows that are read at once
const [LISTED, LONG] = [8, 180]; // lines, or characters, that the model writes
const COPIED = 20; // characters in a row that stand in the text: a copy
const SHOWN = 32; // positions of a map

const SIZES = { kind: "one_stack", causal: true, norm: "pre", positions: "learned",
  activation: "relu", tied: false, d_model: 48, n_heads: 4, d_ff: 192, n_layers: 2,
  max_length: WINDOW };
const OPTIONS = { lr: 0.006, schedule: "cosine", warmup: 100, clip: 1 };
const [SMALL, STEPS] = [20_000, { small: 1500, windows: 2000, lines: 3000 }]; // characters; of a run

/** A text without what no model needs: other line ends, spaces behind a line, rare characters. */
function cleaned(text) {
  const plain = text.normalize("NFC").replace(/\r\n?/g, END).replace(/[^\S\n]+/g, " ")
    .replace(/ ?\n ?/g, END).replace(/\n{3,}/g, "\n\n").trim();
  const counts = new Map();
  for (const c of plain) counts.set(c, (counts.get(c) ?? 0) + 1);
  const known = [...counts.keys()].filter((c) => c !== END)
    .sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1)).slice(0, KINDS - 1);
  const pieces = [END, ...known.sort()];
  const kept = new Set(pieces);
  return { plain: [...plain].filter((c) => kept.has(c)).slice(0, MOST).join(""), pieces };
}

/** The lines of a text that is a list: many lines, nearly all of them short. Else null. */
function listed(plain) {
  const lines = [...new Set(plain.split(END).filter(Boolean))];
  const short = lines.filter((line) => [...line].length <= LINE);
  return short.length >= LINES && short.length >= 0.9 * lines.length ? short : null;
}

/** What a text must have, or it throws a sentence for the reader. */
function need(fits, what) {
  if (!fits) throw new Error(what);
}

/** text: to learn from; dropout: a rate, 0 for none. */
function writing({ text, dropout }) {
  const { plain, pieces } = cleaned(text);
  need(plain.length >= LEAST, `The text has ${plain.length} characters that count; a model needs at `
    + `least ${LEAST}.`);
  const vocabulary = numbered(pieces);
  const numbers = (of) => Int32Array.from([...of], (c) => vocabulary.get(c));
  const textOf = (ids) => ids.map((id) => pieces[id]).join("");
  const lines = listed(plain);

  // Rows of tokens, the first of which is read alone: for training, and those that are kept back.
  const split = lines ? [false, true].map((held) => lines.filter((line) =>
    isHeldOut(line, 10) === held)) : [];
  const ids = numbers(lines ? "" : plain);
  const cut = Math.floor(0.9 * ids.length);
  const windows = (of) => range(Math.ceil((of.length - 1) / WINDOW), (k) =>
    Array.from(of.subarray(k * WINDOW, (k + 1) * WINDOW + 1)));
  const [taught, held] = lines
    ? split.map((some) => some.map((line) => [0, ...numbers(line), 0]))
    : [ids.subarray(0, cut), ids.subarray(cut)].map(windows);
  need(held.length > 1, "The text is too short to keep a tenth of it back.");
  const counted = countedLosses(lines ? taught : [ids.subarray(0, cut)],
    lines ? held : [ids.subarray(cut)], pieces.length);
  const known = new Set(split[0]);
  const kept = new Set(split[1]);
  const begun = lines ? "" : plain.slice(0, cut);
  // The same rows at each probe: spread over the text, as many as the model can read in a moment.
  const probed = (rows, most) => {
    const every = Math.max(1, rows.length / most);
    return range(Math.min(most, rows.length), (k) => rows[Math.floor(k * every)])
      .sort((a, b) => a.length - b.length);
  };
  const [seen, unseen] = [probed(taught, lines ? PROBED : 40), probed(held, lines ? 1e6 : 100)];

  const batchOf = (rows) => {
    const inputs = rows.map((row) => Array.from(row).slice(0, -1));
    return { tokens: pack(inputs, 0), targets: pack(rows.map((row) => Array.from(row).slice(1)), -1),
      rows: rows.length, time: Math.max(...inputs.map((row) => row.length)) };
  };

  function batch(random) {
    const rows = lines ? range(ROWS, () => taught[random.integer(taught.length)])
      : range(WINDOWS, () => {
        const at = random.integer(Math.max(1, cut - WINDOW));
        return ids.subarray(at, Math.min(cut, at + WINDOW + 1));
      });
    return { ...batchOf(rows), noise: random.integer(2 ** 32) };
  }

  /** The mean of -ln p over all tokens of these rows. */
  function loss(read, rows) {
    let [sum, count] = [0, 0];
    for (let at = 0; at < rows.length; at += TOGETHER) {
      const one = batchOf(rows.slice(at, at + TOGETHER));
      const { logits } = read(one);
      one.targets.forEach((target, i) => {
        if (target < 0) return;
        const row = logits.subarray(i * pieces.length, (i + 1) * pieces.length);
        const top = row.reduce((a, b) => Math.max(a, b));
        sum += Math.log(row.reduce((all, logit) => all + Math.exp(logit - top), 0)) + top - row[target];
        count += 1;
      });
    }
    return sum / count;
  }

  const probe = (read) => ({ taught: loss(read, seen), held: loss(read, unseen), counted,
    sizes: { listed: Boolean(lines), taught: lines ? taught.length : cut,
      held: lines ? held.length : ids.length - cut, kinds: pieces.length } });

  const unasked = { tokens: new Int32Array(0), targets: new Int32Array(0) };
  const reading = (rows) => ({ ...unasked, tokens: pack(rows, 0), rows: rows.length, time: rows[0].length });

  /** The reader's wish: { prefix, temperature, k, p, seed }, as text; or { error }. */
  function wishOf(asked) {
    const wish = { prefix: "", temperature: 1, k: 0, p: 1, seed: 0, ...JSON.parse(asked) };
    const { ids: prefix, error } = tokensOf([...wish.prefix], vocabulary,
      "the characters of its text");
    if (error) return { error };
    if (lines && prefix.length > LINE) {
      return { error: `It continues at most ${LINE} letters here; these are ${prefix.length}.` };
    }
    return { ...wish, prefix };
  }

  /** Where what was written, from `start` on, stands in the text over many characters: [[from, to]]. */
  function copies(said, start) {
    const found = [];
    for (let from = Math.max(0, start - COPIED); from + COPIED <= said.length;) {
      let to = from;
      while (to < said.length && begun.includes(said.slice(from, to + 1))) to += 1;
      if (to - from >= COPIED) found.push([from, to]);
      from = to - from >= COPIED ? to : from + 1;
    }
    return found;
  }

  /** Several lines, or one stretch of text, drawn token by token; and the logits behind each token. */
  function written(read, { prefix, seed, temperature, k, p }) {
    const random = makeRandom(seed);
    const rows = range(lines ? LISTED : 1, () => [0, ...prefix]);
    const chances = rows.map(() => []);
    const over = rows.map(() => false);
    const most = lines ? WINDOW : 1 + prefix.length + LONG;
    while (rows[0].length < most && !over.every(Boolean)) {
      const context = rows.map((row) => row.slice(-WINDOW));
      const { logits } = read(reading(context));
      rows.forEach((row, n) => {
        const end = (n + 1) * context[0].length * pieces.length;
        const own = logits.slice(end - pieces.length, end);
        const next = over[n] ? 0 : drawn(probabilities(own, { temperature, k, p }), random.uniform());
        if (!over[n]) chances[n].push(own);
        over[n] ||= Boolean(lines) && next === 0;
        row.push(next);
      });
    }
    return rows.map((row, n) => ({ row: row.slice(1), chances: chances[n] }));
  }

  function ask(read, asked) {
    const wish = wishOf(asked);
    if (wish.error) return wish;
    const start = wish.prefix.length;
    const texts = written(read, wish).map(({ row, chances }) => {
      const ends = row.indexOf(0, start);
      const said = textOf(lines && ends >= 0 ? row.slice(0, ends) : row);
      const state = !lines ? "text" : known.has(said) ? "copied" : kept.has(said) ? "kept" : "new";
      return { said, state, copies: lines ? [] : copies(said, start), chances };
    });
    return { start, texts, pieces, wish: asked };
  }

  /** The maps behind each text of an answer: of what was read before its last token. */
  function behind(read, { texts }) {
    return texts.map(({ said }) => {
      const row = [0, ...numbers(said)].slice(-SHOWN);
      const labels = row.map((id) => pieces[id]);
      return read(reading([row]), { maps: true }).maps.map((map, n) => ({ ...map,
        name: `layer ${n + 1}`, rows: labels, columns: labels }));
    });
  }

  const steps = STEPS[plain.length < SMALL ? "small" : lines ? "lines" : "windows"];
  const design = { ...SIZES, source_vocab: pieces.length, ...(dropout && { dropout }) };
  return { design, options: { ...OPTIONS, steps }, batch, probe, maps: () => [],
    ask(read, asked) {
      const found = ask(read, asked);
      return found.error ? found : { ...found, maps: behind(read, found) };
    } };
}

tasks.add("writing", { make: writing, rules: {
  text: { fits: (value) => typeof value === "string", says: "a text" },
  dropout: { fits: (rate) => rate >= 0 && rate < 1, says: "a rate from 0 to below 1" } } });
