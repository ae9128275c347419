// What a reader types, in the words of the model: forgiving where the meaning is plain, and with a
// better sentence to offer where it is not. A word that the model knows is left as it is.

// As lib.data.tokenise cuts: a run of letters, one digit, or one other mark.
const LETTERS = "[\\p{L}\\p{Letter_Number}\\p{No}_]+";
const TOKEN = new RegExp(`${LETTERS}|\\p{Decimal_Number}|[^\\p{L}\\p{N}_\\s]`, "gu");
const clean = (text, { lower = true } = {}) => (lower ? text.toLowerCase() : text).normalize("NFC");
export const tokenise = (text, options = {}) => clean(text, options).match(TOKEN) ?? [];

// Here a number stays in one piece: 1,000 or 2.5 or −4 or 13th.
const FIGURES = "(?:(?<=^|\\s)[-−])?(?:\\d{1,3}(?:,\\d{3})+(?!\\d)|\\d+)"
  + "(?:\\.\\d+|(?:st|nd|rd|th)\\b)?";
const PIECE = new RegExp(`${FIGURES}|km/h|°[cf]|${TOKEN.source}`, "gu");
const UNITS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen "
  + "fourteen fifteen sixteen seventeen eighteen nineteen").split(" ");
const TENS = ["", "", ..."twenty thirty forty fifty sixty seventy eighty ninety".split(" ")];
const LARGE = new Map(Object.entries(
  { hundred: 100, thousand: 1e3, million: 1e6, billion: 1e9 }));
const MONTHS = ("january february march april may june july august september october november "
  + "december").split(" ");
const PLURALS = new Map(Object.entries(
  { foot: "feet", inch: "inches", krona: "kronor", krone: "kroner" }));
const ALIASES = new Map(Object.entries({ $: "dollars", "€": "euros", "£": "pounds", "¥": "yen",
  "&": "and", the: "", of: "", km: "kilometers", cm: "centimeters", mm: "millimeters", kg: "kilograms",
  ml: "milliliters", mb: "megabytes", mph: "miles per hour", "km/h": "kilometers per hour",
  "°c": "degrees celsius", "°f": "degrees fahrenheit" }));
const JOINS = ["in", "and", ","]; // after these, "a" counts; after a noun, it is "per"
const isFigure = (piece) => /\d/.test(piece ?? "");

/** A whole number below 100 as words. */
const spell = (n) => (n < 20 ? [UNITS[n]] : [TENS[Math.floor(n / 10)], UNITS[n % 10]])
  .filter((word) => word !== "zero" || n === 0);
const isNumber = (word) => isFigure(word) || UNITS.includes(word) || TENS.indexOf(word) > 1
  || LARGE.has(word);

/** The number that a run of number words, or a figure, stands for. */
function valueOf(run) {
  if (isFigure(run[0])) return Number.parseFloat(run[0].replaceAll(",", "").replace("−", "-"));
  let [total, part] = [0, 0];
  for (const word of run) {
    if (word === "hundred") part = (part || 1) * 100;
    else if (LARGE.has(word)) [total, part] = [total + (part || 1) * LARGE.get(word), 0];
    else part += Math.max(UNITS.indexOf(word), 0) + 10 * Math.max(TENS.indexOf(word), 0);
  }
  return total + part;
}

/** The words of a text's pieces: `knows(word)` tells which the model has. */
function translate(pieces, knows) {
  const spells = UNITS.some(knows);
  const pluralOf = (word) => [PLURALS.get(word) ?? "", `${word}s`, `${word}es`].find(knows);
  const isMonth = (word) => MONTHS.includes(word) && knows(word);
  const words = [];

  function figure(text, i) {
    const value = valueOf([text]);
    const single = (piece) => /^\d$/.test(piece ?? "");
    const dated = isMonth(pieces[i - 1]) || isMonth(pieces[i + 1])
      || (/^\d{4}$/.test(text) && [undefined, ",", "and"].includes(pieces[i + 1]))
      || (single(text) && (single(pieces[i - 1]) || single(pieces[i + 1])));
    const plain = Number.isInteger(value) && value >= 0;
    if (plain && (dated || !spells)) return [...String(value)];
    return plain && value < 100 ? spell(value) : [text];
  }
  function word(text, i) {
    const [before, after] = [words.at(-1), pieces[i + 1]];
    if (knows(text)) return [(isNumber(before) && before !== "one" && pluralOf(text)) || text];
    if (ALIASES.has(text)) return ALIASES.get(text).split(" ").filter(Boolean);
    if (spells && ["a", "an"].includes(text)) {
      const rate = before && !JOINS.includes(before) && knows("per") && knows(after);
      return [rate ? "per" : "one"];
    }
    const american = text.replace(/(met|lit)re(s?)$/, "$1er$2");
    return [(knows(american) && american) || pluralOf(american) || text];
  }
  pieces.forEach((piece, i) => {
    words.push(...(isFigure(piece) ? figure(piece, i) : word(piece, i)));
  });
  return words;
}

