// The search page: ranks the sections of search-index.js for the words in its field.
//
// A section counts by its words, those of its title more than those of its prose (BM25), and most
// if the glossary or the index says that it explains what was asked. A word that the book does not
// have stands for those that begin with it, or else for the one that is spelt most like it.
"use strict";

const FIRST = 12; // results that are shown at once
const LONGEST = 200; // letters of a question that are read
const EXCERPT = 240;
const SENTENCE = /.+?(?:[.?!:]["”’)]*(?= [\p{Lu}\d“"(])|$)/gu;
// What a word counts, by where it stands.
const WEIGHTS = { term: 5, title: 5, page: 1.5, prose: 1 };
const ENOUGH = 1.5; // at this sum of weights a word counts half of what it can
// How well a section fits: by a term that is the question, or shares words with it; less where the
// term is only mentioned again; by the title of a chapter, or of a section.
const FIT = { same: 1, part: 0.8, again: 0.7, chapter: 1.3, title: 0.5, share: 4 };
const REFERENCE = 0.6; // what a page counts that is no chapter
const LEAST = 0.06; // of the best result's score; what has less is not shown
const ORDINARY = new Set(("a an and are as at be by can do does for from have how i if in is it "
  + "its me my of on or s should so t than that the then there this to us we what when where which "
  + "why will with you").split(" "));

// --- words ---------------------------------------------------------------------------------------

/**
 * The words of a text; one with hyphens or underscores as its parts and as a whole.
 * @returns {Generator<{ form: string, start: number, end: number, part?: string }>}
 */
function* wordsIn(text) {
  for (const { 0: found, index } of text.matchAll(/√|[\p{L}\p{N}]+(?:[-_][\p{L}\p{N}]+)*/gu)) {
    const place = { start: index, end: index + found.length };
    const parts = found === "√" ? ["sqrt"] : found.split(/[-_]/);
    if (parts.length > 1) yield { form: normal(parts.join("")), ...place };
    for (const part of parts) yield { form: normal(part), part, ...place };
  }
}

const forms = new Map();

/** The form under which a word is known: without case and accents, singular, spelt with s. */
function normal(word) {
  if (!forms.has(word)) {
    forms.set(word, word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase()
      .replace(/(ss|x|ch|sh)es$/, "$1").replace(/ies$/, "y").replace(/ices$/, "ix")
      .replace(/([^sui])s$/, "$1").replace(/iz(?=[aei])/, "is"));
  }
  return forms.get(word);
}

/** The words by which a name is known, without the ordinary ones if there are others. */
function wordsOf(name) {
  const all = [...wordsIn(name)].filter((word) => word.part).map((word) => word.form);
  const telling = all.filter((form) => !ORDINARY.has(form));
  return telling.length ? telling : all;
}

/** How many letters to add, drop, change, or swap with a neighbour; at most limit + 1. */
function distance(one, other, limit) {
  if (Math.abs(one.length - other.length) > limit) return limit + 1;
  let [before, last] = [[], Array.from({ length: other.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) {
        row[j] = Math.min(row[j], before[j - 2] + 1);
      }
    }
    if (Math.min(...row) > limit) return limit + 1;
    [before, last] = [last, row];
  }
  return last[other.length];
}

/** Whether two words have so long a beginning in common that they are forms of one. */
function akin(one, other) {
  let k = 0;
  while (k < one.length && one[k] === other[k]) k++;
  return k >= 4 && k >= 0.7 * Math.max(one.length, other.length);
}

// --- the index -----------------------------------------------------------------------------------

/** For each word of the book the sections that have it, and how much it counts in each. */
function makeIndex({ pages, sections, terms }) {
  const postings = new Map();
  const spelt = new Map(); // how the book writes a word
  const lengths = sections.map(([, , , prose, rows]) => prose.length + rows.length);
  const mean = lengths.reduce((sum, length) => sum + length, 0) / sections.length;
  const add = (text, section, weight) => {
    for (const { form, part } of wordsIn(text)) {
      if (!postings.has(form)) postings.set(form, new Map());
      const known = postings.get(form);
      known.set(section, (known.get(section) ?? 0) + weight);
      if (part && !spelt.has(form)) spelt.set(form, part.toLowerCase());
    }
  };
  sections.forEach(([page, , title, prose, rows], section) => {
    add(title, section, WEIGHTS.title);
    add(pages[page][1], section, WEIGHTS.page);
    add(`${prose}\n${rows}`, section, WEIGHTS.prose / (0.5 + 0.5 * lengths[section] / mean));
  });
  for (const [names, places] of terms) {
    for (const name of names) places.forEach((section) => add(name, section, WEIGHTS.term));
  }
  const named = (name) => ({ name, words: wordsOf(name), key: wordsOf(name).join("") });
  return {
    pages, sections, postings, spelt,
    terms: terms.map(([names, places]) => ({ names: names.map(named), places })),
    tops: new Set(pages.map((_, page) => sections.findIndex(([own]) => own === page))),
    titles: sections.map(([, , title]) => named(title.replace(/^(chapter )?[\d.]+[.:]?\s+/i, ""))),
  };
}

