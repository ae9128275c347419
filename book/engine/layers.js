// The layers of lib.layers, lib.attention, lib.positions and lib.transformer: the same names and
// the same order, forward only, for each operation of the engine knows its own way back.
import * as math from "../widgets/js/math.js";
import { oneOf } from "./tensors.js";

const MULTIPLE = "expected d_model to be a multiple of n_heads, got";

/** Whether a design has this part: `without` names those that it leaves out. */
const has = ({ without = [] }, part) => !without.includes(part);

/**
 * Where a layer stands in its model: makes parameters under torch's names for them. random: the
 * generator of their first numbers, or a function that gives one for each name.
 */
export class Scope {
  constructor(engine, random, name = "", lists = { parameters: [], attention: [] }) {
    this.engine = engine;
    this.random = random;
    this.name = name;
    this.lists = lists;
  }

  in(name) {
    return new Scope(this.engine, this.random, `${this.name}${name}.`, this.lists);
  }

  /** A parameter whose numbers fill() makes. */
  parameter(name, shape, fill) {
    const whole = `${this.name}${name}`;
    const { random } = this;
    const drawn = typeof random === "function" ? random(whole) : random;
    const made = this.engine.parameter(whole, shape, () => fill(drawn));
    this.lists.parameters.push(made);
    return made;
  }

  /** One of numbers drawn evenly from -bound to bound. */
  uniform(name, shape, bound) {
    return this.parameter(name, shape, (random) => bound * (2 * random.uniform() - 1));
  }

  /** One of normal numbers with mean 0. */
  normal(name, shape, std) {
    return this.parameter(name, shape, (random) => std * random.normal());
  }
}

/** x W^T + b. It begins as torch's nn.Linear does, or as those of our layers: xavier, no bias. */
export class Linear {
  constructor(scope, inputs, outputs, { bias = true, xavier = false, zero = false } = {}) {
    const spread = xavier ? Math.sqrt(6 / (inputs + outputs)) : 1 / Math.sqrt(inputs);
    const bound = zero ? 0 : spread;
    this.engine = scope.engine;
    this.weight = scope.uniform("weight", [outputs, inputs], bound);
    this.bias = bias ? scope.uniform("bias", [outputs], xavier ? 0 : bound) : null;
  }

  forward(x) { return this.engine.linear(x, this.weight, this.bias); }
}

/** A row of the matrix for each token, times sqrt(d_model); std: of what comes out. */
export class Embedding {
  constructor(scope, vocab, d_model, { std = 1, scale = Math.sqrt(d_model) } = {}) {
    this.engine = scope.engine;
    this.scale = scale;
    this.weight = scope.normal("weight", [vocab, d_model], std / scale);
  }

  forward(tokens, shape) { return this.engine.embedding(tokens, shape, this.weight, this.scale); }
}

/** x E^T: each token is scored by its own embedding. */
export class TiedProjection {
  constructor(embedding) { this.embedding = embedding; }

  forward(x) { return this.embedding.engine.linear(x, this.embedding.weight, null); }
}

class LayerNorm {
  constructor(scope, d_model) {
    this.engine = scope.engine;
    this.gain = scope.parameter("gain", [d_model], () => 1);
    this.bias = scope.parameter("bias", [d_model], () => 0);
  }

  forward(x) { return this.engine.layerNorm(x, this.gain, this.bias, 1e-5); }
}

/** max(0, x W_1 + b_1) W_2 + b_2; without its ReLU, two matrices one behind the other. */
class FeedForward {
  constructor(scope, config) {
    const { d_model, d_ff } = config;
    this.engine = scope.engine;
    this.bends = has(config, "relu");
    this.w_1 = new Linear(scope.in("w_1"), d_model, d_ff, { xavier: true });
    this.w_2 = new Linear(scope.in("w_2"), d_ff, d_model, { xavier: true });
  }

  forward(x) {
    const inner = this.w_1.forward(x);
    return this.w_2.forward(this.bends ? this.engine.relu(inner) : inner);
  }
}

// --- positions --------------------------------------------------------------------------------

/** No positions at all, and what each scheme has in common. */
class Positions {
  add(x) { return x; }

  rotate(x) { return x; }

  get slopes() { return null; }
}

