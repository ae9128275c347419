// The laboratories' tasks: what a model reads, what it should answer, and how its answers are judged.
// A task draws each batch from a generator that it is given, and from nothing else: so a batch can
// be made again, in any order. What the model is tested on is drawn when the task is made.
import * as math from "../widgets/js/math.js";
import { batchOf, layerNumber, mapsOf, oneStack, unanswered } from "./attended.js";
import {
  digitNumbers, digits, isHeldOut, likeliest, listed, numbered, range, share, sourcesOf, taughtOf,
  tokensOf, wordsIn, written,
} from "./batches.js";
import { copying } from "./copying.js";
import { ONES, TENS, inWords } from "./number_words.js";
import { makeRandom } from "./random.js";
import { senses } from "./senses.js";

// --- tasks in which each position gets its answers -------------------------------------------

/**
 * draw(random) -> {input, answer}, lists of numbers; answer has `outputs` for each position.
 * tested: such pairs; read/write: what the reader sees of a token and of a position's answers;
 * parse(text) -> {ids} or {error}; solve(ids) -> answer, or null where there is none.
 */
function labelling({
  design, options, rows, draw, tested, shown, classes, outputs = 1, token, write, parse, solve,
  numbers,
}) {
  const positions = (answer) => range(answer.length / outputs, (i) =>
    answer.slice(i * outputs, (i + 1) * outputs));
  const exam = batchOf(tested);
  const batch = (random) => batchOf(range(rows, () => draw(random)));

  function example(input, answer, got) {
    const [wanted, found] = [answer && positions(answer).map(write), positions(got).map(write)];
    return { input: input.map(token), wanted, got: found,
      right: answer && found.map((text, i) => text === wanted[i]) };
  }

  function probe(read) {
    const got = likeliest(read(exam).logits, classes);
    const right = Array.from(exam.targets, (target, i) => target === got[i]);
    const width = exam.time * outputs;
    const examples = tested.slice(0, shown).map(({ input, answer }, i) =>
      example(input, answer, got.slice(i * width, (i + 1) * width)));
    const accuracy = share(positions(right).map((of) => of.every(Boolean)));
    return { accuracy, examples, numbers: numbers(right, width) };
  }

  const maps = (read, text) => {
    const ids = text === null ? tested[0].input : parse(text).ids;
    return ids ? mapsOf(read, ids, token) : null;
  };

  function ask(read, text) {
    const { ids, error } = parse(text);
    if (error) return { error };
    const answer = solve(ids);
    const asked = answer ? { input: ids, answer } : unanswered(ids, outputs);
    const got = likeliest(read(batchOf([asked])).logits, classes);
    const { input, got: output, right } = example(ids, answer, got);
    return { input, output, right: right && right.every(Boolean) };
  }

  const tokens = [range(design.source_vocab ?? design.vocab, token)];
  return { design, options, tokens, batch, probe, maps, ask };
}

/** Exactly n digits out of a text, whatever blanks and commas stand between them. */
function parseDigits(text, n) {
  const pieces = [...text.replace(/[\s,]/g, "")];
  const found = tokensOf(pieces, digitNumbers, "digits only");
  if (found.error || pieces.length === n) return found;
  return { error: `It takes ${n} digits; these are ${pieces.length}.` };
}

/** n digits with their answer; by key(pair) a list is one to test on, or to train on. */
function drawDigits(random, n, solve, key, testing) {
  for (;;) {
    const input = range(n, () => random.integer(10));
    const pair = { input, answer: solve(input) };
    if (isHeldOut(key(pair).join(""), 10) === testing) return pair;
  }
}

// order: who does what to whom.
const NOUNS = ["dog", "man", "cat", "bird", "child", "horse", "cow", "goat"];
const VERBS = ["bites", "sees", "follows", "likes"];
const ROLES = ["who", "act", "whom"];

