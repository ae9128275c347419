// Tensors with gradients, in one memory of floats. Each operation computes its result and puts on
// a tape how gradients go back through it; `backward` runs the tape from its end.
import { plainKernels } from "./plain.js";

const PAGE = 65536; // bytes: the unit in which a WebAssembly memory grows
const FIRST_PAGES = 64;
const DROPS = 0x85ebca6b; // from one dropout to the next: an odd number, so that seeds differ

/** What a map has under a name; a name that it does not have is an error. */
export function oneOf(map, what, name) {
  if (!map.has(name)) {
    throw new Error(`expected ${what} out of ${[...map.keys()].join(", ")}, got ${name}`);
  }
  return map.get(name);
}

/** All numbers of a run, given out from the bottom up: parameters, then those of one step. */
class Memory {
  constructor(source, start) {
    this.source = source; // a WebAssembly.Memory, or something with the same `buffer` and `grow`
    this.top = start; // the next free byte
    this.bottom = start; // below it lies what `keep` keeps
    this.look();
  }

  look() {
    this.floats = new Float32Array(this.source.buffer);
    this.integers = new Int32Array(this.source.buffer);
  }

  /** The address of room for n numbers; what is in it is left from earlier steps. */
  take(n) {
    const at = this.top;
    this.top += 4 * n;
    const missing = this.top - this.source.buffer.byteLength;
    if (missing > 0) {
      this.source.grow(Math.max(Math.ceil(missing / PAGE), FIRST_PAGES));
      this.look();
    }
    return at;
  }

  zeros(n) {
    const at = this.take(n);
    this.floats.fill(0, at / 4, at / 4 + n);
    return at;
  }

  keep() { this.bottom = this.top; }

  reset() { this.top = this.bottom; }
}

/** Memory for the plain kernels: what it holds moves to a larger buffer as it grows. */
class Buffer {
  constructor() { this.buffer = new ArrayBuffer(FIRST_PAGES * PAGE); }

  grow(pages) {
    const larger = new ArrayBuffer(this.buffer.byteLength + pages * PAGE);
    new Uint8Array(larger).set(new Uint8Array(this.buffer));
    this.buffer = larger;
  }
}

/**
 * A shape, and two places in memory: of its numbers, and of their gradients or null. row: from row
 * to row, where it is more than the rows are long; then `data` and `grad` have more than its numbers.
 */
class Tensor {
  constructor(memory, shape, at, gradAt, row = shape[shape.length - 1]) {
    this.memory = memory;
    this.shape = shape;
    this.at = at;
    this.gradAt = gradAt;
    this.width = shape[shape.length - 1];
    this.row = row;
    this.size = shape.reduce((product, n) => product * n, 1);
    this.rows = this.size / this.width;
  }

  get data() { return this.memory.floats.subarray(this.at / 4, this.at / 4 + this.size); }

  get grad() { return this.memory.floats.subarray(this.gradAt / 4, this.gradAt / 4 + this.size); }
}

// A matrix in memory: its address, and how far it is from row to row and from column to column.
const matrix = (at, row, column = 1) => ({ at, row, column });
const transposed = ({ at, row, column }) => matrix(at, column, row);
const values = (tensor) => matrix(tensor.at, tensor.row);
const gradients = (tensor) => matrix(tensor.gradAt, tensor.row);

class Engine {
  constructor({ path, kernels, memory }) {
    this.path = path;
    this.kernels = kernels;
    this.memory = memory;
    this.tape = [];
    this.recording = false;
    this.noise = 0; // the seed of the next dropout
  }

  // --- the memory and the tape ----------------------------------------------------------------

  /**
   * Forget the last step's tensors. Recording, operations get gradients and go on the tape; noise, a
   * whole number, fixes what is dropped.
   */
  begin({ recording, noise = 0 }) {
    this.memory.reset();
    this.tape = [];
    this.recording = recording;
    this.noise = noise;
  }

