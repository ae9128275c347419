// The maths that the widgets share. A vector is an array, a matrix an array of rows.
// A mask is true where a query may attend, as everywhere in this book.
// The tests hold every function here against torch, in a real browser.

const size = (a) => (Array.isArray(a?.[0]) ? `${a.length} x ${a[0].length}` : `${a?.length}`);

function need(holds, expected, got) {
  if (!holds) throw new Error(`expected ${expected}, got ${got}`);
}

/** The sum of products of two vectors. */
export function dot(a, b) {
  need(a.length === b.length, `two vectors of one length`, `${a.length} and ${b.length}`);
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

/** Rows become columns. */
export const transpose = (a) => (a.length ? a[0].map((_, j) => a.map((row) => row[j])) : []);

/** The matrix product (n x k)(k x m), row by row: the order in which the numbers lie. */
export function matmul(a, b) {
  need(a.every((row) => row.length === b.length),
    `as many columns on the left as rows on the right`, `${size(a)} and ${size(b)}`);
  return a.map((row) => {
    const sum = new Float64Array(b[0]?.length ?? 0);
    for (let k = 0; k < b.length; k += 1) {
      const [factor, line] = [row[k], b[k]];
      for (let j = 0; j < sum.length; j += 1) sum[j] += factor * line[j];
    }
    return Array.from(sum);
  });
}

/** x W + b for each row of x, with W as (inputs x outputs); the bias may be left out. */
export function linear(x, weight, bias) {
  const y = matmul(x, weight);
  return bias ? y.map((row) => row.map((value, j) => value + bias[j])) : y;
}

/** Softmax of one row. What the mask forbids gets 0; a row that may attend nowhere is all 0. */
export function softmax(row, mask) {
  need(!mask || mask.length === row.length,
    `a mask as long as the row (${row.length})`, mask?.length);
  let top = -Infinity;
  for (let i = 0; i < row.length; i += 1) if ((!mask || mask[i]) && row[i] > top) top = row[i];
  const weights = new Array(row.length).fill(0);
  if (top === -Infinity) return weights;
  let total = 0;
  for (let i = 0; i < row.length; i += 1) {
    if (!mask || mask[i]) weights[i] = Math.exp(row[i] - top);
    total += weights[i];
  }
  for (let i = 0; i < row.length; i += 1) weights[i] /= total;
  return weights;
}

/** Entropy of a row of weights, in nats: ln n where all n are equal, 0 where one has it all. */
export function entropy(row) {
  let sum = 0;
  for (const weight of row) if (weight > 0) sum -= weight * Math.log(weight);
  return sum;
}

/** The sum of a (1 - a), the trace of the Jacobian of a softmax with weights a. */
export const sensitivity = (row) => row.reduce((sum, weight) => sum + weight * (1 - weight), 0);

/** A mask (query x key) from a rule (i, j) -> true where query i may attend to key j. */
const maskOf = (queries, keys, rule) =>
  Array.from({ length: queries }, (_, i) => Array.from({ length: keys }, (__, j) => rule(i, j)));

/** Only the first keys: one length for all queries, or a list with one for each query. */
export function paddingMask(queries, keys, length) {
  need(!Array.isArray(length) || length.length === queries,
    `one length for each query (${queries})`, length.length);
  return maskOf(queries, keys, (i, j) => j < (Array.isArray(length) ? length[i] : length));
}

// The last query stands at the last key, as in decoding with a cache of earlier keys.
function banded(queries, keys, rule) {
  need(queries <= keys, `at least as many keys as queries`, `${queries} queries, ${keys} keys`);
  return maskOf(queries, keys, (i, j) => rule(j - i - (keys - queries)));
}

/** No key after the query. */
export const causalMask = (queries, keys = queries) => banded(queries, keys, (ahead) => ahead <= 0);

/** No key further from the query than the radius. */
export const windowMask = (queries, radius, keys = queries) =>
  banded(queries, keys, (ahead) => Math.abs(ahead) <= radius);

/** What every mask allows. */
export function combineMasks(first, ...others) {
  need(others.every((other) => size(other) === size(first)),
    `masks of one size (${size(first)})`, others.map(size).join(", "));
  return first.map((row, i) => row.map((open, j) => open && others.every((o) => o[i][j])));
}

/**
 * Which outputs depend on which inputs, after some layers of self-attention under one mask: the
 * places (output x input) where the Jacobian is not exactly zero. An output depends on what its
 * query may attend to; and, through the query, on its own input, unless the values that it mixes
 * are all the same one: then the weights change nothing, for they sum to 1 (or there are none).
 */
export function influence(mask, layers = 1) {
  const n = mask.length;
  need(mask.every((row) => row.length === n), `as many keys as queries`, size(mask));
  let reach = mask.map((_, i) => Uint8Array.from(mask, (__, j) => Number(i === j)));
  let kinds = mask.map((_, i) => i); // positions of one kind hold the same vector; -1 if it is 0
  const seen = mask.map((row) => row.flatMap((open, j) => (open ? [j] : [])));
  for (let layer = 0; layer < layers; layer += 1) {
    const mixed = seen.map((keys) => keys.some((j) => kinds[j] !== kinds[keys[0]]));
    const next = seen.map((keys, i) => {
      const sum = new Uint8Array(n);
      for (const k of mixed[i] ? [i, ...keys] : keys) {
        for (let j = 0; j < n; j += 1) sum[j] |= reach[k][j];
      }
      return sum;
    });
    const names = seen.map((keys, i) => (!mixed[i] ? `${kinds[keys[0]] ?? -1}`
      : `${kinds[i]} on ${Int16Array.from(keys, (j) => kinds[j]).sort()}`));
    const first = new Map([["-1", -1]]);
    names.forEach((name, i) => { if (!first.has(name)) first.set(name, i); });
    const before = [`${kinds}`, reach];
    [reach, kinds] = [next, names.map((name) => first.get(name))];
    const settled = before[0] === `${kinds}`
      && reach.every((row, i) => row.every((on, j) => on === before[1][i][j]));
    if (settled) break; // and so each further layer would leave it
  }
  return reach.map((row) => Array.from(row, Boolean));
}

/**
 * Scaled dot-product attention: softmax(Q K^T scale) V.
 * Q is (query x d_k), K (key x d_k), V (key x d_v), the mask (query x key).
 * The scale is 1 / sqrt(d_k) unless given. Returns scores, weights and output.
 * @param {number[][]} query
 * @param {number[][]} key
 * @param {number[][]} value
 * @param {{ mask?: boolean[][], scale?: number }} options
 */
export function attention(query, key, value, { mask, scale } = {}) {
  need(key.length === value.length, `one value for each key (${key.length})`, value.length);
  need(!mask || (mask.length === query.length && mask.every((r) => r.length === key.length)),
    `a mask of ${query.length} x ${key.length}`, mask && size(mask));
  const factor = scale ?? 1 / Math.sqrt(key[0].length);
  const scores = query.map((q) => key.map((k) => dot(q, k) * factor));
  const weights = scores.map((row, i) => softmax(row, mask?.[i]));
  return { scores, weights, output: matmul(weights, value) };
}

/**
 * Layer norm of one row: mean 0 and variance 1, then gain and bias for each feature.
 * @param {number[]} row
 * @param {{ gain?: number[], bias?: number[], eps?: number }} options
 */
export function layerNorm(row, { gain, bias, eps = 1e-5 } = {}) {
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
  const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
  const scale = 1 / Math.sqrt(variance + eps);
  return row.map((value, i) => (value - mean) * scale * (gain?.[i] ?? 1) + (bias?.[i] ?? 0));
}

/** Sinusoidal positions (time x d_model); d_model may be odd. */
export function sinusoidal(time, dModel, base = 10000) {
  const rates = Array.from({ length: dModel }, (_, i) => base ** (-(i - (i % 2)) / dModel));
  return Array.from({ length: time }, (_, position) => rates.map((rate, i) =>
    (i % 2 ? Math.cos(position * rate) : Math.sin(position * rate))));
}

/** The place of the largest entry; the first of several. */
export const argmax = (row) => row.reduce((best, value, i) => (value > row[best] ? i : best), 0);

/** A function that draws numbers evenly from [0, 1), the same ones for the same seed. */
export function uniform(seed) {
  let state = seed >>> 0; // the generator mulberry32: 32 bits of state are plenty here
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A function that draws standard normal numbers (Box and Muller), fixed by the seed. */
export function normal(seed) {
  const draw = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}

/** A matrix of numbers from such a function. */
export const matrix = (rows, columns, draw) =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, () => draw()));