/** How telling a word is: the fewer sections have it, the more. */
const rarity = (index, size) => Math.log(1 + (index.sections.length - size + 0.5) / (size + 0.5));

/** What a word of the question stands for: words of the book, each with what it counts. */
function meanings(index, form) {
  const known = [...index.postings.keys()];
  const all = (weight, chosen) => chosen.map((other) => [other, weight]);
  const related = all(0.4, known.filter((other) => other !== form && akin(form, other)));
  if (index.postings.has(form)) return { form, found: new Map([[form, 1], ...related]) };
  const longer = form.length > 2 ? known.filter((other) => other.startsWith(form)) : [];
  if (longer.length) return { form, found: new Map(all(0.8, longer)) };
  const limit = form.length > 6 ? 2 : form.length > 3 ? 1 : 0;
  const near = known.filter((other) => limit && other[0] === form[0])
    .map((other) => [other, distance(form, other, limit)]);
  const least = Math.min(limit, ...near.map(([, far]) => far));
  const [best] = near.filter(([, far]) => far === least).map(([other]) => other)
    .sort((one, other) => index.postings.get(other).size - index.postings.get(one).size);
  return best ? { ...meanings(index, best), mended: index.spelt.get(best) ?? best }
    : { form, found: new Map(related) };
}

/** The words of a question and what they stand for, and the name that they would be, as one key. */
function read(index, question) {
  const words = wordsOf(question.slice(0, LONGEST)).map((form) => meanings(index, form));
  // "warm up" is also "warmup".
  const joined = words.slice(1).map((word, k) => words[k].form + word.form)
    .filter((form) => index.postings.has(form))
    .map((form) => ({ form, found: new Map([[form, 0.5]]) }));
  return { words, joined, key: words.map((word) => word.form).join("") };
}

// --- ranking -------------------------------------------------------------------------------------

/** How well a name fits the question: 1 if they are the same, less if they share words. */
function fit(index, name, asked) {
  if (name.key === asked.key) return FIT.same;
  const shared = name.words.filter((form) => asked.words.some((word) => word.found.has(form)));
  if (!shared.length) return 0;
  const apart = asked.words.filter((word) => !name.words.some((form) => word.found.has(form)));
  const weigh = (forms) => forms.reduce(
    (sum, form) => sum + rarity(index, index.postings.get(form)?.size ?? 0), 0);
  const all = [...name.words, ...apart.map((word) => word.form)];
  return FIT.part * (weigh(shared) / weigh(all)) ** 2;
}

/** For each section, how well it fits as the one that explains what was asked. */
function explanations(index, asked) {
  const fits = new Map();
  const named = new Map(); // of a section, the term that was asked for by name
  for (const { names, places } of index.terms) {
    const best = Math.max(...names.map((name) => fit(index, name, asked)));
    places.forEach((section, k) => {
      if (best) fits.set(section, Math.max(fits.get(section) ?? 0, k ? FIT.again * best : best));
      if (best === FIT.same && !named.has(section)) named.set(section, names[0]);
    });
  }
  index.titles.forEach((title, section) => {
    const weight = index.tops.has(section) ? FIT.chapter : FIT.title;
    const value = weight * fit(index, title, asked);
    if (value) fits.set(section, (fits.get(section) ?? 0) + value);
  });
  return { fits, named };
}

/** The sections that answer a question, the best first.
    Returns also the terms that they explain, the words that were meant, and those mended. */
function search(index, question) {
  const asked = read(index, question);
  const { fits, named } = explanations(index, asked);
  // Whoever asks for RoPE also means rotary positions.
  const meant = [...new Set([...named.values()].flatMap((name) => name.words))]
    .map((form) => ({ form, found: new Map([[form, 0.3]]) }));
  const words = [...asked.words, ...asked.joined, ...meant];
  const scores = new Map();
  const add = (section, score) => scores.set(section, (scores.get(section) ?? 0) + score);
  let most = 0;
  for (const { found } of words) {
    const values = new Map();
    for (const [form, weight] of found) {
      for (const [section, value] of index.postings.get(form) ?? []) {
        values.set(section, (values.get(section) ?? 0) + weight * value);
      }
    }
    const rare = rarity(index, values.size);
    most += rare * Math.max(0, ...found.values());
    for (const [section, value] of values) {
      add(section, (rare * (1 + ENOUGH) * value) / (ENOUGH + value));
    }
  }
  for (const [section, value] of fits) add(section, FIT.share * most * value);
  for (const [section, score] of scores) {
    const [, , chapter] = index.pages[index.sections[section][0]];
    if (!chapter) scores.set(section, REFERENCE * score);
  }
  const best = Math.max(...scores.values());
  const results = [...scores].filter(([, score]) => score > LEAST * best)
    .sort(([, one], [, other]) => other - one).map(([section]) => section);
  const marks = new Set(words.flatMap(({ found }) => [...found.keys()]));
  const mended = asked.words.flatMap((word) => word.mended ?? []);
  return { results, named, marks, mended };
}

