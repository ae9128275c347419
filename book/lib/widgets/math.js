// The maths that the widgets share. A vector is an array, a matrix an array of rows.
// A mask is true where a query may attend, as everywhere in this book.
// The tests hold every function here against torch, in a real browser.
const math = (() => {
  const size = (a) => (Array.isArray(a?.[0]) ? `${a.length} x ${a[0].length}` : `${a?.length}`);

  function need(holds, expected, got) {
    if (!holds) throw new Error(`expected ${expected}, got ${got}`);
  }

  /** The sum of products of two vectors. */
  function dot(a, b) {
    need(a.length === b.length, `two vectors of one length`, `${a.length} and ${b.length}`);
    let sum = 0;
    for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
    return sum;
  }

  /** Rows become columns. */
  const transpose = (a) => (a.length ? a[0].map((_, j) => a.map((row) => row[j])) : []);

  /** The matrix product (n x k)(k x m). */
  function matmul(a, b) {
    need(a.every((row) => row.length === b.length),
      `as many columns on the left as rows on the right`, `${size(a)} and ${size(b)}`);
    const columns = transpose(b);
    return a.map((row) => columns.map((column) => dot(row, column)));
  }

  /** x W + b for each row of x, with W as (inputs x outputs); the bias may be left out. */
  function linear(x, weight, bias) {
    const y = matmul(x, weight);
    return bias ? y.map((row) => row.map((value, j) => value + bias[j])) : y;
  }

  /** Softmax of one row. What the mask forbids gets 0; a row that may attend nowhere is all 0. */
  function softmax(row, mask) {
    need(!mask || mask.length === row.length,
      `a mask as long as the row (${row.length})`, mask?.length);
    const allowed = (i) => !mask || mask[i];
    let top = -Infinity;
    row.forEach((value, i) => { if (allowed(i) && value > top) top = value; });
    if (top === -Infinity) return row.map(() => 0);
    const powers = row.map((value, i) => (allowed(i) ? Math.exp(value - top) : 0));
    const total = powers.reduce((sum, value) => sum + value, 0);
    return powers.map((value) => value / total);
  }

  /**
   * Scaled dot-product attention: softmax(Q K^T scale) V.
   * Q is (query x d_k), K (key x d_k), V (key x d_v), the mask (query x key).
   * The scale is 1 / sqrt(d_k) unless given. Returns scores, weights and output.
   */
  function attention(query, key, value, { mask, scale } = {}) {
    need(key.length === value.length, `one value for each key (${key.length})`, value.length);
    need(!mask || (mask.length === query.length && mask.every((r) => r.length === key.length)),
      `a mask of ${query.length} x ${key.length}`, mask && size(mask));
    const factor = scale ?? 1 / Math.sqrt(key[0].length);
    const scores = matmul(query, transpose(key)).map((row) => row.map((s) => s * factor));
    const weights = scores.map((row, i) => softmax(row, mask?.[i]));
    return { scores, weights, output: matmul(weights, value) };
  }

  /** Layer norm of one row: mean 0 and variance 1, then gain and bias for each feature. */
  function layerNorm(row, { gain, bias, eps = 1e-5 } = {}) {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    const scale = 1 / Math.sqrt(variance + eps);
    return row.map((value, i) => (value - mean) * scale * (gain?.[i] ?? 1) + (bias?.[i] ?? 0));
  }

  /** Sinusoidal positions (time x d_model); d_model may be odd. */
  function sinusoidal(time, dModel, base = 10000) {
    return Array.from({ length: time }, (_, position) =>
      Array.from({ length: dModel }, (__, i) => {
        const angle = position / base ** ((i - (i % 2)) / dModel);
        return i % 2 ? Math.cos(angle) : Math.sin(angle);
      }));
  }

  /** The place of the largest entry; the first of several. */
  const argmax = (row) => row.reduce((best, value, i) => (value > row[best] ? i : best), 0);

  /** A function that draws numbers evenly from [0, 1), the same ones for the same seed. */
  function uniform(seed) {
    let state = seed >>> 0; // the generator mulberry32: 32 bits of state are plenty here
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let bits = Math.imul(state ^ (state >>> 15), state | 1);
      bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
      return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  /** A function that draws standard normal numbers (Box and Muller), fixed by the seed. */
  function normal(seed) {
    const draw = uniform(seed);
    return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
  }

  /** A matrix of numbers from such a function. */
  const matrix = (rows, columns, draw) =>
    Array.from({ length: rows }, () => Array.from({ length: columns }, () => draw()));

  return {
    dot, transpose, matmul, linear, softmax, attention, layerNorm, sinusoidal, argmax, uniform,
    normal, matrix,
  };
})();
