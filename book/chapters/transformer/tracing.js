// A sentence's whole way through a model: what ForwardTracer.from_model stores, computed here.
import * as math from "../../widgets/js/math.js";
import * as transformer from "../../widgets/js/transformer.js";

const thousandths = (share) => Math.round(1000 * share);
const length = (x) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));
const hundredths = (value) => Math.round(100 * value) / 100;

/** The k likeliest tokens with their probabilities, the likeliest first. */
function likeliest(logits, tokens, k) {
  const chances = math.softmax(logits);
  const left = new Set(chances.keys());
  return Array.from({ length: Math.min(k, chances.length) }, () => {
    let best = -1;
    for (const i of left) if (best < 0 || chances[i] > chances[best]) best = i;
    left.delete(best);
    return [tokens[best], thousandths(chances[best])];
  });
}

/** What a stage of the decoder would predict at a position; computed when it is first asked for. */
export const guessed = ({ guesses, guess }, stage, at) =>
  (guesses[stage][at] ??= guess(stage, at));

/**
 * Translates a source and keeps each step of the pass. Options: stages, as the tracer has them;
 * longest, of the translation; k, how many guesses at the projection (before it at most 3);
 * say, the words of a translation, which then takes the place of the model's own; numbers, those of
 * the source's tokens, if they are not the words'.
 * Returns one of the tracer's sentences: { source, read, said, maps, lengths, changes, guesses },
 * and beside them vectors: for each attention layer its { queries, keys }, see transformer.js. Of
 * the guesses only those of the projection are there: each other one costs a projection of its own,
 * in a large model more than half of the time; `guessed` makes them, by guess(stage, at).
 * @param {any} model
 * @param {string[]} words
 * @param {{ stages: any[], longest: number, k?: number, say?: string[],
 *   numbers?: number[] }} options
 */
export function trace(model, words, { stages, longest, k = 5, say, numbers = model.encode(words) }) {
  const maps = {};
  const vectors = {};
  const found = new Map(stages.map(({ name }) =>
    [name, { lengths: [], changes: [], rows: [] }]));
  function note(name, before, after, seen) {
    const { lengths, changes, rows } = found.get(name);
    after.forEach((x, i) => {
      lengths.push(hundredths(length(x)));
      if (before) changes.push(hundredths(length(x.map((value, j) => value - before[i][j]))));
    });
    if (name === "projection") rows.push(likeliest(after[0], model.target, k));
    else rows.push(...after);
    if (!seen) return;
    for (const [h, row] of seen.maps.flatMap((heads) => [...heads.entries()])) {
      ((maps[name] ??= [])[h] ??= []).push(Array.from(row, thousandths));
    }
    (vectors[name] ??= { queries: [], keys: seen.keys }).queries.push(...seen.queries);
  }
  const hooks = say ? { note, choose: (_, n) => model.target.indexOf(say[n]) } : { note };
  const said = transformer.greedy(model, numbers, say?.length ?? longest, hooks)
    .map((id) => model.target[id]);
  for (const heads of Object.values(maps)) { // a causal map is stored whole, with zeros
    for (const rows of heads) {
      const width = Math.max(...rows.map((row) => row.length));
      for (const row of rows) while (row.length < width) row.push(0);
    }
  }
  const decoder = stages.filter(({ side }) => side === "target");
  const all = (key) => stages.map(({ name }) => found.get(name)[key]);
  return {
    source: [...numbers, transformer.EOS].map((id) => model.source[id]),
    read: [model.target[transformer.BOS], ...said.slice(0, -1)],
    said,
    maps,
    vectors,
    lengths: all("lengths"),
    changes: all("changes"),
    guesses: decoder.map(({ name, kind }) => (kind === "project" ? found.get(name).rows : [])),
    guess(stage, at) {
      const { name, kind } = decoder[stage];
      const x = found.get(name).rows[at];
      return likeliest(kind === "norm" ? model.project(x) : model.guess(x), model.target,
        Math.min(k, 3));
    },
  };
}
