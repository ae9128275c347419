// The book's Transformer in plain JavaScript: the forward pass of lib.transformer, token by token,
// with a cache of keys and values. A vector is a Float64Array; the weights are Float32Arrays.
import * as math from "./math.js";
import * as parameters from "./parameters.js";
import * as vocabulary from "./vocabulary.js";

export const BOS = 1;
export const EOS = 2;

// --- parts ------------------------------------------------------------------------------------

/** W x + b; W lies row by row in one array, four products of a row at a time. */
function linear({ weight, bias }, x) {
  const width = x.length;
  const even = width - (width % 4);
  const out = new Float64Array(weight.length / width);
  for (let row = 0, at = 0; row < out.length; row += 1, at += width) {
    let [a, b, c, d] = [bias ? bias[row] : 0, 0, 0, 0];
    for (let i = 0; i < even; i += 4) {
      a += weight[at + i] * x[i];
      b += weight[at + i + 1] * x[i + 1];
      c += weight[at + i + 2] * x[i + 2];
      d += weight[at + i + 3] * x[i + 3];
    }
    for (let i = even; i < width; i += 1) a += weight[at + i] * x[i];
    out[row] = a + b + c + d;
  }
  return out;
}

function layerNorm({ gain, bias }, x) {
  let [mean, variance] = [0, 0];
  for (const value of x) mean += value / x.length;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  return x.map((value, i) => (value - mean) * scale * gain[i] + bias[i]);
}

/** Turns each pair of entries of each head by an angle that grows with the position. */
function rotate(x, position, width) {
  const out = new Float64Array(x.length);
  for (let i = 0; i < x.length; i += 2) {
    const angle = position * 10000 ** (-(i % width) / width);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    out[i] = x[i] * cos - x[i + 1] * sin;
    out[i + 1] = x[i] * sin + x[i + 1] * cos;
  }
  return out;
}

/** One query over all keys: the heads' outputs side by side, and a row of weights for each. */
function attend(query, { keys, values }, heads) {
  const width = query.length / heads;
  const output = new Float64Array(query.length);
  const weights = [];
  for (let from = 0; from < query.length; from += width) {
    const scores = keys.map((key) => {
      let sum = 0;
      for (let i = from; i < from + width; i += 1) sum += query[i] * key[i];
      return sum / Math.sqrt(width);
    });
    const row = math.softmax(scores);
    row.forEach((weight, j) => {
      for (let i = from; i < from + width; i += 1) output[i] += weight * values[j][i];
    });
    weights.push(row);
  }
  return { output, weights };
}

// --- the model --------------------------------------------------------------------------------

/**
 * A model from its header and the bytes of its weights, see widgets.packing. It offers
 *   pieces(word) -> its token numbers, one unless the model reads sub-words; encode(words) -> all
 *   start(ids, hooks) -> state, after the encoder has read the source's token numbers
 *   step(id, state) -> logits of the next token; the state's caches grow by one position
 *   project(x) -> the logits of a normalised row; guess(x) -> those of a row of the decoder's
 *     stream, if it were normalised and projected here
 * There are two hooks, which need not be given. note(name, before, after, seen) hears of each
 * step of the pass, under lib's name for it: the rows of the stream before it (null where it adds nothing) and after, and for attention what was
 * seen: maps, the weights of each row and head; queries, of each row, and keys, of all positions,
 * both with the heads side by side and as their products are taken (turned, if they turn).
 * edit(name, output) may change what the heads of an attention layer give at a position, side by
 * side, before W_o.
 */