  /** Run the tape backwards. The gradients of the last result must be there. */
  backward() {
    for (let i = this.tape.length - 1; i >= 0; i -= 1) this.tape[i]();
  }

  record(backward) { if (this.recording) this.tape.push(backward); }

  /** A new tensor of zeros. */
  zeros(shape) {
    const size = shape.reduce((product, n) => product * n, 1);
    const at = this.memory.zeros(size);
    return new Tensor(this.memory, shape, at, this.recording ? this.memory.zeros(size) : null);
  }

  /** A tensor of given numbers, without gradients. */
  constant(shape, numbers) {
    const tensor = new Tensor(this.memory, shape, this.memory.take(numbers.length), null);
    tensor.data.set(numbers);
    return tensor;
  }

  /** The address of a copy of whole numbers. */
  integers(numbers) {
    const at = this.memory.take(numbers.length);
    this.memory.integers.set(numbers, at / 4);
    return at;
  }

  /** out += a b, of matrices (n x depth) and (depth x m). */
  product(out, a, b, n, depth, m) {
    this.kernels.product(
      out.at, out.row, a.at, a.row, a.column, b.at, b.row, b.column, n, depth, m,
    );
  }

  // --- operations -----------------------------------------------------------------------------

  /** x W^T + b, with W as (outputs, inputs); the bias may be null. */
  linear(x, weight, bias) {
    const [outputs, inputs] = weight.shape;
    const out = this.zeros([...x.shape.slice(0, -1), outputs]);
    if (bias) this.kernels.add_rows(out.at, bias.at, x.rows, outputs);
    this.product(values(out), values(x), transposed(values(weight)), x.rows, inputs, outputs);
    this.record(() => {
      const dy = gradients(out);
      this.product(gradients(x), dy, values(weight), x.rows, outputs, inputs);
      this.product(gradients(weight), transposed(dy), values(x), outputs, x.rows, inputs);
      if (bias) this.kernels.sum_rows(bias.gradAt, out.gradAt, x.rows, outputs);
    });
    return out;
  }

  /** Rows of a table, times a factor, for tokens (batch, time). */
  embedding(tokens, shape, table, factor) {
    const { width } = table;
    const out = this.zeros([...shape, width]);
    const wrong = tokens.find((token) => !(token >= 0 && token < table.rows));
    if (wrong !== undefined) {
      throw new Error(`expected tokens from 0 to ${table.rows - 1}, got ${wrong}`);
    }
    const [to, from] = [out.data, table.data];
    tokens.forEach((token, i) => {
      for (let j = 0; j < width; j += 1) to[i * width + j] = from[token * width + j] * factor;
    });
    this.record(() => {
      const [dy, dtable] = [out.grad, table.grad];
      tokens.forEach((token, i) => {
        for (let j = 0; j < width; j += 1) {
          dtable[token * width + j] += dy[i * width + j] * factor;
        }
      });
    });
    return out;
  }

  /** x + y, of one shape. */
  add(x, y) {
    const out = this.zeros(x.shape);
    for (const term of [x, y]) this.kernels.add_rows(out.at, term.at, 1, x.size);
    this.record(() => {
      for (const term of [x, y]) this.kernels.add_rows(term.gradAt, out.gradAt, 1, x.size);
    });
    return out;
  }

  /** x times a number. */
  times(x, factor) {
    const out = this.zeros(x.shape);
    const add = (to, from) => {
      for (let i = 0; i < x.size; i += 1) to[i] += from[i] * factor;
    };
    add(out.data, x.data);
    this.record(() => add(x.grad, out.grad));
    return out;
  }

  /** x (batch, time, d_model) + the first rows of a table of positions (longest, d_model). */
  addPositions(x, table) {
    const [batch, time, width] = x.shape;
    const out = this.zeros(x.shape);
    this.kernels.add_rows(out.at, x.at, 1, x.size);
    this.kernels.add_rows(out.at, table.at, batch, time * width);
    this.record(() => {
      this.kernels.add_rows(x.gradAt, out.gradAt, 1, x.size);
      if (table.gradAt !== null) {
        this.kernels.sum_rows(table.gradAt, out.gradAt, batch, time * width);
      }
    });
    return out;
  }

