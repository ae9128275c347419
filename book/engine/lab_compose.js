// The reader's own sentence, composed: its words are shuffled and taken away, and others added.
import { button, h, hidden } from "../widgets/js/ui.js";
import { token } from "./lab_results.js";
import { KNOWN, exchanged, groups, withoutClues, wordsOf } from "./words.js";

const TRIES = 20; // at shuffling, until the words stand in another order

function shuffled(words) {
  const list = [...words];
  for (let i = list.length - 1; i > 0; i -= 1) {
    const k = Math.floor(Math.random() * (i + 1));
    [list[i], list[k]] = [list[k], list[i]];
  }
  return list;
}

/**
 * What stands below a line for a sentence: its words, each with what the model answers to it, and
 * what can be done with them. roles: whether who and whom can be exchanged; changed() is called when
 * the sentence is another, say(text) reads a line out.
 * Returns { element, update, reset }; update(answer) shows an answer { text, each, output } or null.
 * @param {any} line
 * @param {{ roles: boolean, changed: () => void, say: (text: string) => void }} options
 */
export function composer(line, { roles, changed, say }) {
  let [chips, before, news] = [[], [], ""]; // earlier sentences, and what is to be read out
  const words = () => wordsOf(line.value);
  const list = h("div", { class: "lab-words", role: "group",
    "aria-label": "Your sentence: press a word to take it away" });

  function write(sentence, told) {
    before.push(line.value);
    line.value = sentence.join(" ");
    news = `${told}: ${line.value || "no word is left"}.`;
    say(news);
    changed();
  }

  /** A button that makes another sentence of the present one, where that is possible. */
  const tool = (text, told, make) => {
    const node = button(text, () => {
      const made = make(words());
      if (made) write(made, told);
    });
    return { node, fits: () => make(words()) !== null };
  };
  const unlike = (made, sentence) => (made?.join() === sentence.join() ? null : made);
  const tools = [
    tool("Shuffle", "Shuffled", (sentence) => {
      for (let k = 0; k < TRIES; k += 1) {
        const made = unlike(shuffled(sentence), sentence);
        if (made) return made;
      }
      return null;
    }),
    roles && tool("Swap who and whom", "Swapped", exchanged),
    tool("Without clues", "Without clues", (sentence) =>
      unlike(withoutClues(sentence), sentence)),
  ].filter(Boolean);
  const undo = button("Undo", () => {
    if (!before.length) return;
    line.value = before.pop();
    news = `Back to: ${line.value}.`;
    say(news);
    changed();
  });

  function chip(word, place) {
    const answer = token("span");
    answer.node.classList.add("lab-meaning");
    const node = h("button", { type: "button", class: "bw-button lab-word", click() {
      write(words().filter((_, i) => i !== place), `Without ${word}`);
      (chips[Math.min(place, chips.length - 1)]?.node ?? line).focus();
    } }, h("span", { text: word }), hidden(": take it away "), answer.node);
    node.classList.toggle("lab-unknown", !KNOWN.includes(word));
    return { word, node, answer };
  }

  const added = (word) => button(word, () => write([...words(), word], `${word} is added`),
    { quiet: true, label: `Add ${word}` });
  const vocabulary = h("details", { class: "lab-vocabulary" },
    h("summary", { text: `Add one of ${KNOWN.length} words` }),
    h("dl", {}, groups().flatMap((group) =>
      [h("dt", { text: group.name }), h("dd", {}, group.words.map(added))])));

  return {
    element: h("div", { class: "lab-compose" }, list,
      h("div", { class: "bw-buttons" }, tools.map(({ node }) => node), undo), vocabulary),
    update(answer) {
      const sentence = words();
      if (sentence.join() !== chips.map(({ word }) => word).join()) {
        chips = sentence.map(chip);
        list.replaceChildren(...chips.map(({ node }) => node));
      }
      const fits = answer && wordsOf(answer.text).join() === sentence.join();
      chips.forEach((one, i) => {
        const { text = "", right = null } = (fits && answer.each[i]) || {};
        one.answer.write(text, right === false);
      });
      for (const { node, fits: can } of tools) node.setAttribute("aria-disabled", !can());
      undo.setAttribute("aria-disabled", !before.length);
      if (!fits || !news) return;
      say(`${news} ${answer.output.join(", ")}.`);
      news = "";
    },
    reset() {
      [before, news] = [[], ""];
    },
  };
}