export function build({ header, data }) {
  const { config } = header;
  const pieces = vocabulary.reader(header);
  const found = parameters.read(header, data);
  const get = (name) => found.get(name);
  const affine = (name) => ({ weight: get(`${name}.weight`), bias: get(`${name}.bias`) });
  const norm = (name) => (get(`${name}.gain`)
    ? { gain: get(`${name}.gain`), bias: get(`${name}.bias`) } : null);
  /** @returns {any} a sub-layer: its name, its norm, and its projections by their names */
  const part = (name, names) => ({ name, norm: norm(`${name}.norm`),
    ...Object.fromEntries(names.map((n) => [n, affine(`${name}.sublayer.${n}`)])) });
  const layers = (stack) => Array.from({ length: config.n_layers }, (_, n) => {
    const name = `${stack}.layers.${n}`;
    const attention = (kind) => part(`${name}.${kind}_attention`, ["w_q", "w_k", "w_v", "w_o"]);
    return { self: attention("self"), cross: attention("cross"),
      feed: part(`${name}.feed_forward`, ["w_1", "w_2"]) };
  });
  const [encoder, decoder] = ["encoder", "decoder"].map(layers);
  const ends = { encoder: norm("encoder.norm"), decoder: norm("decoder.norm") };
  const { d_model: width, n_heads: heads } = config;
  const turn = (x, position) => (config.positions === "rotary"
    ? rotate(x, position, width / heads) : x);

  function embed(side, id, position) {
    const row = get(`${side}_embedding.weight`).subarray(id * width, (id + 1) * width);
    const mark = config.positions === "sinusoidal"
      ? math.sinusoidal(position + 1, width)[position] : null;
    return Float64Array.from(row, (value, i) => value * Math.sqrt(width) + (mark ? mark[i] : 0));
  }

  /** A sub-layer beside the path on which its input passes: pre-norm or post-norm. */
  function residual({ name, norm: own }, rows, { note }, sublayer) {
    const pre = config.norm === "pre";
    const { changes, seen } = sublayer(pre ? rows.map((x) => layerNorm(own, x)) : rows);
    const after = rows.map((x, i) => {
      const sum = x.map((value, j) => value + changes[i][j]);
      return pre ? sum : layerNorm(own, sum);
    });
    note(name, rows, after, seen);
    return after;
  }

  /** Attention of rows that stand at `offset`, offset + 1, ... to all that the cache holds. */
  const look = ({ name, w_q: q, w_o: o }, cache, offset, { edit }) => (rows) => {
    const queries = rows.map((x, i) => (
      offset === null ? linear(q, x) : turn(linear(q, x), offset + i)));
    const found = queries.map((query) => attend(query, cache, heads));
    for (const { output } of found) edit(name, output);
    return { changes: found.map(({ output }) => linear(o, output)),
      seen: { maps: found.map(({ weights }) => weights), queries, keys: cache.keys } };
  };
  const grow = ({ w_k: k, w_v: v }, cache, rows, offset) => rows.forEach((x, i) => {
    const key = linear(k, x);
    cache.keys.push(offset === null ? key : turn(key, offset + i));
    cache.values.push(linear(v, x));
  });
  const lookAtOwn = (layer, cache, offset, hooks) => (rows) => {
    grow(layer, cache, rows, offset);
    return look(layer, cache, offset, hooks)(rows);
  };
  const feed = ({ w_1: first, w_2: second }) => (rows) => ({
    changes: rows.map((x) => linear(second, linear(first, x).map((v) => Math.max(0, v)))) });
  const finish = (stack, rows, { note }) => {
    if (!ends[stack]) return rows;
    const after = rows.map((x) => layerNorm(ends[stack], x));
    note(`${stack}.norm`, null, after);
    return after;
  };
  const project = (x) => linear({ weight: get("projection.weight"), bias: undefined }, x);
  const empty = () => ({ keys: [], values: [] });
  /** @type {(...given: any[]) => void} */
  const ignore = () => {};

  return {
    config,
    source: vocabulary.all(header.source_words),
    target: vocabulary.all(header.target_words),
    pieces,
    encode: (words) => words.flatMap(pieces),
    start(ids, { note = ignore, edit = ignore } = {}) {
      const hooks = { note, edit };
      let rows = ids.map((id, i) => embed("source", id, i));
      note("encoder.embedding", null, rows);
      for (const layer of encoder) {
        rows = residual(layer.self, rows, hooks, lookAtOwn(layer.self, empty(), 0, hooks));
        rows = residual(layer.feed, rows, hooks, feed(layer.feed));
      }
      const memory = finish("encoder", rows, hooks);
      const caches = decoder.map((layer) => {
        const cross = empty(); // filled here, then only read: the memory stays the same
        grow(layer.cross, cross, memory, null);
        return { own: empty(), cross };
      });
      return { length: 0, caches, hooks };
    },
    step(id, state) {
      const { length: at, hooks } = state;
      state.length += 1;
      let rows = [embed("target", id, at)];
      hooks.note("decoder.embedding", null, rows);
      decoder.forEach((layer, n) => {
        const { own, cross } = state.caches[n];
        rows = residual(layer.self, rows, hooks, lookAtOwn(layer.self, own, at, hooks));
        rows = residual(layer.cross, rows, hooks, look(layer.cross, cross, null, hooks));
        rows = residual(layer.feed, rows, hooks, feed(layer.feed));
      });
      const [last] = finish("decoder", rows, hooks);
      const logits = project(last);
      hooks.note("projection", null, [logits]);
      return logits;
    },
    project,
    guess: (x) => project(ends.decoder ? layerNorm(ends.decoder, x) : x),
  };
}

/**
 * The likeliest token at each step, until the end or `longest` tokens; EOS counts. Options: the
 * model's hooks, and choose(logits, n), which takes the next token in its stead, after n of them.
 * They come one by one, so that other work can be done between two of them.
 * @param {any} model
 * @param {number[]} ids
 * @param {number} longest
 * @param {Record<string, any>} options
 */
export function* tokens(model, ids, longest, { choose = math.argmax, ...hooks } = {}) {
  const state = model.start([...ids, EOS], hooks);
  let token = BOS;
  for (let n = 0; n < longest && token !== EOS; n += 1) {
    token = choose(model.step(token, state), n);
    yield token;
  }
}
/** All of them. */
export const greedy = (model, ids, longest, options = {}) =>
  [...tokens(model, ids, longest, options)];
