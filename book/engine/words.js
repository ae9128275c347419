// The words of the sentences with two senses, and what can be done to such a sentence.

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
const SMALL = new Set([...PLAIN.between, ...PLAIN.before]);
export const isVerb = (word) => PLAIN.verbs.includes(word);
export const isNoun = (word) => KNOWN.includes(word) && !isVerb(word) && !SMALL.has(word);

/** The same words in groups, for those who look one up. */
export const groups = () => [{ name: "Two meanings", words: DOUBLE },
  ...DOUBLE.map((word) => ({ name: `Clues to ${word}`, words: cluesOf(word) })),
  { name: "Nouns", words: PLAIN.nouns }, { name: "Verbs", words: PLAIN.verbs },
  { name: "Small words", words: [...SMALL] }];

/** The words of a text. */
export const wordsOf = (text) => text.toLowerCase().replaceAll(".", " ").split(/\s+/).filter(Boolean);

/** Where the one who acts, the act, and the one it is done to stand; null where that is not said. */
export function rolesIn(sentence) {
  const placesOf = (is) => sentence.flatMap((word, i) => (is(word) ? [i] : []));
  const [verbs, nouns] = [placesOf(isVerb), placesOf(isNoun)];
  const [before, after] = [nouns.filter((i) => i < verbs[0]), nouns.filter((i) => i > verbs[0])];
  if (verbs.length !== 1 || before.length !== 1 || !after.length) return null;
  return [before[0], verbs[0], after[0]];
}

/** The same sentence with who and whom exchanged; null where it has none. */
export function exchanged(sentence) {
  const [who, , whom] = rolesIn(sentence) ?? [];
  if (who === undefined) return null;
  return sentence.map((word, i) => (i === who ? sentence[whom] : i === whom ? sentence[who] : word));
}

/** The sentence without what speaks for a meaning of one of its words. */
export function withoutClues(sentence) {
  const clues = sentence.filter((word) => SENSES.has(word)).flatMap(cluesOf);
  return sentence.filter((word) => !clues.includes(word));
}