  /** Turn each pair of entries (a, b) by its angle: of each position, the same for each head. */
  rotate(x, angles, heads) {
    const [, time, width] = x.shape;
    const pairs = width / heads / 2;
    const out = this.zeros(x.shape);
    // (a + bj) (cos + j sin): the gradient turns back.
    const turn = (to, from, sign) => {
      for (let i = 0; i < x.size; i += 2) {
        const position = Math.floor(i / width) % time;
        const pair = 2 * (position * pairs + ((i / 2) % pairs));
        const [sin, cos] = [sign * angles[pair], angles[pair + 1]];
        to[i] += from[i] * cos - from[i + 1] * sin;
        to[i + 1] += from[i] * sin + from[i + 1] * cos;
      }
    };
    turn(out.data, x.data, 1);
    this.record(() => turn(x.grad, out.grad, -1));
    return out;
  }

  /**
   * softmax(Q K^T / sqrt(d_k)) V for each head; the heads lie side by side in the last axis.
   * Query i sees the keys up to i where causal, and the first lengths[row] keys where given.
   * slopes: of ALiBi, one for each head. Returns the output and the weights.
   */
  attention(query, key, value, heads, { causal = false, lengths = null, slopes = null }) {
    const { kernels } = this;
    const [batch, queries] = query.shape;
    const keys = key.shape[1];
    const [d_k, d_v] = [query.width / heads, value.width / heads];
    const scale = 1 / Math.sqrt(d_k);
    const weights = this.zeros([batch, heads, queries, keys]);
    const output = this.zeros([batch, queries, value.width]);
    const eachHead = (visit) => {
      for (let row = 0; row < batch; row += 1) {
        for (let head = 0; head < heads; head += 1) {
          const map = 4 * (row * heads + head) * queries * keys;
          const side = ({ shape, width }, at) =>
            matrix(at + 4 * (row * shape[1] * width + (head * width) / heads), width);
          visit(map, side);
        }
      }
    };
    eachHead((map, side) => this.product(matrix(weights.at + map, keys),
      side(query, query.at), transposed(side(key, key.at)), queries, d_k, keys));
    kernels.softmax(weights.at, lengths ? this.integers(lengths) : 0,
      slopes ? this.constant([heads], slopes).at : 0, batch, heads, queries, keys, causal, scale);
    eachHead((map, side) => this.product(side(output, output.at),
      matrix(weights.at + map, keys), side(value, value.at), queries, keys, d_v));
    this.record(() => {
      eachHead((map, side) => {
        const dy = side(output, output.gradAt);
        this.product(matrix(weights.gradAt + map, keys), dy, transposed(side(value, value.at)),
          queries, d_v, keys);
        this.product(side(value, value.gradAt), transposed(matrix(weights.at + map, keys)), dy,
          keys, queries, d_v);
      });
      kernels.softmax_backward(weights.gradAt, weights.at, weights.rows, keys, scale);
      eachHead((map, side) => {
        const dscores = matrix(weights.gradAt + map, keys);
        this.product(side(query, query.gradAt), dscores, side(key, key.at), queries, keys, d_k);
        this.product(side(key, key.gradAt), transposed(dscores), side(query, query.at),
          keys, queries, d_k);
      });
    });
    return { output, weights };
  }

  // --- step after step: what recurrent networks need ----------------------------------------------

  /** Step t of x (batch, time, width), as (batch, width): the same numbers, the same gradients. */
  at(x, t) {
    const [batch, time, width] = x.shape;
    const from = (start) => (start === null ? null : start + 4 * t * width);
    return new Tensor(this.memory, [batch, width], from(x.at), from(x.gradAt), time * width);
  }