function order({ positions, causal, n_layers, n_heads, d_model, lr }, random) {
  const words = [...NOUNS, ...VERBS, ...ROLES];
  const number = numbered(words);
  const parts = [number.get("who"), number.get("act"), number.get("whom")];
  const groups = NOUNS.flatMap((one, i) => NOUNS.slice(i + 1).flatMap((other) =>
    VERBS.map((verb) => [`${one} ${verb} ${other}`, `${other} ${verb} ${one}`])));
  const pairOf = (sentence) =>
    ({ input: wordsIn(sentence).map((word) => number.get(word)), answer: parts });
  // Both orders of the same words are held out, or none: else the model could have seen one.
  const isTested = (group) => isHeldOut(group[0], 4);
  const trained = groups.filter((group) => !isTested(group)).flat().map(pairOf);
  const tested = random.shuffle(groups.filter(isTested)).flat().map(pairOf);
  const known = `${listed(NOUNS)}; ${listed(VERBS)}`;
  const knownNumbers = numbered([...NOUNS, ...VERBS]);
  return labelling({
    design: oneStack({ causal, source_vocab: words.length, d_model, n_heads, n_layers, positions,
      norm: "post", max_length: 3 }),
    options: { steps: 150, lr, schedule: "cosine" },
    rows: 64, draw: (from) => trained[from.integer(trained.length)],
    tested, shown: 6, classes: words.length, token: (id) => words[id], write: ([id]) => words[id],
    parse(text) {
      const pieces = wordsIn(text).filter((word) => word !== ".");
      const found = tokensOf(pieces, knownNumbers, known);
      if (found.error || pieces.length === 3) return found;
      const error = `It takes three words, such as “man bites dog”; these are ${pieces.length}.`;
      return { error };
    },
    solve: (ids) =>
      (ids.map((id) => (id < NOUNS.length ? "n" : "v")).join("") === "nvn" ? parts : null),
    numbers: (right) => ({
      "verbs right": share(right.filter((_, i) => i % 3 === 1)),
      "nouns right": share(right.filter((_, i) => i % 3 !== 1)),
    }),
  });
}

// neighbours: both neighbours of each digit on a ring.
const RING = 12;

function neighbours({ n_heads, d_model, d_k, lr }, random) {
  const solve = (ids) => ids.flatMap((_, i) => [ids.at(i - 1), ids[(i + 1) % RING]]);
  const draw = (from, testing = false) =>
    drawDigits(from, RING, solve, ({ input }) => input, testing);
  const work = labelling({
    design: { kind: "reader", vocab: 10, classes: 10, outputs: 2, d_model, n_heads, d_k,
      positions: "learned", length: RING },
    options: { steps: 400, lr, schedule: "linear" },
    rows: 64, draw, tested: range(200, () => draw(random, true)), shown: 3, classes: 10, outputs: 2,
    token: (id) => digits[id], write: ([left, right]) => `${left} ${right}`,
    parse: (text) => parseDigits(text, RING), solve,
    numbers: (right) => ({
      "left neighbour right": share(right.filter((_, i) => i % 2 === 0)),
      "right neighbour right": share(right.filter((_, i) => i % 2 === 1)),
    }),
  });

  /** The answers to a ring of the reader's own stand below its digits, a line for each side. */
  function ask(read, text) {
    const found = work.ask(read, text);
    if (found.error) return found;
    const wanted = solve(found.input);
    const line = (name, side) => {
      const said = found.output.map((both) => both.split(" ")[side]);
      return [name, said, said.map((digit, i) => digit === wanted[2 * i + side])];
    };
    return { ...found, lines: [["Your ring", found.input], line("On the left", 0),
      line("On the right", 1)] };
  }

  return { ...work, ask };
}

// depth: eight digits in order of size, by stacks of any depth.
const SORTED = 8;

function depth({ norm, n_layers, warmup, n_heads, d_model, lr }, random) {
  const solve = (ids) => [...ids].sort((a, b) => a - b);
  // What is tested was never trained on in another order either.
  const draw = (from, testing = false) =>
    drawDigits(from, SORTED, solve, ({ answer }) => answer, testing);
  return labelling({
    design: oneStack({ source_vocab: 10, d_model, n_heads, n_layers, norm, positions: "learned",
      max_length: SORTED }),
    options: { steps: 300, lr, schedule: "cosine", warmup },
    rows: 32, draw, tested: range(100, () => draw(random, true)), shown: 5, classes: 10,
    token: (id) => digits[id], write: ([id]) => digits[id],
    parse: (text) => parseDigits(text, SORTED), solve,
    numbers: (right, width) => ({
      "digits right": share(right),
      "lists wholly right": share(range(right.length / width, (row) =>
        right.slice(row * width, (row + 1) * width).every(Boolean))),
    }),
  });
}