/** The pieces of a text without marks that say nothing; a symbol or a day goes to its side. */
function cut(text, knows) {
  const money = clean(text).replace(/\b(\p{L})\.(\p{L})\./gu, "$1$2") // U.S.
    .replace(/([$€£¥])\s*(\d[\d.,]*\d|\d)/g, (all, sign, sum) => (
      knows(sign) ? all : `${sum} ${sign} `));
  const pieces = (money.match(PIECE) ?? []).map((piece) => {
    if (knows(piece)) return piece;
    if (/^\d+[a-z]+$/.test(piece)) return piece.replace(/\D+/, ""); // 13th
    return /^[.;:!?]$/.test(piece) && knows(",") ? "," : piece;
  }).filter((piece) => knows(piece) || !/^[\p{P}`]$/u.test(piece) || piece === "&");
  const isMonth = (piece) => MONTHS.includes(piece) && knows(piece);
  for (let i = 0; i < pieces.length; i += 1) { // 13 (of) june, as dates are written in English
    const month = i + (pieces[i + 1] === "of" ? 2 : 1);
    if (/^\d{1,2}$/.test(pieces[i]) && isMonth(pieces[month]) && !isMonth(pieces[i - 1])) {
      pieces.splice(i, month - i + 1, pieces[month], pieces[i]);
    }
  }
  const ends = (i) => i < 0 || i >= pieces.length;
  return pieces.filter((piece, i) => piece !== ","
    || !(pieces[i - 1] === "," || ends(i - 1) || pieces.slice(i).every((p) => p === ",")));
}

// --- what to offer instead --------------------------------------------------------------------

/** How many letters must be changed, put in or left out to make one word of the other. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const above = row;
    row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      row[j] = Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + Number(a[i - 1] !== b[j - 1]));
    }
  }
  return row[b.length];
}

/** The known word that is spelled most alike, or begins so; undefined if none is near. */
function near(word, known) {
  const most = Math.floor(word.length / 3);
  const [best] = known.filter((other) => Math.abs(other.length - word.length) <= most)
    .map((other) => [distance(word, other), other])
    .filter(([far]) => far <= most).sort(([a], [b]) => a - b);
  if (best) return best[1];
  for (let size = word.length; size >= 3; size -= 1) {
    const found = known.find((other) => other.startsWith(word.slice(0, size)));
    if (found) return found;
  }
  return undefined;
}

/** The whole numbers below 100 all of whose words the model knows. */
const spellable = (knows) => Array.from({ length: 100 }, (_, n) => n)
  .filter((n) => spell(n).every(knows));

/** What stands in the way: { text, number, better (tokens) }, from `start` to before `end`. */
function problemsIn(tokens, knows, words) {
  const found = [];
  for (let start = 0; start < tokens.length; start += 1) {
    let end = start + 1;
    const inside = (i) => isNumber(tokens[i]) || (tokens[i] === "and"
      && LARGE.has(tokens[i - 1]) && isNumber(tokens[i + 1]));
    if (isNumber(tokens[start]) && !/^\d$/.test(tokens[start])) {
      while (end < tokens.length && !isFigure(tokens[end]) && inside(end)) end += 1;
    }
    const run = tokens.slice(start, end);
    const unknown = run.filter((token) => !knows(token));
    if (unknown.length) {
      const number = isNumber(unknown[0]);
      const value = number && valueOf(run);
      const [nearest] = number ? spellable(knows)
        .sort((a, b) => Math.abs(a - value) - Math.abs(b - value) || b - a) : [];
      const other = number ? nearest !== undefined && spell(nearest) : near(unknown[0], words);
      found.push({ text: run.join(" "), number, start, end, better: other && [other].flat() });
    }
    start = end - 1;
  }
  return found;
}

/**
 * Reads a text for a model that knows `words`. Returns { tokens, problems, spelled, offer }:
 * problems as { text, number }, what it does not know; spelled, whether figures became words;
 * offer, the text with the nearest that it knows in the place of each problem, or null.
 */
export function read(text, words) {
  const known = new Set(words);
  const knows = (word) => known.has(word);
  const pieces = cut(text, knows);
  const tokens = translate(pieces, knows);
  const problems = problemsIn(tokens, knows, words);
  let offer = null;
  if (problems.length && problems.every(({ better }) => better)) {
    const better = [...tokens];
    for (const one of [...problems].reverse()) {
      better.splice(one.start, one.end - one.start, ...one.better);
    }
    offer = translate(better, knows).join(" ");
  }
  const figures = (list) => list.filter(isFigure).join("").length;
  return { tokens, offer, spelled: figures(pieces) > figures(tokens),
    problems: problems.map((one) => ({ text: one.text, number: one.number,
      better: one.better ? one.better.join(" ") : null })) };
}

/** The whole numbers below 100 that can be said in these words. */
export const numbers = (words) => spellable((word) => words.includes(word));
