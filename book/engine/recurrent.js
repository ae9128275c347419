// The layers of lib.seq2seq: a recurrent encoder, and a decoder that gets its last state or, by
// additive attention, all of them. The same names, in the same order; forward only.
import { Embedding, Linear } from "./layers.js";

/** A gated recurrent unit; what does not wait for the old state is computed for all steps at once. */
class GRUCell {
  constructor(scope, d_in, d_hidden) {
    this.engine = scope.engine;
    this.d_hidden = d_hidden;
    this.input_map = new Linear(scope.in("input_map"), d_in, 3 * d_hidden);
    this.hidden_map = new Linear(scope.in("hidden_map"), d_hidden, 3 * d_hidden);
  }

  /** All states (batch, time, d_hidden); before(t, h), if given, is called before each step. */
  run(projected, first, before = null) {
    const { engine, hidden_map: { weight, bias } } = this;
    const [batch, time] = projected.shape;
    const states = engine.zeros([batch, time, this.d_hidden]);
    for (let [t, h] = [0, first]; t < time; t += 1) {
      before?.(t, h);
      const next = engine.at(states, t);
      engine.gru(next, engine.at(projected, t), h, weight, bias);
      h = next;
    }
    return states;
  }
}

class Encoder {
  constructor(scope, { source_vocab, d_embed, d_hidden }) {
    this.engine = scope.engine;
    this.embedding = new Embedding(scope.in("embedding"), source_vocab, d_embed, { scale: 1 });
    this.cell = new GRUCell(scope.in("cell"), d_embed, d_hidden);
  }

  /** All states, and the last one of each sequence. */
  forward(source, shape, lengths) {
    const { cell } = this;
    const projected = cell.input_map.forward(this.embedding.forward(source, shape));
    const states = cell.run(projected, this.engine.zeros([shape[0], cell.d_hidden]));
    return { states, last: this.engine.last(states, lengths) };
  }
}

/** It starts from one vector, and reads the same one at each step. */
class Decoder {
  constructor(scope, { target_vocab, d_embed, d_hidden }) {
    this.engine = scope.engine;
    this.embedding = new Embedding(scope.in("embedding"), target_vocab, d_embed, { scale: 1 });
    this.cell = new GRUCell(scope.in("cell"), d_embed, d_hidden);
    this.context_map = new Linear(scope.in("context_map"), d_hidden, 3 * d_hidden, { bias: false });
    this.output = new Linear(scope.in("output"), d_hidden, target_vocab);
  }

  forward(target, shape, encoded) {
    const projected = this.cell.input_map.forward(this.embedding.forward(target, shape));
    return this.output.forward(this.states(projected, encoded));
  }

  states(projected, { last }) {
    return this.cell.run(this.engine.addToEach(projected, this.context_map.forward(last)), last);
  }
}

/** v . tanh(W_q q + W_k k + b) for each key, and a softmax. */
class AdditiveAttention {
  constructor(scope, d_query, d_key, d_scorer) {
    this.engine = scope.engine;
    this.query_map = new Linear(scope.in("query_map"), d_query, d_scorer, { bias: false });
    this.key_map = new Linear(scope.in("key_map"), d_key, d_scorer);
    this.score = new Linear(scope.in("score"), d_scorer, 1, { bias: false });
    this.weights = null; // after a pass without gradients
    scope.lists.attention.push({ name: scope.name.slice(0, -1), layer: this });
  }

  /** One query for each sequence; projected is the key_map of the keys. */
  forward(query, keys, projected, lengths) {
    return this.engine.additiveAttention(this.query_map.forward(query), projected, keys,
      this.score.weight, lengths);
  }
}

/** The weights of all steps, each (batch, keys), as one map (batch, 1, steps, keys). */
function stacked(engine, steps) {
  const [batch, keys] = steps[0].shape;
  const numbers = new Float32Array(batch * steps.length * keys);
  steps.forEach(({ data }, t) => {
    for (let row = 0; row < batch; row += 1) {
      numbers.set(data.subarray(row * keys, (row + 1) * keys), (row * steps.length + t) * keys);
    }
  });
  return engine.constant([batch, 1, steps.length, keys], numbers);
}

/**
 * It looks at all states of the encoder before each word; its own state before that word asks. The
 * attention is made last: so all other parameters begin as those of the decoder without it.
 */
class AttentionDecoder extends Decoder {
  constructor(scope, design) {
    super(scope, design);
    this.attention = new AdditiveAttention(scope.in("attention"), design.d_hidden, design.d_hidden,
      design.d_scorer);
  }

  states(projected, { states: keys, last, lengths }) {
    const { engine, attention } = this;
    const among = attention.key_map.forward(keys);
    const found = []; // the weights of each step
    const states = this.cell.run(projected, last, (t, h) => {
      const { output, weights } = attention.forward(h, keys, among, lengths);
      engine.addLinear(engine.at(projected, t), output, this.context_map.weight);
      found.push(weights);
    });
    if (!engine.recording) attention.weights = stacked(engine, found);
    return states;
  }
}

/** Reads a source and writes a target, given the right target so far. */
export class Recurrent {
  constructor(scope, design) {
    const Writer = design.attention ? AttentionDecoder : Decoder;
    this.classes = design.target_vocab;
    this.encoder = new Encoder(scope.in("encoder"), design);
    this.decoder = new Writer(scope.in("decoder"), design);
  }

  forward({ source, source_lengths: lengths, rows, source_time, target_in, target_time }) {
    const encoded = this.encoder.forward(source, [rows, source_time], lengths);
    return this.decoder.forward(target_in, [rows, target_time], { ...encoded, lengths });
  }
}