// --- a small language, for two tasks ---------------------------------------------------------

const DETERMINERS = new Map([["the", [0, 1]], ["a", [0]], ["two", [1]]]); // singular 0, plural 1
const ADJECTIVES = ["small", "old", "red"];
const FORMS = NOUNS.map((noun) => [noun, { man: "men", child: "children" }[noun] ?? `${noun}s`]);
const SPOKEN = VERBS.map((verb) => [verb, verb.slice(0, -1)]);
export const LEXICON = [
  ".", "that", ...DETERMINERS.keys(), ...ADJECTIVES, ...FORMS.flat(), ...SPOKEN.flat(),
];
const START = { at: "determiner", role: "subject" };
const LONGEST_SENTENCE = 13; // "the small dogs that see a red cat like the old birds ." with its full stop
const [ADJECTIVE, CLAUSE] = [0.3, 0.3]; // how often there is one

/**
 * Which words may follow, each with its probability and the state behind it. A verb agrees with
 * the subject of its sentence, also across "that see a cat".
 */
export function following(state) {
  const { at, role, subject } = state;
  const verbs = (chance, next) =>
    SPOKEN.map((forms) => [forms[subject], chance / SPOKEN.length, next]);
  const object = { at: "determiner", role: "object", subject };
  if (at === "determiner") {
    return [...DETERMINERS].map(([word, counts]) =>
      [word, 1 / DETERMINERS.size, { ...state, at: "noun", counts, bare: true }]);
  }
  if (at === "noun") {
    const { counts, bare } = state;
    const chance = (bare ? 1 - ADJECTIVE : 1) / counts.length / FORMS.length;
    const behind = (count) => (role === "subject" ? { at: "subject", subject: count }
      : { at: role === "inside" ? "verb" : "end", subject });
    return [
      ...(bare ? ADJECTIVES.map((word) =>
        [word, ADJECTIVE / ADJECTIVES.length, { ...state, bare: false }]) : []),
      ...FORMS.flatMap((forms) => counts.map((count) => [forms[count], chance, behind(count)])),
    ];
  }
  if (at === "subject") {
    return [["that", CLAUSE, { at: "clause", subject }], ...verbs(1 - CLAUSE, object)];
  }
  if (at === "clause") return verbs(1, { ...object, role: "inside" });
  if (at === "verb") return verbs(1, object);
  return [[".", 1, START]];
}

/** A sentence, and how likely the grammar makes each of its words. */
function sentence(random) {
  const [words, chances] = [[], []];
  for (let state = START; words[words.length - 1] !== ".";) {
    const choices = following(state);
    let left = random.uniform();
    const [word, chance, next] = choices.find((choice) => (left -= choice[1]) < 0) ?? choices[0];
    words.push(word);
    chances.push(chance);
    state = next;
  }
  return { words, chances };
}

/** How many words, from the first on, the grammar accepts as a beginning. */
function acceptedWords(words) {
  let state = START;
  for (const [i, word] of words.entries()) {
    const choice = following(state).find(([allowed]) => allowed === word);
    if (!choice || (i > 0 && words[i - 1] === ".")) return i;
    [, , state] = choice;
  }
  return words.length;
}

export const isSentence = (words) => words[words.length - 1] === "." && acceptedWords(words) === words.length;

/** A sentence to train on, or one of the tenth part that is kept for testing. */
function sentenceFor(random, testing) {
  for (;;) {
    const made = sentence(random);
    if (isHeldOut(made.words.join(" "), 10) === testing) return made;
  }
}

