// writing: a language model of characters or byte pairs, on a text that the reader chooses or pastes.
import { isHeldOut, numbered, pack, range, tokensOf } from "./batches.js";
import { learned } from "./byte_pairs.js";
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
const MERGES = 1000; // at most
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
  const characters = [END, ...known.sort()];
  const kept = new Set(characters);
  return { plain: [...plain].filter((c) => kept.has(c)).slice(0, MOST), characters };
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

/** text: to learn from; merges: of byte pairs, 0 for characters; dropout: a rate, 0 for none. */
function writing({ text, merges, dropout }) {
  const { plain, characters } = cleaned(text);
  need(plain.length >= LEAST, `The text has ${plain.length} characters that count; a model needs at `
    + `least ${LEAST}.`);
  const lines = listed(plain.join(""));
  // The texts to learn from, and those that are kept back: each line is one, or a stretch.
  const cut = Math.floor(0.9 * plain.length);
  const [shown, hidden] = lines
    ? [false, true].map((held) => lines.filter((line) => isHeldOut(line, 10) === held))
    : [plain.slice(0, cut), plain.slice(cut)].map((stretch) => [stretch.join("")]);
  const { pieces, encode } = learned(shown, characters, merges);
  const sizes = pieces.map((piece) => [...piece].length);
  const textOf = (ids) => ids.map((id) => pieces[id]).join("");

  // Rows of tokens, the first of which is read alone.
  const rowsOf = (texts, of) => texts.map((one) => (lines ? [0, ...of(one), 0] : of(one)));
  const windows = ([ids]) => range(Math.ceil((ids.length - 1) / WINDOW), (k) =>
    ids.slice(k * WINDOW, (k + 1) * WINDOW + 1));
  const encoded = [shown, hidden].map((texts) => rowsOf(texts, encode));
  const [taught, held] = lines ? encoded : encoded.map(windows);
  const [[ids]] = encoded; // of running text: all
  need(held.length > 1, "The text is too short to keep a tenth of it back.");
  const known = new Set(shown);
  const kept = new Set(hidden);
  const vocabulary = numbered(characters);
  let counted = null; // the losses of n-grams, of characters for each kind of pieces
  const counts = () => counted ??= countedLosses(...[shown, hidden].map((texts) =>
    rowsOf(texts, (one) => [...one].map((c) => vocabulary.get(c)))), characters.length);
  // The same rows at each probe: spread over the text, as many as the model can read in a moment.
  const probed = (rows, most) => {
    const every = Math.max(1, rows.length / most);
    return range(Math.min(most, rows.length), (k) => rows[Math.floor(k * every)])
      .sort((a, b) => a.length - b.length);
  };
  const [seen, unseen] = [probed(taught, lines ? PROBED : 40), probed(held, lines ? 1e6 : 100)];

  const tokens = encoded[0].flatMap((row) => row.slice(1));
  const long = tokens.reduce((sum, id) => sum + sizes[id], 0) / tokens.length; // characters of a piece

  const batchOf = (rows) => {
    const inputs = rows.map((row) => row.slice(0, -1));
    return { tokens: pack(inputs, 0), targets: pack(rows.map((row) => row.slice(1)), -1),
      rows: rows.length, time: Math.max(...inputs.map((row) => row.length)) };
  };

  function batch(random) {
    const rows = lines ? range(ROWS, () => taught[random.integer(taught.length)])
      : range(WINDOWS, () => {
        const at = random.integer(Math.max(1, ids.length - WINDOW));
        return ids.slice(at, at + WINDOW + 1);
      });
    return { ...batchOf(rows), noise: random.integer(2 ** 32) };
  }

  /** The sum of -ln p over all tokens of these rows, for each of their characters. */
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
        count += sizes[target];
      });
    }
    return sum / count;
  }

  const probe = (read) => ({ taught: loss(read, seen), held: loss(read, unseen), counted: counts(),
    sizes: { listed: Boolean(lines), taught: lines ? taught.length : cut, kinds: pieces.length,
      held: lines ? held.length : plain.length - cut, long } });

  const unasked = { tokens: new Int32Array(0), targets: new Int32Array(0) };
  const reading = (rows) => ({ ...unasked, tokens: pack(rows, 0), rows: rows.length, time: rows[0].length });

  /** The reader's wish: { prefix, temperature, k, p, seed }, as text; or { error }. */
  function wishOf(asked) {
    const wish = { prefix: "", temperature: 1, k: 0, p: 1, seed: 0, ...JSON.parse(asked) };
    const { ids: typed, error } = tokensOf([...wish.prefix], vocabulary,
      "the characters of its text");
    if (error) return { error };
    if (lines && typed.length > LINE) {
      return { error: `It continues at most ${LINE} letters here; these are ${typed.length}.` };
    }
    return { ...wish, prefix: encode(wish.prefix) };
  }

  /** Where what was written, from `start` on, stands in the text over many characters: [[from, to]]. */
  function copies(row, start) {
    const found = [];
    const isIn = (from, to) => shown[0].includes(textOf(row.slice(from, to)));
    const size = (from, to) => row.slice(from, to).reduce((sum, id) => sum + sizes[id], 0);
    for (let from = Math.max(0, start - COPIED); from < row.length;) {
      let to = from;
      while (to < row.length && isIn(from, to + 1)) to += 1;
      const isCopy = size(from, to) >= COPIED;
      if (isCopy) found.push([from, to]);
      from = isCopy ? to : from + 1;
    }
    return found;
  }

  /** Several lines, or one stretch of text, drawn token by token; and the logits behind each token. */
  function written(read, { prefix, seed, temperature, k, p }) {
    const random = makeRandom(seed);
    const rows = range(lines ? LISTED : 1, () => [0, ...prefix]);
    const chances = rows.map(() => []);
    const over = rows.map(() => false);
    let left = lines ? Infinity : LONG;
    while (left > 0 && rows[0].length < (lines ? WINDOW : Infinity) && !over.every(Boolean)) {
      const context = rows.map((row) => row.slice(-WINDOW));
      const { logits } = read(reading(context));
      rows.forEach((row, n) => {
        const end = (n + 1) * context[0].length * pieces.length;
        const own = logits.slice(end - pieces.length, end);
        const next = over[n] ? 0 : drawn(probabilities(own, { temperature, k, p }), random.uniform());
        if (!over[n]) chances[n].push(own);
        over[n] ||= Boolean(lines) && next === 0;
        row.push(next);
        left -= sizes[next];
      });
    }
    return rows.map((row, n) => ({ row: row.slice(1), chances: chances[n] }));
  }

  function ask(read, asked) {
    const wish = wishOf(asked);
    if (wish.error) return wish;
    const start = wish.prefix.length;
    const texts = written(read, wish).map(({ row: whole, chances }) => {
      const ends = lines ? whole.indexOf(0, start) : -1;
      const row = ends >= 0 ? whole.slice(0, ends) : whole;
      const said = textOf(row);
      const state = !lines ? "text" : known.has(said) ? "copied" : kept.has(said) ? "kept" : "new";
      return { said, row, state, copies: lines ? [] : copies(row, start), chances };
    });
    return { start, texts, pieces, wish: asked };
  }

  /** The maps behind each text of an answer: of what was read before its last token. */
  function behind(read, { texts }) {
    return texts.map(({ row }) => {
      const last = [0, ...row].slice(-SHOWN);
      const labels = last.map((id) => pieces[id]);
      return read(reading([last]), { maps: true }).maps.map((map, n) => ({ ...map,
        name: `layer ${n + 1}`, rows: labels, columns: labels }));
    });
  }

  const steps = STEPS[plain.length < SMALL ? "small" : lines ? "lines" : "windows"];
  const design = { ...SIZES, source_vocab: pieces.length, ...(dropout && { dropout }) };
  return { design, options: { ...OPTIONS, steps }, tokens: [pieces], batch, probe, maps: () => [],
    ask(read, asked) {
      const found = ask(read, asked);
      return found.error ? found : { ...found, maps: behind(read, found) };
    } };
}

tasks.add("writing", { make: writing, rules: {
  text: { fits: (value) => typeof value === "string", says: "a text" },
  merges: { fits: (value) => Number.isInteger(value) && value >= 0 && value <= MERGES,
    says: `a whole number from 0 to ${MERGES}` },
  dropout: { fits: (rate) => rate >= 0 && rate < 1, says: "a rate from 0 to below 1" } } });