  /** x (batch, time, width) + y (batch, width), the same at each step. */
  addToEach(x, y) {
    const [batch, time, width] = x.shape;
    const out = this.zeros(x.shape);
    const each = (visit) => {
      for (let row = 0; row < batch; row += 1) visit(4 * row * time * width, 4 * row * width);
    };
    this.kernels.add_rows(out.at, x.at, 1, x.size);
    each((to, from) => this.kernels.add_rows(out.at + to, y.at + from, time, width));
    this.record(() => {
      this.kernels.add_rows(x.gradAt, out.gradAt, 1, x.size);
      each((to, from) => this.kernels.sum_rows(y.gradAt + from, out.gradAt + to, time, width));
    });
    return out;
  }

  /** out += x W^T, in place; for an out whose own numbers no way back needs. */
  addLinear(out, x, weight) {
    const [outputs, inputs] = weight.shape;
    this.product(values(out), values(x), transposed(values(weight)), x.rows, inputs, outputs);
    this.record(() => {
      const dy = gradients(out);
      this.product(gradients(x), dy, values(weight), x.rows, outputs, inputs);
      this.product(gradients(weight), transposed(dy), values(x), outputs, x.rows, inputs);
    });
  }

  /**
   * A step of a gated recurrent unit, written into out (batch, width): from x (batch, 3 width),
   * what the input gives to reset gate, update gate and candidate, and from the old state h
   * (batch, width), of which weight and bias make the same three.
   */
  gru(out, x, h, weight, bias) {
    const { kernels } = this;
    const hidden = this.linear(h, weight, bias); // its way back is behind that of the gates
    const kept = this.memory.take(hidden.size);
    kernels.gru(out.at, out.row, kept, x.at, x.row, hidden.at, h.at, h.row, h.rows, h.width);
    this.record(() => kernels.gru_backward(x.gradAt, x.row, hidden.gradAt, h.gradAt, h.row,
      out.gradAt, out.row, kept, hidden.at, h.at, h.row, h.rows, h.width));
  }

  /**
   * Additive attention of one query for each sequence: v . tanh(query + key) are the scores of a
   * softmax over the first lengths[row] keys; its weights mix the values. query (batch, d_scorer),
   * key (batch, keys, d_scorer), value (batch, keys, width), v (1, d_scorer).
   */
  additiveAttention(query, key, value, v, lengths) {
    const { kernels } = this;
    const [batch, keys, scorer] = key.shape;
    const weights = this.zeros([batch, keys]);
    const output = this.zeros([batch, value.width]);
    const kept = this.memory.take(key.size);
    kernels.additive_scores(weights.at, kept, query.at, key.at, v.at, batch, keys, scorer);
    kernels.softmax(weights.at, this.integers(lengths), 0, batch, 1, 1, keys, 0, 1);
    kernels.mix(output.at, weights.at, value.at, batch, keys, value.width);
    this.record(() => {
      kernels.mix_backward(weights.gradAt, value.gradAt, output.gradAt, weights.at, value.at, batch,
        keys, value.width);
      kernels.softmax_backward(weights.gradAt, weights.at, batch, keys, 1);
      kernels.additive_scores_backward(query.gradAt, key.gradAt, v.gradAt, weights.gradAt, kept,
        v.at, batch, keys, scorer);
    });
    return { output, weights };
  }

  /** The row at the end of each sequence: x (batch, time, width), at step lengths[row] - 1. */
  last(x, lengths) {
    const [batch, time, width] = x.shape;
    const wrong = lengths.find((length) => !(length > 0 && length <= time));
    if (wrong !== undefined) throw new Error(`expected lengths from 1 to ${time}, got ${wrong}`);
    const out = this.zeros([batch, width]);
    const each = (visit) => lengths.forEach((length, row) =>
      visit(4 * row * width, 4 * (row * time + length - 1) * width));
    each((to, from) => this.kernels.add_rows(out.at + to, x.at + from, 1, width));
    this.record(() => each((to, from) =>
      this.kernels.add_rows(x.gradAt + from, out.gradAt + to, 1, width)));
    return out;
  }

  // --- rows ---------------------------------------------------------------------------------------