// future: what a language model writes that could see the next word in training.
function future({ causal, n_layers, n_heads, d_model, lr }, random) {
  const [time, classes, number] = [24, LEXICON.length, numbered(LEXICON)];
  const design = oneStack({ causal, source_vocab: classes, d_model, n_heads, n_layers,
    positions: "learned", max_length: time });

  /** A window begins behind a full stop. */
  function windowOf(from, testing) {
    const [words, chances] = [["."], []];
    while (words.length <= time) {
      const next = sentenceFor(from, testing);
      words.push(...next.words);
      chances.push(...next.chances);
    }
    const ids = words.slice(0, time + 1).map((word) => number.get(word));
    return { input: ids.slice(0, -1), answer: ids.slice(1), chances: chances.slice(0, time) };
  }

  const tested = range(32, () => windowOf(random, true));
  const exam = batchOf(tested);
  // The least loss on these words: that of the grammar itself, which knows all but the next word.
  const chances = tested.flatMap((one) => one.chances);
  const least = chances.reduce((sum, chance) => sum - Math.log(chance), 0) / chances.length;
  const seed = random.integer(2 ** 32);

  const batch = (from) => batchOf(range(32, () => windowOf(from, false)));

  /** Go on from each beginning, one word at a time, each drawn with the model's probability. */
  function write(read, beginnings, from) {
    const texts = beginnings.map((words) => [".", ...words].map((word) => number.get(word)));
    const done = (ids) => ids.length > 1 && ids[ids.length - 1] === 0;
    const most = Math.min(texts[0].length + LONGEST_SENTENCE, time);
    const closed = texts.map(() => null); // a text, from its full stop on
    while (texts[0].length < most && closed.includes(null)) {
      const { logits } = read(batchOf(texts.map((ids) => unanswered(ids))));
      texts.forEach((ids, row) => {
        const last = ((row + 1) * ids.length - 1) * classes;
        const weights = math.softmax(Array.from(logits.subarray(last, last + classes)));
        let left = from.uniform();
        ids.push(Math.max(weights.findIndex((weight) => (left -= weight) < 0), 0));
        if (!closed[row] && done(ids)) closed[row] = [...ids];
      });
    }
    return texts.map((ids, row) => (closed[row] ?? ids).slice(1).map((id) => LEXICON[id]));
  }

  function probe(read) {
    const { logits } = read(exam);
    const got = likeliest(logits, classes);
    const loss = got.reduce((sum, _, row) => {
      const line = logits.subarray(row * classes, (row + 1) * classes);
      const top = line[got[row]];
      return sum + Math.log(line.reduce((total, x) => total + Math.exp(x - top), 0))
        + top - line[exam.targets[row]];
    }, 0) / got.length;
    const written = write(read, range(40, () => []), makeRandom(seed));
    const accuracy = share(written.map(isSentence));
    const examples = written.slice(0, 6).map((words) => {
      const good = acceptedWords(words);
      return { input: [], wanted: [], got: words, right: words.map((_, i) => i < good) };
    });
    return { accuracy, examples, numbers: {
      "written sentences that the grammar accepts": accuracy,
      "next words right": share(got.map((id, i) => id === exam.targets[i])),
      "loss on new sentences": loss,
      "least loss without looking ahead": least,
    } };
  }

  function parse(text) {
    const words = wordsIn(text);
    const { error } = tokensOf(words, number, listed(LEXICON.slice(1)));
    if (error) return { error };
    if (words.length + 1 >= time) {
      return { error: `It reads at most ${time - 2} words; these are ${words.length}.` };
    }
    if (words.includes(".")) {
      return { error: "Leave the full stop to the model: it ends the sentence." };
    }
    return { words };
  }

  function ask(read, text) {
    const { words, error } = parse(text);
    if (error) return { error };
    const [written] = write(read, [words], makeRandom(seed));
    const fits = acceptedWords(words) === words.length;
    const right = fits ? isSentence(written) : null;
    return { input: words, output: written.slice(words.length), right };
  }

  /** The reader's words are shown with what the model adds to them. */
  function maps(read, text) {
    const { words, error } = text === null ? {} : parse(text);
    if (error) return null;
    const ids = words ? [".", ...write(read, [words], makeRandom(seed))[0]].map((word) =>
      number.get(word)) : tested[0].input;
    return mapsOf(read, ids.slice(0, time), (id) => LEXICON[id]);
  }

  const options = { steps: 400, lr, schedule: "cosine" };
  return { design, options, tokens: [LEXICON], batch, probe, maps, ask };
}

