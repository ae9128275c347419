// What the tasks share: lists and shares, what is held out for testing, tokens and how a batch has them.
import { hashOf } from "./random.js";

export const range = (n, entry = (i) => i) => Array.from({ length: n }, (_, i) => entry(i));
export const numbered = (words) => new Map(words.map((word, i) => [word, i]));
export const share = (list) => list.reduce((n, holds) => n + Boolean(holds), 0) / list.length;

export const wordsIn = (text) =>
  text.toLowerCase().replaceAll(".", " . ").split(/\s+/).filter(Boolean);
export const listed = (words) => `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;

/** Whether a text belongs to the one in `oneIn` that no model is trained on. */
export const isHeldOut = (text, oneIn) => (hashOf(text) >>> 8) % oneIn === 0; // by its high bits

/** The likeliest class of each row of logits. */
export function likeliest(logits, classes) {
  return range(logits.length / classes, (row) => {
    let best = row * classes;
    for (let i = best; i < (row + 1) * classes; i += 1) if (logits[i] > logits[best]) best = i;
    return best - row * classes;
  });
}

/** Rows of numbers, made equally long by a number behind them, as one row. */
export function pack(rows, filler) {
  const time = Math.max(...rows.map((row) => row.length));
  return Int32Array.from(rows.flatMap((row) => [...row, ...range(time - row.length, () => filler)]));
}

/** What a reader typed, cut into tokens that the model knows, or an error for the reader. */
export function tokensOf(pieces, vocabulary, known) {
  const stranger = pieces.find((piece) => !vocabulary.has(piece));
  if (stranger !== undefined) {
    return { error: `The model does not know “${stranger}”. It knows ${known}.` };
  }
  return { ids: pieces.map((piece) => vocabulary.get(piece)) };
}

export const digits = range(10, String);
export const digitNumbers = numbered(digits);

// --- a source and a target for each row -------------------------------------------------------------

export const PAD = 0; // behind the end of a text
export const BOS = 1; // what the writer reads first
export const EOS = 2;

/** What a model reads, given sources of tokens. */
export const sourcesOf = (sources) => ({
  source: pack(sources, PAD), source_lengths: Int32Array.from(sources, (ids) => ids.length),
  rows: sources.length, source_time: Math.max(...sources.map((ids) => ids.length)),
});

/** The same with the targets, and what the model reads of them: each token one step later. */
export function taughtOf(sources, targets) {
  const target_in = targets.map((ids) => [BOS, ...ids]);
  return {
    ...sourcesOf(sources),
    target_in: pack(target_in, PAD), target_out: pack(targets.map((ids) => [...ids, EOS]), -1),
    target_time: Math.max(...target_in.map((ids) => ids.length)),
  };
}

/**
 * What a model writes for each source by itself: the likeliest token, again and again, until each
 * text has its end, or as many tokens as `longest`, counted with BOS.
 */
export function written(read, sources, classes, longest) {
  const from = sourcesOf(sources);
  const texts = sources.map(() => [BOS]);
  while (texts[0].length < longest && !texts.every((ids) => ids.includes(EOS))) {
    const target_in = pack(texts, PAD);
    const target_out = target_in.map(() => -1);
    const next = likeliest(
      read({ ...from, target_in, target_out, target_time: texts[0].length }).logits, classes,
    );
    texts.forEach((ids, row) => ids.push(next[(row + 1) * ids.length - 1]));
  }
  return texts.map((ids) => {
    const end = ids.indexOf(EOS);
    return ids.slice(1, end < 0 ? ids.length : end);
  });
}