/** The first rows of the book's table of sines and cosines, row by row. */
function sinusoidalTable(time, width) {
  return Float32Array.from(math.sinusoidal(time, width).flat());
}

class Sinusoidal extends Positions {
  constructor(scope) {
    super();
    this.engine = scope.engine;
  }

  add(x) {
    const [, time, width] = x.shape;
    const table = this.engine.constant([time, width], sinusoidalTable(time, width));
    return this.engine.addPositions(x, table);
  }
}

/** A vector that is learned for each position; there is none from max_length on. */
export class Learned extends Positions {
  constructor(scope, { d_model, max_length }, std = 0.5) {
    super();
    this.engine = scope.engine;
    this.weight = scope.normal("weight", [max_length, d_model], std);
  }

  add(x) {
    const [[, time], [longest]] = [x.shape, this.weight.shape];
    if (time > longest) throw new Error(`expected at most ${longest} positions, got ${time}`);
    return this.engine.addPositions(x, this.weight);
  }
}

/** Queries and keys turn, pair by pair, by angles that grow with the position. */
class Rotary extends Positions {
  constructor(scope, { d_model, n_heads }) {
    super();
    const d_k = d_model / n_heads;
    if (d_k % 2) throw new Error(`expected an even d_k for rotary positions, got ${d_k}`);
    this.engine = scope.engine;
    this.n_heads = n_heads;
  }

  rotate(x) {
    const angles = sinusoidalTable(x.shape[1], x.width / this.n_heads);
    return this.engine.rotate(x, angles, this.n_heads);
  }
}

/** Each score falls with the distance of query and key: by the slope of its head. */
class ALiBi extends Positions {
  constructor(scope, { n_heads }) {
    super();
    // A power of two has the paper's formula; other numbers of heads those of the power below, then
    // every second one of twice as many, as in the authors' code.
    const power = 2 ** Math.floor(Math.log2(n_heads));
    this.each = Float32Array.from({ length: n_heads }, (_, h) => (
      2 ** (h < power ? (-8 * (h + 1)) / power : (-4 * (2 * (h - power) + 1)) / power)));
  }

  get slopes() { return this.each; }
}

/** No positions: longer queries and keys, so that of the division by sqrt(d_k) nothing stays. */
class WithoutRoot extends Positions {
  constructor(scope, { d_model, n_heads }) {
    super();
    this.engine = scope.engine;
    this.factor = (d_model / n_heads) ** 0.25;
  }

  rotate(x) { return this.engine.times(x, this.factor); }
}

const SCHEMES = new Map(Object.entries({
  none: Positions, sinusoidal: Sinusoidal, learned: Learned, rotary: Rotary, alibi: ALiBi,
}));

// --- attention --------------------------------------------------------------------------------

/**
 * Concat(head_1, ..., head_h) W^O. Given one input it is self-attention; given a second one,
 * which keys and values are taken from, cross-attention. `weights` is the last map of each head.
 */
export class MultiHeadAttention {
  constructor(scope, d_model, n_heads, {
    d_k = d_model / n_heads, positions = null, equal_weights: zero = false,
  } = {}) {
    if (d_k % 1) throw new Error(`${MULTIPLE} d_model=${d_model} and n_heads=${n_heads}`);
    this.engine = scope.engine;
    this.n_heads = n_heads;
    this.weights = null;
    this.positions = positions ?? new Positions();
    const inside = n_heads * d_k;
    // All queries and keys zero give equal weights, and no gradient to W^Q and W^K: so it stays.
    this.w_q = new Linear(scope.in("w_q"), d_model, inside, { xavier: true, zero });
    this.w_k = new Linear(scope.in("w_k"), d_model, inside, { xavier: true, zero });
    this.w_v = new Linear(scope.in("w_v"), d_model, inside, { xavier: true });
    this.w_o = new Linear(scope.in("w_o"), inside, d_model, { xavier: true });
    const name = scope.name.replace(/(\.sublayer)?\.$/, "");
    scope.lists.attention.push({ name, layer: this });
  }