// longer: positions that were never trained.
const LETTERS = [...new Set(LEXICON.join(""))].sort();
export const CHARACTERS = [" ", ...LETTERS];

function longer({ positions, n_layers, n_heads, d_model, lr }, random) {
  const [trained, longest, stretch, pictured] = [32, 128, 16, 48];
  const [classes, number] = [CHARACTERS.length, numbered(CHARACTERS)];
  const design = oneStack({ causal: true, source_vocab: classes, d_model, n_heads, n_layers,
    positions, max_length: longest });

  /** A window begins anywhere in a sentence. */
  function windowOf(from, time, testing) {
    const spelled = () => `${sentenceFor(from, testing).words.join(" ").replace(" .", ".")} `;
    let text = spelled();
    text = text.slice(from.integer(text.length));
    while (text.length <= time) text += spelled();
    const ids = Array.from(text.slice(0, time + 1), (letter) => number.get(letter));
    return { input: ids.slice(0, -1), answer: ids.slice(1) };
  }

  const tested = range(32, () => windowOf(random, longest, true));
  const exam = batchOf(tested);
  const batch = (from) => batchOf(range(32, () => windowOf(from, trained, false)));

  const shown = (id) => (id ? CHARACTERS[id] : "␣");

  function probe(read) {
    const got = likeliest(read(exam).logits, classes);
    const right = got.map((id, i) => id === exam.targets[i]);
    const between = (first, end) =>
      share(right.filter((_, i) => i % longest >= first && i % longest < end));
    const starts = range(longest / stretch, (i) => i * stretch);
    const examples = tested.slice(0, 2).map(({ input, answer }, row) => ({
      input: input.slice(0, 2 * trained).map(shown),
      wanted: answer.slice(0, 2 * trained).map(shown),
      got: got.slice(row * longest, row * longest + 2 * trained).map(shown),
      right: right.slice(row * longest, row * longest + 2 * trained),
    }));
    return { accuracy: between(trained, longest), examples,
      numbers: Object.fromEntries(starts.map((start) =>
        [`positions ${start + 1} to ${start + stretch}`, between(start, start + stretch)])) };
  }

  // Later letters change nothing in the rows of these.
  const maps = (read) => mapsOf(read, tested[0].input.slice(0, pictured), shown);

  const options = { steps: 400, lr, schedule: "cosine" };
  return { design, options, tokens: [CHARACTERS], batch, probe, maps, ask: null };
}

// --- numbers into words ----------------------------------------------------------------------

const SOURCE = ["<pad>", "<eos>", ...digits];
const TARGET = ["<pad>", "<bos>", "<eos>", ...ONES, ...TENS, "hundred", "thousand", "and"];
const [sourceNumber, targetNumber] = [numbered(SOURCE), numbered(TARGET)];
const MOST_DIGITS = 6; // for which there are words

/**
 * What a translator of numbers is trained and tested on. most: digits that a reader may ask for.
 * alone: the accuracy is that of numbers that the model writes by itself, word after word. Where no
 * word can see a later one, it is that of the next words after the right ones, which is the same.
 */
