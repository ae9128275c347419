// A model's vocabularies: which words and sub-words have which numbers.

const SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"];
export const UNK = 3;
const END = "</w>"; // the last piece of a word ends with it

export const all = (words) => [...SPECIAL, ...words];

/** The numbers of tokens by their text. */
const numbered = (words) => new Map(words.map((word, i) => [word, i + SPECIAL.length]));

/**
 * Cuts a word into pieces: of all neighbours that may become one, those that were learnt first do,
 * from left to right, until none may.
 */
function cut(word, ranks) {
  const pieces = [...word];
  pieces.push(pieces.pop() + END);
  for (;;) {
    let [best, place] = [Infinity, -1];
    for (let i = 0; i + 1 < pieces.length; i += 1) {
      const rank = ranks.get(`${pieces[i]} ${pieces[i + 1]}`) ?? Infinity;
      if (rank < best) [best, place] = [rank, i];
    }
    if (place < 0) return pieces;
    pieces.splice(place, 2, pieces[place] + pieces[place + 1]);
  }
}

/**
 * For a model's header a function that gives a word's numbers, as train.subword and lib.data do: a
 * word with a letter that was never seen is unknown as a whole.
 */
export function reader({ source_words: words, pieces, merges }) {
  if (!merges) {
    const numbers = numbered(words);
    return (word) => [numbers.get(word) ?? UNK];
  }
  const numbers = numbered(pieces);
  const ranks = new Map(merges.map(([left, right], i) => [`${left} ${right}`, i]));
  return (word) => {
    const found = cut(word, ranks).map((piece) => numbers.get(piece) ?? UNK);
    return found.includes(UNK) ? [UNK] : found;
  };
}

/** Tokens as a reader sees them put together: a piece that does not end its word has a hyphen. */
export function joined(tokens) {
  let text = "";
  tokens.filter((token) => SPECIAL.indexOf(token) < 0 || token === SPECIAL[UNK]).forEach((token, i, all) => {
    const inside = token.length > 1 && token.endsWith("-");
    text += inside ? token.slice(0, -1) : token;
    if (!inside || all[i + 1] === SPECIAL[UNK]) text += " ";
  });
  return text.trim();
}
