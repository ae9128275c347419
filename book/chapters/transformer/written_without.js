// What a Transformer writes that was trained without a part, beside the whole one and what is right.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as demand from "../../widgets/js/demand.js";
import * as ui from "../../widgets/js/ui.js";

const WHOLE = "nothing"; // the part that the whole model lacks
const NAMES = new Map([[0, "no"], [1, "one"], [2, "two"], [3, "three"], [4, "four"], [5, "five"],
  [6, "six"], [7, "seven"], [8, "eight"], [9, "nine"], [10, "ten"]]);
const { h } = ui;

const wordsOf = (text) => text.split(" ").filter(Boolean);
const isWord = (token) => /[\p{L}\p{N}]/u.test(token);
const counted = (n) => NAMES.get(n) ?? String(n);

/**
 * How a text differs from the right one: of the longest row of words that both have in the same
 * order, each is "same"; what else the text says is "other", of some words or one; and where the
 * right one has more and the text says nothing in its place, stands "gap" with what is left out.
 * @param {string[]} words
 * @param {string[]} right
 * @returns {{ kind: string, text: string }[]}
 */
export function differences(words, right) {
  const longest = Array.from({ length: words.length + 1 }, () => Array(right.length + 1).fill(0));
  for (let i = words.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      longest[i][j] = words[i] === right[j] ? longest[i + 1][j + 1] + 1
        : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const found = [];
  let [i, j, others, missing] = [0, 0, [], []];
  const close = () => {
    if (others.length) found.push({ kind: "other", text: others.join(" ") });
    else if (missing.length) found.push({ kind: "gap", text: missing.join(" ") });
    [others, missing] = [[], []];
  };
  while (i < words.length || j < right.length) {
    if (i < words.length && j < right.length && words[i] === right[j]) {
      close();
      found.push({ kind: "same", text: words[i] });
      [i, j] = [i + 1, j + 1];
    } else if (j === right.length || (i < words.length && longest[i + 1][j] >= longest[i][j + 1])) {
      others.push(words[i]);
      i += 1;
    } else {
      missing.push(right[j]);
      j += 1;
    }
  }
  close();
  return found;
}

/** Whether one word, two or three are said twice in a row. */
export const repeats = (words) => [1, 2, 3].some((n) => words.some((_, i) => i + 2 * n <= words.length
  && words.slice(i, i + n).every((word, k) => word === words[i + n + k])));

const sorted = (words) => words.slice().sort().join(" ");

/** Whether these are the same words in another order. */
export const reordered = (words, other) => words.join(" ") !== other.join(" ")
  && sorted(words) === sorted(other);

/**
 * What to look at in these sentences, counted: how many words are right and in their order, and
 * what the model does more often than the whole one: the same sentence again, the words of another
 * in another order, a word twice.
 * @param {{ right: string, whole: string, other: string }[]} texts
 * @returns {string[]}
 */
export function noticed(texts) {
  const kept = (text, right) => differences(wordsOf(text), wordsOf(right))
    .filter(({ kind, text: word }) => kind === "same" && isWord(word)).length;
  const sum = (of) => texts.reduce((total, one) => total + of(one), 0);
  const all = sum(({ right }) => wordsOf(right).filter(isWord).length);
  const [whole, other] = [sum((one) => kept(one.whole, one.right)),
    sum((one) => kept(one.other, one.right))];
  const one = texts.length === 1;
  // For a single sentence the count would mislead: a good translation in other words gets a worse one
  const lines = [one
    ? "What differs from the one right translation that we have is marked. Other words can be right too."
    : `The right English has ${all} words. The whole model gets ${whole} of them in order, the other `
      + `model ${other}. (Words such as "a" and "in" count too, so even nonsense gets a few.)`];
  const where = (n) => (one ? "" : `In ${n === texts.length ? "all" : counted(n)} of these sentences `);
  const add = (n, text) => lines.push(one ? `I${text.slice(1)}` : where(n) + text);
  const alike = sum(({ whole: a, other: b }) => Number(a === b));
  if (alike) add(alike, one ? "it writes the same as the whole model." : "both write the same.");
  const kinds = (key) => new Set(texts.map((each) => each[key])).size;
  if (kinds("other") === 1 && kinds("whole") > 1) {
    lines.push(texts[0].other ? "Whatever it reads, it writes the same." : "It always ends at once.");
  } else if (kinds("other") < kinds("whole")) {
    lines.push(`It has only ${counted(kinds("other"))} different translations for the `
      + `${counted(texts.length)} sentences.`);
  }
  const swaps = sum((each) => Number(["whole", "right"].some((key) =>
    reordered(wordsOf(each.other), wordsOf(each[key])))));
  if (swaps) add(swaps, "it has the words of the whole model, or the right ones, in another order.");
  const twice = (key) => sum((each) => Number(repeats(wordsOf(each[key]))));
  if (twice("other") > twice("whole")) add(twice("other"), "it says something twice in a row.");
  return lines;
}

/** A text with marks where it differs from the right one, and how much that is. */
function marked(text, right) {
  if (!text) return [h("span", { class: "ww-none", text: "(it ends at once)" })];
  const found = differences(wordsOf(text), wordsOf(right));
  const sizeOf = (kind) => found.filter((one) => one.kind === kind)
    .flatMap((one) => wordsOf(one.text)).filter(isWord).length;
  const [others, missing] = [sizeOf("other"), sizeOf("gap")];
  // Two words that have changed places are not "3 other words, 4 left out"
  const count = reordered(wordsOf(text), wordsOf(right)) ? "the right words in another order"
    : [others && `${others} other ${others === 1 ? "word" : "words"}`,
      missing && `${missing} left out`].filter(Boolean).join(", ");
  const show = { same: (words) => words, other: (words) => h("mark", { class: "ww-other", text: words }),
    gap: (words) => h("span", { class: "ww-gap", title: `left out: ${words}` }, "‸",
      ui.hidden(`(left out: ${words})`)) };
  return [...found.flatMap(({ kind, text: words }) => [show[kind](words), " "]),
    h("small", { class: "ww-count", text: text === right ? "✓ as the right one" : count && `· ${count}` })];
}

function build(w) {
  const pairs = w.data("pairs").map(([source, right]) => ({ source, right }));
  const parts = w.data("parts");
  const packed = w.data("packed");
  w.state({ sentence: ui.integer(0, pairs.length) });

  let said = w.data("said"); // by part and seed; all of it once the reader has asked for more
  let [loading, problem] = [false, ""];
  const partOf = (name) => parts.find((one) => one.name === name);
  const has = (name, seed) => Object.hasOwn(partOf(name).bleu, seed);
  const textsOf = (name, seed) => (Object.hasOwn(said, name) && Object.hasOwn(said[name], seed)
    ? said[name][seed] : null);

  async function load() {
    loading = true;
    problem = "";
    try {
      if (w.el.dataset.widget) {
        said = await demand.fromPage(`records/${packed.id}.js`, () => window.bookRecords?.[packed.id],
          "The sentences did not load. Try again when you are online.");
      } else if (w.model.send) {
        const { answer } = await demand.ask(w.model, { wanted: packed.id }, "record");
        said = answer.record;
      } else {
        throw new Error("There is no kernel to ask for the sentences. Run this cell.");
      }
    } catch (error) {
      problem = `✗ ${error.message}`;
    }
    loading = false;
    w.redraw();
  }

  // Controls
  const part = controls.select(w, "part", { label: "Trained without",
    options: parts.slice(1).map(({ name, words }) => [name, words]) });
  const seeds = Object.keys(parts[0].bleu);
  const seed = controls.choice(w, "seed", { label: "Seed", options: seeds.map((one) => [one, one]) });
  const sentence = controls.select(w, "sentence", { label: "Sentence",
    options: [[0, `all ${counted(pairs.length)}`],
      ...pairs.map(({ source }, i) => [i + 1, source])] });
  const again = ui.button("Try again", () => {
    problem = "";
    w.redraw();
  });

  // What is shown
  const link = h("p", { class: "ww-link" });
  const bleu = chart.bars({ label: "BLEU", max: Math.max(1, ...parts.flatMap((one) =>
    Object.values(one.bleu))), format: (value) => value.toFixed(1) });
  const figures = ui.part("BLEU on captions that no model has seen, the mean of the seeds",
    bleu.element);
  figures.classList.add("ww-bleu");
  const list = h("ol", { class: "ww-list", "aria-label": "Sentences" });
  const look = h("p", { class: "ww-look" });
  const note = h("p", { class: "ww-missing" });
  const legend = h("p", { class: "bw-note" }, h("mark", { class: "ww-other", text: "Underlined" }),
    ": words that the right English does not have at this place; ‸: here it has more. A marked word may "
    + "still be good English, for a sentence has many translations.");

  const label = ({ name, words }) => ({ [WHOLE]: "the whole model", heads: "with one head alone" }[name]
    ?? `without ${words}`);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  function drawLink({ chapter: [number, page] }) {
    const [text, href] = [`Chapter ${number} builds this part`, `${page}.html`];
    const isPage = w.el.dataset.widget && !location.pathname.endsWith(`/${href}`);
    link.replaceChildren(isPage ? h("a", { href, text }) : `${text}.`);
  }

  const rowOf = (name, content, lang) => h("p", { class: "ww-row" },
    h("span", { class: "ww-name", text: name }), " ", h("span", { class: "ww-text", lang }, content));

  /** The sentences that are shown; what there is to notice in them if both models are there. */
  function drawSentences(state, texts) {
    const numbers = pairs.map((_, i) => i).filter((i) => [0, i + 1].includes(state.sentence));
    list.replaceChildren(...numbers.map((i) => {
      const { source, right } = pairs[i];
      const [whole, other] = texts.map((found) => (found ? marked(found[i], right) : "…"));
      return h("li", {}, rowOf("German", source, "de"), rowOf("right", right), rowOf("whole", whole),
        rowOf("without", other));
    }));
    const [whole, other] = texts;
    return whole && other
      ? noticed(numbers.map((i) => ({ right: pairs[i].right, whole: whole[i], other: other[i] }))) : [];
  }

  w.draw((state) => {
    const one = partOf(state.part);
    const shown = [WHOLE, state.part];
    const lacks = !has(state.part, state.seed);
    const texts = shown.map((name) => textsOf(name, state.seed));
    if (!lacks && texts.includes(null) && !loading && !problem) load();
    seed.inputs.forEach((input) => { input.disabled = !has(state.part, input.value); });
    bleu.update(shown.map(partOf).map((each) => ({ name: label(each),
      value: mean(Object.values(each.bleu)), current: each === one,
      note: Object.values(each.bleu).length > 1
        && Object.values(each.bleu).map((value) => value.toFixed(1)).join(" and ") })));
    drawLink(one);
    const lines = drawSentences(state, texts);
    look.hidden = lines.length === 0;
    look.textContent = lines.join(" ");
    note.textContent = lacks ? `There is no model ${label(one)} of seed ${state.seed}.`
      : problem || (loading ? `Loading the sentences, ${Math.ceil(packed.bytes / 1000)} kB …` : "");
    note.hidden = !note.textContent;
    again.hidden = !problem || lacks;
    w.say(note.textContent || `Trained ${label(one)}. ${look.textContent}`);
  });
  w.onReset(() => { problem = ""; });

  w.add(h("div", { class: "ww-asks" }, part.element, sentence.element, seed.element), link,
    figures, note, again, look, list, legend);
  w.foot();
}

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: "What it writes without a part",
      lead: model.get("lead") }, build);
  },
};
