// The playground of chapters 4 to 8: words of two meanings, and who does what to whom, in the same
// sentences. One attention layer reads them; each chapter switches something of it on.
import * as attended from "./attended.js";
import { isHeldOut, likeliest, listed, numbered, pack, range, share, tokensOf } from "./batches.js";
import {
  DOUBLE, KNOWN, PLAIN, SENSES, cluesOf, exchanged, isNoun, isVerb, rolesIn, wordsOf,
} from "./words.js";

const [UNSURE, MOST_WORDS, LONG] = ["?", 20, 32];
const ROLES = ["who", "act", "whom"];
const GERMAN = [UNSURE, ...[...SENSES.values()].flat().map((sense) => sense.german)];
const KNOWN_NUMBERS = numbered(KNOWN);
const EVERY = { // what a chapter does not switch on
  wanted: "meanings", attention: "chosen", unsure: true, filled: false, positions: "none",
  causal: false, updates: 300,
};

/** A translation for each word: null for one of one meaning, or where the clues do not say. */
const translations = (sentence, unsure) => sentence.map((word) => {
  const found = (SENSES.get(word) ?? []).filter(({ clues }) =>
    clues.some((clue) => sentence.includes(clue)));
  if (found.length === 1) return found[0].german;
  return SENSES.has(word) && !found.length && unsure ? UNSURE : null;
});

/** The role of each word that has one. */
function rolesOf(sentence) {
  const places = rolesIn(sentence);
  return sentence.map((_, i) => ROLES[places?.indexOf(i)] ?? null);
}

/** One or two words of two meanings, with a clue or without, among others, in any order. */
function sentenceFrom(from, unsure) {
  const chance = (often) => from.uniform() < often;
  const any = (list) => list[from.integer(list.length)];
  const [one, other, absent] = from.sample(DOUBLE, 3);
  const nouns = (chance(1 / 2) ? [one, other] : [one]).flatMap((word) =>
    (unsure && chance(1 / 3) ? [word] : [word, any(cluesOf(word))]));
  if (chance(1 / 4)) nouns.push(any(cluesOf(absent)));
  if (nouns.length === 1 || chance(1 / 2)) nouns.push(any(PLAIN.nouns));
  return from.shuffle(nouns).flatMap((noun, i) => [
    ...(i ? [any(i === 1 ? PLAIN.verbs : PLAIN.between)] : []),
    ...(chance(1 / 2) ? [any(PLAIN.before)] : []), noun,
  ]);
}

const FILLERS = [...PLAIN.nouns, ...PLAIN.between, ...PLAIN.before];

/** A sentence with small words among its own, `LONG` words in all. */
const fill = (sentence, from) => from.shuffle([...sentence,
  ...range(LONG - sentence.length, () => FILLERS[from.integer(FILLERS.length)])]);

