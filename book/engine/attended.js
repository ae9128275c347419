// What the tasks of one stack share: its design, its batches, and its attention maps.
import { pack, range } from "./batches.js";

/** A batch of pairs {input, answer}. */
export const batchOf = (pairs) => ({
  tokens: pack(pairs.map(({ input }) => input)), rows: pairs.length, time: pairs[0].input.length,
  targets: pack(pairs.map(({ answer }) => answer)),
});

/** A text whose answer is not known, or not asked for. */
export const unanswered = (input, outputs = 1) =>
  ({ input, answer: range(input.length * outputs, () => -1) });

export const layerNumber = (name) => Number(/\d+/.exec(name)[0]) + 1;

/** The maps of one text; token: what the reader sees of a number. */
export function mapsOf(read, input, token, batch = batchOf([unanswered(input)])) {
  const labels = input.map(token);
  return read(batch, { maps: true }).maps.map((map) => ({
    ...map, rows: labels, columns: labels,
    name: map.name === "attention" ? map.name : `layer ${layerNumber(map.name)}`,
  }));
}

export const oneStack = (more) => ({
  kind: "one_stack", causal: false, norm: "pre", positions: "none", activation: "relu", tied: false,
  d_ff: 2 * more.d_model, ...more,
});