function inEnglish({ design: more, options, rows, longest, most = MOST_DIGITS, alone = false },
  random) {
  const design = { ...oneStack(more), kind: "translator", source_vocab: SOURCE.length,
    target_vocab: TARGET.length };
  delete design.causal; // the translator has its own masks

  // Each word by itself is learned: none of those up to twenty, and no round number, is held out.
  const isTested = (n) => n > 20 && n % 10 !== 0 && isHeldOut(String(n), 10);
  const encode = (n) => [...String(n)].map((digit) => sourceNumber.get(digit)).concat(1);

  /** Each length is as frequent as the others. */
  function draw(from, testing) {
    for (;;) {
      const least = 10 ** from.integer(longest);
      const n = least === 1 ? from.integer(10) : least + from.integer(9 * least);
      if (isTested(n) === testing) return n;
    }
  }

  const wordsOf = (n) => inWords(n).map((word) => targetNumber.get(word));
  const taught = (list) => taughtOf(list.map(encode), list.map(wordsOf));

  /** The likeliest word, again and again, until each text has its end. */
  const translate = (read, list) =>
    written(read, list.map(encode), TARGET.length, design.max_length)
      .map((ids) => ids.map((id) => TARGET[id]));

  // Numbers that are written word after word take as many passes as they have words: fewer of them
  const tested = [...new Set(range(400, () => draw(random, true)))].slice(0, alone ? 80 : 120);
  const exam = taught(tested);
  const isRight = (n, words) => words.join(" ") === inWords(n).join(" ");
  const example = (n, got) => {
    const wanted = inWords(n);
    const right = range(Math.max(got.length, wanted.length), (i) => got[i] === wanted[i]);
    return { input: [...String(n)], wanted, got, right };
  };

  function probe(read) {
    const got = likeliest(read(exam).logits, TARGET.length);
    const right = got.map((id, i) => exam.target_out[i] < 0 || exam.target_out[i] === id);
    const some = alone ? tested : tested.slice(0, 6);
    const said = translate(read, some);
    const whole = tested.map((n, row) => (alone ? isRight(n, said[row])
      : right.slice(row * exam.target_time, (row + 1) * exam.target_time).every(Boolean)));
    const lengths = [...new Set(tested.map((n) => String(n).length))].sort();
    return {
      accuracy: share(whole),
      examples: some.slice(0, 6).map((n, i) => example(n, said[i])),
      numbers: {
        ...(alone && { "next words right after the right ones":
          share(right.filter((_, i) => exam.target_out[i] >= 0)) }),
        ...Object.fromEntries(lengths.map((length) => [`numbers of ${length} digits right`,
          share(whole.filter((_, i) => String(tested[i]).length === length))])),
      },
    };
  }

  /** The maps of a number with the words that the model writes for it. */
  function maps(read, text) {
    const { n, error } = text === null ? { n: tested[0] } : parse(text);
    if (error) return null;
    const [said] = translate(read, [n]);
    const given = ["<bos>", ...said];
    const columns = [...String(n), "<eos>"];
    const shown = { ...sourcesOf([encode(n)]),
      target_in: Int32Array.from(given, (word) => targetNumber.get(word)),
      target_out: Int32Array.from(given, () => -1), target_time: given.length };
    const labels = {
      encoder: ["encoder", columns, columns],
      "decoder.self": ["decoder, self-attention", given, given],
      "decoder.cross": ["decoder, cross-attention", [...said, "<eos>"], columns],
    };
    return read(shown, { maps: true }).maps.map((map) => {
      const [, part, kind] = /^(encoder|decoder)\..*\.(self|cross)/.exec(map.name);
      const [says, rows, along] = labels[part === "encoder" ? part : `${part}.${kind}`];
      return { ...map, name: `${says}, layer ${layerNumber(map.name)}`, rows, columns: along };
    });
  }

  function parse(text) {
    const plain = text.replace(/[\s,]/g, "");
    const { error } = tokensOf([...plain], digitNumbers, "digits only");
    if (error) return { error };
    const n = Number(plain);
    if (plain && String(n).length <= most) return { n };
    const why = most < MOST_DIGITS ? "it was trained on no longer ones"
      : "its vocabulary has no word for more";
    return { error: `It takes a number of one to ${most} digits; ${why}.` };
  }

  function ask(read, text) {
    const { n, error } = parse(text);
    if (error) return { error };
    const [output] = translate(read, [n]);
    return { input: [...String(n)], output, right: isRight(n, output) };
  }

  const batch = (from) => taught(range(rows, () => draw(from, false)));
  return { design, options, tokens: [SOURCE, TARGET], batch, probe, maps, ask };
}

const numbers = ({ longest, lr, ...sizes }, random) => inEnglish({
  design: { ...sizes, positions: "learned", max_length: 16 }, longest, rows: 64,
  options: { steps: 500, lr, schedule: "cosine" },
}, random);

// parts: the same with the paper's small Transformer, each part of which can be left out.
const PARTS = ["cross_attention", "causal_mask", "residual", "positions", "encoder_self_attention",
  "decoder_self_attention", "feed_forward", "heads", "root", "norms", "relu"];