  /** mask: { causal, lengths }, see the engine's attention. */
  forward(x_query, { x_key = x_query, ...mask } = {}) {
    const query = this.positions.rotate(this.w_q.forward(x_query));
    const key = this.positions.rotate(this.w_k.forward(x_key));
    const value = this.w_v.forward(x_key);
    const { slopes } = this.positions;
    const found = this.engine.attention(query, key, value, this.n_heads, { ...mask, slopes });
    this.weights = found.weights;
    return this.w_o.forward(found.output);
  }
}

// --- the two stacks ---------------------------------------------------------------------------

const UNCHANGED = { forward: (x) => x }; // in the place of a norm that is left out

/**
 * Post-norm: LayerNorm(x + Dropout(Sublayer(x))). Pre-norm: x + Dropout(Sublayer(LayerNorm(x))). A
 * design without a dropout has none. A sub-layer that is left out, by the name of its part, adds nothing; its norm stays.
 */
class Residual {
  constructor(scope, config, part, makeSublayer) {
    const { d_model, norm, dropout } = config;
    this.engine = scope.engine;
    this.dropout = dropout;
    this.sublayer = has(config, part) ? makeSublayer(scope.in("sublayer")) : null;
    this.norm = has(config, "norms") ? new LayerNorm(scope.in("norm"), d_model) : UNCHANGED;
    this.passes = has(config, "residual");
    this.preNorm = norm === "pre";
  }

  /** x with what the sub-layer adds; without the residual path, what the sub-layer makes of x. */
  changed(x, given) {
    if (!this.sublayer) return x;
    const found = this.sublayer.forward(this.preNorm ? this.norm.forward(x) : x, given);
    const change = this.engine.dropout(found, this.dropout);
    return this.passes ? this.engine.add(x, change) : change;
  }

  forward(x, given) {
    const found = this.changed(x, given);
    return this.preNorm ? found : this.norm.forward(found);
  }
}

function attention(scope, config, part, positions = null) {
  const { d_model, n_heads, equal_weights } = config;
  const scheme = has(config, "root") ? positions : new WithoutRoot(scope, config);
  return new Residual(scope, config, part, (inside) =>
    new MultiHeadAttention(inside, d_model, n_heads, { positions: scheme, equal_weights }));
}

const feedForward = (scope, config) =>
  new Residual(scope, config, "feed_forward", (inside) => new FeedForward(inside, config));

/** Self-attention, then a feed-forward network. */
export class EncoderLayer {
  constructor(scope, config, positions) {
    this.self_attention = attention(scope.in("self_attention"), config, "encoder_self_attention",
      positions);
    this.feed_forward = feedForward(scope.in("feed_forward"), config);
  }

  forward(x, mask) { return this.feed_forward.forward(this.self_attention.forward(x, mask)); }
}

/** Causal self-attention, cross-attention to the memory, then a feed-forward network. */
export class DecoderLayer {
  constructor(scope, config, positions) {
    this.self_attention = attention(scope.in("self_attention"), config, "decoder_self_attention",
      positions);
    this.cross_attention = attention(scope.in("cross_attention"), config, "cross_attention");
    this.feed_forward = feedForward(scope.in("feed_forward"), config);
    this.causal = has(config, "causal_mask");
  }

  forward(x, { memory, lengths }) {
    const own = this.self_attention.forward(x, { causal: this.causal });
    const both = this.cross_attention.forward(own, { x_key: memory, lengths });
    return this.feed_forward.forward(both);
  }
}

/** Positions, dropout, layers, and a last norm where each layer leaves the sum as it is (pre-norm). */
export class Stack {
  constructor(scope, config, Layer) {
    const Scheme = oneOf(SCHEMES, "positions", config.positions);
    this.engine = scope.engine;
    this.dropout = config.dropout;
    this.positions = new Scheme(scope.in("positions"), config);
    this.layers = Array.from({ length: config.n_layers }, (_, n) =>
      new Layer(scope.in(`layers.${n}`), config, this.positions));
    this.norm = config.norm === "pre" && has(config, "norms")
      ? new LayerNorm(scope.in("norm"), config.d_model) : null;
  }

  /** What each layer is given: an encoder's a mask, a decoder's memory and its lengths. */
  forward(x, given) {
    let rows = this.engine.dropout(this.positions.add(x), this.dropout);
    for (const layer of this.layers) rows = layer.forward(rows, given);
    return this.norm ? this.norm.forward(rows) : rows;
  }
}