  /** (x - mean) / sqrt(variance + eps) * gain + bias, each row by itself. */
  layerNorm(x, gain, bias, eps) {
    const { kernels } = this;
    const out = this.zeros(x.shape);
    const kept = this.memory.take(2 * x.rows);
    kernels.layer_norm(out.at, kept, x.at, gain.at, bias.at, x.rows, x.width, eps);
    this.record(() => kernels.layer_norm_backward(x.gradAt, gain.gradAt, bias.gradAt,
      out.gradAt, kept, x.at, gain.at, x.rows, x.width));
    return out;
  }

  /** max(0, x). */
  relu(x) {
    const out = this.zeros(x.shape);
    this.kernels.relu(out.at, x.at, x.size);
    this.record(() => this.kernels.relu_backward(x.gradAt, out.gradAt, out.at, x.size));
    return out;
  }

  /**
   * Recording, a fraction `rate` of the entries becomes 0, and the others grow by 1 / (1 - rate).
   * Source: Srivastava et al. 2014; torch scales alike.
   */
  dropout(x, rate) {
    if (!rate || !this.recording) return x;
    const out = this.zeros(x.shape);
    const [seed, limit] = [Math.imul(this.noise, DROPS), Math.floor(rate * 2 ** 32)];
    const scale = 1 / (1 - rate);
    this.noise += 1;
    this.kernels.dropout(out.at, x.at, x.size, seed, limit, scale);
    this.record(() => this.kernels.dropout(x.gradAt, out.gradAt, x.size, seed, limit, scale));
    return out;
  }

  /**
   * The mean of -ln softmax(logits)[target] over the targets that are 0 or more. It is the last
   * operation of a step: the gradients of the logits are written at once.
   */
  crossEntropy(logits, targets, classes) {
    const rows = logits.size / classes;
    if (targets.length !== rows) {
      throw new Error(`expected ${rows} targets, got ${targets.length}`);
    }
    const counted = targets.reduce((n, target) => n + (target >= 0), 0) || 1;
    return this.kernels.cross_entropy(
      logits.gradAt, logits.at, this.integers(targets), rows, classes, 1 / counted,
    ) / counted;
  }

  // --- parameters -----------------------------------------------------------------------------

  /** A tensor that stays from step to step; fill() makes each of its numbers. */
  parameter(name, shape, fill) {
    this.recording = false; // its gradients come later, by `keepParameters`
    const tensor = Object.assign(this.zeros(shape), { name, engine: this });
    tensor.data.forEach((_, i, data) => { data[i] = fill(); });
    return tensor;
  }

  /**
   * Keep these parameters, made one behind the other, and give them gradients in the same order:
   * so they are one row of numbers for an optimiser. Nothing else may have been made meanwhile.
   */
  keepParameters(parameters) {
    const count = parameters.reduce((sum, { size }) => sum + size, 0);
    const gradAt = this.memory.zeros(count);
    for (const tensor of parameters) tensor.gradAt = gradAt + tensor.at - parameters[0].at;
    this.memory.keep();
  }
}

/**
 * An engine on the bytes of kernels.wasm, or on the plain kernels where there are none, or where
 * the browser cannot compile them. engine.path says which: "wasm" or "plain".
 * @param {{ wasm?: ArrayBuffer | null }} options
 */
export async function makeEngine({ wasm = null } = {}) {
  if (wasm && typeof WebAssembly !== "undefined") {
    try {
      const { instance } = await WebAssembly.instantiate(wasm, { math: { log: Math.log } });
      const { memory, __heap_base: start, ...kernels } = /** @type {any} */ (instance.exports);
      return new Engine({ path: "wasm", kernels, memory: new Memory(memory, start.value) });
    } catch (error) {
      // No SIMD, or a page whose policy forbids to compile.
      if (!(error instanceof WebAssembly.CompileError)) throw error;
    }
  }
  const memory = new Memory(new Buffer(), 16); // address 0 means that something is left out
  return new Engine({ path: "plain", kernels: plainKernels(memory), memory });
}