export function senses(given, random) {
  const { wanted, attention, unsure, filled, positions, causal, updates, n_heads, d_model, lr } =
    { ...EVERY, ...given };
  const roles = wanted === "roles";
  const words = [...KNOWN, ...(roles ? ROLES : GERMAN)];
  const number = numbered(words);
  const design = { ...attended.oneStack({ d_model, n_heads, n_layers: 1, source_vocab: words.length,
    positions, causal, ...(positions === "learned" && { max_length: MOST_WORDS }) }),
  equal_weights: attention === "equal" };
  const solve = (sentence) => (roles ? rolesOf(sentence) : translations(sentence, unsure));

  /** What decides whether a sentence is tested: who and whom may be exchanged, and it is the same. */
  const keyOf = (sentence) => [sentence, ...(roles ? [exchanged(sentence)] : [])]
    .map((one) => one.join(" ")).sort()[0];

  function draw(from, testing) {
    for (;;) {
      const sentence = sentenceFrom(from, unsure);
      if (isHeldOut(keyOf(sentence), 10) === testing) return sentence;
    }
  }

  /** A row for each sentence; without attention to others, a row for each word. */
  function batchFor(sentences) {
    const alone = attention === "itself";
    const rowsOf = (lists) => (alone ? lists.flat().map((one) => [one]) : lists);
    const inputs = rowsOf(sentences.map((sentence) => sentence.map((word) => number.get(word))));
    const answers = rowsOf(sentences.map((sentence) => solve(sentence).map((answer) =>
      number.get(answer) ?? -1)));
    return { tokens: pack(inputs, 0), targets: pack(answers, -1), rows: inputs.length,
      lengths: Int32Array.from(inputs, ({ length }) => length),
      time: Math.max(...inputs.map(({ length }) => length)) };
  }

  /** Which words of a sentence are asked for, given their right answers. */
  function asked(sentence, right) {
    if (!roles) return sentence.map((word) => SENSES.has(word));
    const known = right.some(Boolean);
    return sentence.map((word, i) => (known ? right[i] !== null : isNoun(word) || isVerb(word)));
  }

  /** Of each sentence the words asked for: the word, its place, the model's answer, and the right one. */
  function answersTo(read, sentences) {
    const batch = batchFor(sentences);
    const got = likeliest(read(batch).logits, words.length);
    let passed = 0;
    return sentences.map((sentence, row) => {
      const first = attention === "itself" ? passed : row * batch.time;
      passed += sentence.length;
      const right = solve(sentence);
      const is = asked(sentence, right);
      return sentence.map((word, i) => ({ word, place: i, got: words[got[first + i]],
        wanted: right[i] })).filter(({ place }) => is[place]);
    });
  }

  // In the test on roles, each sentence stands beside the one in which who and whom are exchanged
  const tested = roles
    ? range(100, () => draw(random, true)).flatMap((sentence) => [sentence, exchanged(sentence)])
    : range(200, () => draw(random, true));
  const long = given.filled === undefined ? []
    : tested.slice(0, 50).map((sentence) => fill(sentence, random));

  const isRight = ({ got, wanted: right }) => got === right;
  const said = (key) => (answer) => `${answer.word}: ${answer[key]}`;
  const rightOf = (list) => share(list.flat().map(isRight));

  /** Where the clue of a word stands: before it, after it, or nowhere. */
  function clueOf({ word, place }, sentence) {
    const clues = cluesOf(word);
    const at = sentence.findIndex((one) => clues.includes(one));
    return at < 0 ? "none" : at < place ? "before" : "after";
  }

  /** How many are right, by what a chapter speaks of. */
  function numbersOf(read, answers) {
    const all = answers.flatMap((list, row) => list.map((one) => ({ one, row })));
    const among = (holds) => rightOf(all.filter(holds).map(({ one }) => one));
    if (roles) {
      return { "verbs right": among(({ one }) => one.wanted === "act"),
        "nouns right": among(({ one }) => one.wanted !== "act") };
    }
    const clue = (kind) => ({ one, row }) => clueOf(one, tested[row]) === kind;
    const doubtful = unsure && { "words without a clue right": among(clue("none")) };
    if (long.length) {
      return { "words with a clue right": among(({ one, row }) => !clue("none")({ one, row })),
        ...doubtful, [`right among ${LONG} words`]: rightOf(answersTo(read, long)) };
    }
    return { "right with the clue before the word": among(clue("before")),
      "right with the clue after the word": among(clue("after")), ...doubtful };
  }

  function probe(read) {
    const answers = answersTo(read, tested);
    return {
      accuracy: rightOf(answers),
      examples: tested.slice(0, 6).map((input, row) => ({ input,
        wanted: answers[row].map(said("wanted")), got: answers[row].map(said("got")),
        right: answers[row].map(isRight) })),
      numbers: numbersOf(read, answers),
    };
  }

  function parse(text) {
    const sentence = wordsOf(text);
    const { error } = tokensOf(sentence, KNOWN_NUMBERS, `these words: ${listed(KNOWN)}`);
    if (error) return { error };
    if (sentence.length > MOST_WORDS) {
      return { error: `It reads at most ${MOST_WORDS} words; these are ${sentence.length}.` };
    }
    const decides = roles ? (word) => isNoun(word) || isVerb(word) : (word) => SENSES.has(word);
    if (sentence.some(decides)) return { sentence };
    return { error: roles ? "There is no noun and no verb here, so there are no roles."
      : `There is nothing to decide here. Use one of ${listed(DOUBLE)}, too.` };
  }

  /** each: what stands at the words of the sentence, for those that are asked for. */
  function ask(read, text) {
    const { sentence, error } = parse(text);
    if (error) return { error };
    const [answers] = answersTo(read, [sentence]);
    const settled = answers.every(({ wanted: right }) => right !== null);
    const each = sentence.map(() => null);
    for (const one of answers) {
      each[one.place] = { text: one.got, right: one.wanted === null ? null : isRight(one) };
    }
    return { input: sentence, output: answers.map(said("got")), each,
      right: settled ? answers.every(isRight) : null };
  }

  function maps(read, text) {
    const { sentence, error } = text === null ? { sentence: tested[0] } : parse(text);
    if (error) return null;
    const ids = sentence.map((word) => number.get(word));
    const n = ids.length;
    const found = attended.mapsOf(read, ids, (id) => words[id], batchFor([sentence]));
    if (attention !== "itself") return found;
    return found.map((map) => ({ ...map, queries: n, keys: n, data: Float32Array.from(
      { length: map.heads * n * n }, (_, i) => Number(Math.floor(i / n) % n === i % n)) }));
  }

  const batch = (from) => batchFor(range(32, () => {
    const sentence = draw(from, false);
    return filled ? fill(sentence, from) : sentence;
  }));
  const options = { steps: updates, lr, schedule: "cosine" };
  return { design, options, words, tokens: [words], batch, probe, maps, ask };
}