function parts(settings, random) {
  const without = PARTS.filter((part) => !settings[part]);
  const { heads, positions } = settings;
  return inEnglish({
    design: { d_model: 32, n_layers: 1, n_heads: heads ? 4 : 1, norm: "post", without,
      positions: positions ? "sinusoidal" : "none", max_length: 10 },
    longest: 5, most: 5, rows: 32, alone: true,
    options: { steps: 600, lr: 0.005, schedule: "cosine", warmup: 60 },
  }, random);
}

// --- settings --------------------------------------------------------------------------------

const whole = (least, most) => ({
  fits: (value) => Number.isInteger(value) && value >= least && value <= most,
  says: `a whole number from ${least} to ${most}`,
});
const oneOf = (...values) => ({ fits: (value) => values.includes(value), says: values.join(" or ") });
const sizes = { n_heads: whole(1, 16), d_model: whole(1, 128) };
const lr = { fits: (value) => Number.isFinite(value) && value > 0, says: "a number above 0" };
const common = { n_layers: whole(1, 12), ...sizes, lr };
const switched = oneOf(true, false);
const schemes = oneOf("none", "learned", "sinusoidal", "rotary", "alibi");
const TASKS = new Map(Object.entries({
  senses: { make: senses, rules: { attention: oneOf("itself", "equal", "chosen"),
    unsure: switched, filled: switched, updates: whole(1, 10_000), ...sizes, lr } },
  senses_masked: { make: senses, rules: { causal: switched, ...sizes, lr } },
  senses_ordered: { make: senses, rules: { wanted: oneOf("meanings", "roles"), positions: schemes,
    causal: switched, ...sizes, lr } },
  order: { make: order, rules: { positions: oneOf("none", "learned"), causal: switched, ...common } },
  neighbours: { make: neighbours, rules: { ...sizes, d_k: whole(1, 64), lr } },
  future: { make: future, rules: { causal: switched, ...common } },
  depth: { make: depth, rules: { norm: oneOf("pre", "post"), warmup: whole(0, 299), ...common } },
  longer: { make: longer, rules: { positions: schemes, ...common } },
  numbers: { make: numbers, rules: { longest: whole(2, 6), ...common } },
  copying: { make: copying, rules: { attention: switched, state: oneOf(8, 16, 32),
    longest: whole(2, 16) } },
  parts: { make: parts, rules: Object.fromEntries(PARTS.map((part) => [part, switched])) },
}));

/** One more task, of a script that only its own panel loads. */
export const add = (name, task) => TASKS.set(name, task);

/**
 * A task: {design, options, tokens, batch(random), probe(read), maps(read, text or null), ask(read, text)
 * or null}; read is the model's; maps are null for a text that the task does not take. tokens: what the
 * model reads, by its numbers, and what it writes where that is something else. random: the generator of
 * what the model is tested on. Throws what a reader should know.
 */
export function make(name, settings, random) {
  const task = TASKS.get(name);
  if (!task) throw new Error(`expected a task out of ${[...TASKS.keys()].join(", ")}, got ${name}`);
  for (const [key, rule] of Object.entries(task.rules)) {
    const value = Object.hasOwn(settings, key) ? settings[key] : undefined;
    if (!rule.fits(value)) throw new Error(`expected ${key} to be ${rule.says}, got ${value}`);
  }
  const stranger = Object.keys(settings).find((key) => !Object.hasOwn(task.rules, key));
  if (stranger) {
    throw new Error(`expected the settings ${Object.keys(task.rules).join(", ")}, got ${stranger} too`);
  }
  const { n_heads, d_model, d_k, positions } = settings;
  if (d_k === undefined && d_model % n_heads) {
    throw new Error(`${n_heads} heads cannot share a d_model of ${d_model} equally. Choose a d_model `
      + "that is a multiple of the number of heads.");
  }
  if (positions === "rotary" && (d_model / n_heads) % 2) {
    throw new Error(`Rotary positions turn pairs of numbers, but each head has ${d_model / n_heads}. `
      + "Choose fewer heads, or a larger d_model.");
  }
  return task.make(settings, random);
}
