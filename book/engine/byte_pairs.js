// Byte pairs: pieces that a text teaches. It begins with single characters, and the most frequent pair of
// neighbours becomes a piece of its own, again and again.
import { numbered } from "./batches.js";

const LEAST = 2; // times that a pair must stand in the text
const SIZE = 2 ** 20; // above each number of a piece, so that a pair is one number
const WORD = /[^ \n]+ ?|[ \n]/g; // a piece lies within one; the blank behind a word marks its end

/** The pieces of a word with each pair of neighbours (a, b) as the one `to`, from left to right. */
function merged(ids, a, b, to) {
  if (!ids.some((id, i) => id === a && ids[i + 1] === b)) return ids;
  const found = [];
  for (let i = 0; i < ids.length; i += 1) {
    const fits = ids[i] === a && ids[i + 1] === b;
    found.push(fits ? to : ids[i]);
    if (fits) i += 1;
  }
  return found;
}

/** How often each word stands in the texts. */
function counted(texts) {
  const counts = new Map();
  for (const text of texts) {
    for (const word of text.match(WORD) ?? []) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts;
}

/**
 * What the texts teach, up to this many merges, fewer where no pair stands there twice: pieces, the
 * characters before those merged, and encode(text), their numbers in a text of these characters. Of
 * pairs that are equally frequent, the one whose pieces came first is merged. Source: Sennrich et al.
 * 2016, algorithm 1, with a blank for its mark at the end of a word.
 */
export function learned(texts, characters, merges) {
  const known = numbered(characters);
  const [pieces, pairs, counts] = [[...characters], [], new Map()];
  const spelt = (word) => [...word].map((c) => known.get(c));
  const words = [...counted(texts)].map(([word, times]) => ({ ids: spelt(word), times }));
  const count = ({ ids, times }, sign) => {
    for (let i = 1; i < ids.length; i += 1) {
      const pair = ids[i - 1] * SIZE + ids[i];
      counts.set(pair, (counts.get(pair) ?? 0) + sign * times);
    }
  };
  if (merges) words.forEach((word) => count(word, 1));
  while (pairs.length < merges) {
    let [best, most] = [Infinity, LEAST];
    for (const [pair, times] of counts) {
      if (times > most || (times === most && pair < best)) [best, most] = [pair, times];
    }
    if (best === Infinity) break;
    const [a, b] = [Math.floor(best / SIZE), best % SIZE];
    for (const word of words) {
      const ids = merged(word.ids, a, b, pieces.length);
      if (ids !== word.ids) {
        count(word, -1);
        word.ids = ids;
        count(word, 1);
      }
    }
    pairs.push([a, b]);
    pieces.push(pieces[a] + pieces[b]);
  }

  const cut = new Map(); // each word once
  function cutOf(word) {
    if (!cut.has(word)) {
      cut.set(word, pairs.reduce((ids, [a, b], k) =>
        merged(ids, a, b, characters.length + k), spelt(word)));
    }
    return cut.get(word);
  }
  return { pieces, encode: (text) => (text.match(WORD) ?? []).flatMap(cutOf) };
}