// --- the page ------------------------------------------------------------------------------------

/** The sentences of a paragraph that have most of the words, cut to the length of an excerpt. */
function excerpt([, , , prose, rows], marks) {
  let best = { text: "", size: -1 };
  const consider = (text) => {
    const forms = [...wordsIn(text)].map(({ form }) => form);
    const { size } = new Set(forms.filter((form) => marks.has(form)));
    if (size > best.size) best = { text, size };
  };
  for (const paragraph of prose.split("\n")) {
    const sentences = paragraph.match(SENTENCE) ?? [];
    sentences.forEach((_, first) => {
      let text = sentences[first];
      for (const next of sentences.slice(first + 1)) {
        if (text.length + next.length > EXCERPT) break;
        text += next;
      }
      consider(text);
    });
  }
  if (best.size < 1) rows.split("\n").forEach(consider); // a table is for what the prose lacks
  const text = best.text.trim();
  if (text.length > EXCERPT) return `${text.slice(0, EXCERPT).replace(/\s+\S*$/, "")} …`;
  return !text || /[.?!:…]["”’)]*$/.test(text) ? text : `${text} …`; // a formula stood there
}

/** Writes a text into an element, with the words marked. */
function write(element, text, marks) {
  let end = 0;
  for (const word of wordsIn(text)) {
    if (word.start < end || !marks.has(word.form)) continue;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(word.start, word.end);
    element.append(text.slice(end, word.start), mark);
    end = word.end;
  }
  element.append(text.slice(end));
  return element;
}

/** One result: the title as a link, where it stands, and an excerpt. */
function item(index, section, { marks, named }) {
  const [page, anchor, title] = index.sections[section];
  const [address, name] = index.pages[page];
  const make = (tag, className = "") => Object.assign(document.createElement(tag), { className });
  const link = make("a");
  link.href = `${address}#${anchor}`;
  const heading = make("h2");
  heading.append(write(link, title || name, marks));
  const place = make("p", "search-place");
  const subject = named.has(section) && `explains “${named.get(section).name}”`;
  place.textContent = [!index.tops.has(section) && name, subject].filter(Boolean).join(" · ");
  const result = make("li");
  const text = excerpt(index.sections[section], marks);
  result.append(heading, place, write(make("p"), text, marks));
  return result;
}

/** Connects the field of the page with the list of results. */
function start() {
  const [form, field, status, examples, help, list, more] = [
    "form", "input", ".search-status", ".search-examples", ".search-help", ".search-results",
    ".search-more",
  ].map((selector) => document.querySelector(`.book-search ${selector}`));
  const index = makeIndex(window.bookIndex);
  /** @type {any} of search */
  let found = { results: [] };
  const show = () => {
    const shown = list.children.length;
    const next = found.results.slice(shown, shown + FIRST);
    list.append(...next.map((section) => item(index, section, found)));
    more.hidden = list.children.length >= found.results.length;
    return list.children[shown];
  };
  const answer = () => {
    const question = field.value.trim();
    const quoted = question.length > 60 ? `“${question.slice(0, 60)}…”` : `“${question}”`;
    found = search(index, question);
    const { length } = found.results;
    const read = found.mended.length ? `, read as “${found.mended.join(" ")}”` : "";
    status.textContent = !question ? "" : !length ? `Nothing found for ${quoted}.`
      : `${length} ${length === 1 ? "result" : "results"} for ${quoted}${read}.`;
    examples.hidden = question !== "";
    help.hidden = !question || length > 0;
    list.replaceChildren();
    show();
    const address = new URL(location.href);
    if (question) address.searchParams.set("q", question);
    else address.searchParams.delete("q");
    if (address.href !== location.href) history.replaceState(null, "", address);
  };
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(answer, 200);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    answer();
  });
  more.addEventListener("click", () => show().querySelector("a").focus());
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  answer();
  field.focus();
}

document.addEventListener("DOMContentLoaded", start);
