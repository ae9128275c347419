// The words of the laboratories that read sentences: what the models know, and what a reader adds.

// Who does what to whom, in sentences of three words.
export const NOUNS = ["dog", "man", "cat", "bird", "child", "horse", "cow", "goat"];
export const VERBS = ["bites", "sees", "follows", "likes"];

// A word of two meanings: its two translations, and what speaks for each.
export const SENSES = new Map(Object.entries({
  bank: [["Ufer", "river boat water"], ["Bank", "money loan cash"]],
  bat: [["Fledermaus", "cave wings night"], ["Schläger", "ball helmet pitch"]],
  spring: [["Frühling", "flowers april winter"], ["Feder", "steel mattress clock"]],
  match: [["Streichholz", "fire candle smoke"], ["Spiel", "goal referee stadium"]],
  nail: [["Fingernagel", "finger polish hand"], ["Nagel", "hammer wood wall"]],
  seal: [["Robbe", "sea fish ice"], ["Siegel", "letter wax king"]],
}).map(([word, both]) =>
  [word, both.map(([german, clues]) => ({ german, clues: clues.split(" ") }))]));
export const PLAIN = {
  nouns: ["man", "woman", "dog", "child", "friend", "house"],
  verbs: ["bites", "hits", "saw", "likes", "needs"],
  between: ["in", "on", "at", "by", "near", "with", "and"],
  before: ["the", "a", "my", "this", "old", "small", "red"],
};

export const DOUBLE = [...SENSES.keys()];

/** What speaks for either meaning of a word. */
export const cluesOf = (word) => SENSES.get(word).flatMap(({ clues }) => clues);

const CLUES = DOUBLE.flatMap(cluesOf);
export const KNOWN = [...DOUBLE, ...CLUES, ...Object.values(PLAIN).flat()];
const VERB = new Set([...VERBS, ...PLAIN.verbs]);
const NOUN = new Set([...NOUNS, ...DOUBLE, ...CLUES, ...PLAIN.nouns]);
export const isVerb = (word) => VERB.has(word);
export const isNoun = (word) => NOUN.has(word);

/** Where the one who acts, the act, and the one it is done to stand; null where that is not said. */
export function rolesIn(sentence) {
  const verbs = sentence.flatMap((word, i) => (isVerb(word) ? [i] : []));
  const nouns = sentence.flatMap((word, i) => (isNoun(word) ? [i] : []));
  const [verb] = verbs;
  const whom = nouns.find((i) => i > verb);
  if (verbs.length !== 1 || whom === undefined) return null;
  const [who, ...others] = nouns.filter((i) => i < verb);
  return who === undefined || others.length ? null : [who, verb, whom];
}

/** The same sentence with who and whom exchanged, or null. */
export function swapped(sentence) {
  const [who, , whom] = rolesIn(sentence) ?? [];
  return who === undefined ? null : sentence.map((word, i) =>
    sentence[{ [who]: whom, [whom]: who }[i] ?? i]);
}

/** Without what speaks for a meaning of one of its words. */
export const withoutClues = (sentence) => {
  const own = new Set(sentence.filter((word) => SENSES.has(word)).flatMap(cluesOf));
  return sentence.filter((word) => !own.has(word));
};

/** The words that a reader may add in a task, in named groups; there is none for other tasks. */
export function offered(task) {
  if (task === "order") return [["Nouns", NOUNS], ["Verbs", VERBS]];
  if (!task.startsWith("senses")) return [];
  return [["Of two meanings", DOUBLE],
    ...DOUBLE.map((word) => [`Clues to ${word}`, cluesOf(word)]),
    ["Nouns", PLAIN.nouns], ["Verbs", PLAIN.verbs], ["Small words",
      [...PLAIN.between, ...PLAIN.before]]];
}
