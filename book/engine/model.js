// The four designs of the laboratories, each equal to a model of the book in torch: see replay.py.
import {
  DecoderLayer, Embedding, EncoderLayer, Learned, Linear, MultiHeadAttention, Scope, Stack,
  TiedProjection,
} from "./layers.js";
import { Recurrent } from "./recurrent.js";
import { oneOf } from "./tensors.js";

/** Embedded tokens and learned positions -> one attention layer -> linear logits. */
class Reader {
  constructor(scope, design) {
    const { vocab, classes, outputs, d_model, n_heads, d_k, positions, length } = design;
    this.embedding = new Embedding(scope.in("embedding"), vocab, d_model, { scale: 1 });
    this.positions = positions === "learned"
      ? new Learned(scope.in("positions"), { d_model, max_length: length }, 1) : null;
    this.attention = new MultiHeadAttention(scope.in("attention"), d_model, n_heads, { d_k });
    this.output = new Linear(scope.in("output"), d_model, outputs * classes);
    this.classes = classes;
  }

  forward({ tokens, rows, time }) {
    const x = this.embedding.forward(tokens, [rows, time]);
    const marked = this.positions ? this.positions.add(x) : x;
    return this.output.forward(this.attention.forward(marked));
  }
}

// With a tied matrix, which makes the first logits too, half the spread: see lib.transformer.
const embedding = (scope, vocab, { d_model, tied }) =>
  new Embedding(scope, vocab, d_model, { std: tied ? 0.5 : 1 });

const projection = (scope, from, vocab, { d_model, tied }) => (tied
  ? new TiedProjection(from) : new Linear(scope, d_model, vocab, { bias: false }));

/** An encoder between embedding and projection; under a causal mask, a language model. */
class OneStack {
  constructor(scope, design) {
    this.causal = design.causal;
    this.classes = design.source_vocab;
    this.embedding = embedding(scope.in("embedding"), this.classes, design);
    this.encoder = new Stack(scope.in("encoder"), design, EncoderLayer);
    this.projection = projection(scope.in("projection"), this.embedding, this.classes, design);
  }

  forward({ tokens, rows, time, lengths }) {
    const x = this.embedding.forward(tokens, [rows, time]);
    return this.projection.forward(this.encoder.forward(x, { causal: this.causal, lengths }));
  }
}

/** The Transformer: it reads a source and writes a target, given the right target so far. */
class Translator {
  constructor(scope, design) {
    const { source_vocab, target_vocab, tied } = design;
    this.classes = target_vocab ?? source_vocab;
    this.source_embedding = embedding(scope.in("source_embedding"), source_vocab, design);
    this.target_embedding = tied && !target_vocab ? this.source_embedding
      : embedding(scope.in("target_embedding"), this.classes, design);
    this.encoder = new Stack(scope.in("encoder"), design, EncoderLayer);
    this.decoder = new Stack(scope.in("decoder"), design, DecoderLayer);
    this.projection = projection(
      scope.in("projection"), this.target_embedding, this.classes, design,
    );
  }

  forward({ source, source_lengths: lengths, rows, source_time, target_in, target_time }) {
    const x = this.source_embedding.forward(source, [rows, source_time]);
    const memory = this.encoder.forward(x, { lengths });
    const y = this.target_embedding.forward(target_in, [rows, target_time]);
    return this.projection.forward(this.decoder.forward(y, { memory, lengths }));
  }
}

const KINDS = new Map(Object.entries({
  reader: Reader, one_stack: OneStack, translator: Translator, recurrent: Recurrent,
}));

/**
 * A model of this design in an engine of its own, with random numbers for its parameters; random: a
 * generator, or a function from a parameter's name to one, by which models with other parts begin alike.
 */
export function makeModel(engine, design, random) {
  const Kind = oneOf(KINDS, "a kind", design.kind);
  const scope = new Scope(engine, random);
  const net = new Kind(scope, design);
  const { parameters, attention } = scope.lists;
  engine.keepParameters(parameters);
  const count = parameters.reduce((sum, { size }) => sum + size, 0);
  const all = (at) => engine.memory.floats.subarray(at / 4, at / 4 + count);

  /** The loss of a batch, whose `noise` fixes what a dropout drops; then the gradients are there. */
  function learn(batch) {
    engine.begin({ recording: true, noise: batch.noise });
    all(parameters[0].gradAt).fill(0);
    const logits = net.forward(batch);
    const loss = engine.crossEntropy(logits, batch.targets ?? batch.target_out, net.classes);
    engine.backward();
    return { loss };
  }

  /** The logits of a batch and, if asked, the weights of each attention layer. */
  function read(batch, { maps = false } = {}) {
    engine.begin({ recording: false });
    const logits = net.forward(batch).data.slice();
    if (!maps) return { logits, maps: [] };
    return { logits, maps: attention.map(({ name, layer: { weights } }) => {
      const [, heads, queries, keys] = weights.shape;
      return { name, heads, queries, keys, data: weights.data.slice() };
    }) };
  }

  function load(numbers) {
    if (numbers.length !== count) {
      throw new Error(`expected ${count} numbers, got ${numbers.length}`);
    }
    all(parameters[0].at).set(numbers);
  }

  return { parameters, count, learn, read, load, save: () => all(parameters[0].at).slice() };
}
