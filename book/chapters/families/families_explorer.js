// Three families on one row of tokens: the mask of each, the targets of the loss, the model's guesses.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as grid from "../../widgets/js/grid.js";
import * as ui from "../../widgets/js/ui.js";

const NAMES = { "encoder-only": "Encoder-only", "decoder-only": "Decoder-only",
  "encoder-decoder": "Encoder-decoder" };
const SEEN = { look: "fe-on", sign: "✓", words: "may attend", ground: "high" };
const UNSEEN = { look: "bw-masked", sign: "", words: "masked" };

/** May position i see position j? `shown` is the length of the prefix, 1 for none. */
function allowed(family, one, shown, i, j) {
  const own = (at) => at > 0 && at < one.prefix; // source and its end: the encoder's
  if (family === "encoder-only") return true;
  if (family === "decoder-only") return j < shown || j <= i;
  return own(i) ? own(j) : own(j) || j <= i;
}

/** What a guess at token t can draw on: the positions that reach the position where it is made. */
function visible(family, one, t, shown) {
  return one.tokens.map((_, j) => {
    if (family === "encoder-only") return j !== t;
    if (family === "encoder-decoder" && t < one.prefix) return j > 0 && j < one.prefix;
    return j < t || (family === "decoder-only" && t < shown && j < shown);
  });
}

/** Words for what the family reads at token t, its target there, and its guesses, if any. */
function ask(family, one, t, shown) {
  const [token, before] = [one.tokens[t], one.tokens[t - 1]];
  const inSource = t < one.prefix;
  const ending = token === "<eos>";
  const said = one[family][t];
  if (family === "encoder-only") {
    return ending ? { sees: "All of the row.", loss: "Nothing here: ends are never hidden.", said }
      : { sees: `Both sides, with a mask at “${token}”.`,
        loss: "The token that was masked. In training one word in seven is.", said };
  }
  if (family === "encoder-decoder") {
    return inSource
      ? { sees: "The encoder reads all of the source.", loss: "Nothing: the source is only read.",
        said }
      : { sees: `All of the source, and the translation up to “${before}”.`,
        loss: `The token after “${before}”, in the decoder.`, said };
  }
  if (shown === 1) {
    return { sees: `The left side, up to “${before}”.`, loss: `The token after “${before}”.`, said };
  }
  if (t < shown) {
    return { sees: `All ${shown} tokens of the prefix.`,
      loss: "Nothing: inside the prefix all is given.", said: [] };
  }
  const sees = `The left side; its first ${shown} tokens attend to each other.`;
  if (inSource) {
    return { sees, loss: `The token after “${before}”; but this model was trained with the whole `
      + "source as prefix, and has no target here.", said: [] };
  }
  return { sees, loss: `The token after “${before}”.`, said: one.prefixed[shown - 2][t] };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Three families, one sentence",
      lead: "Choose a token, in the source or in the translation. See what each family may read "
        + "to guess it, whether it is a target of its loss, and what a small trained model predicts.",
    }, (w) => {
      const sentences = w.data("sentences");
      const families = w.domain("family");
      const most = (count) => Math.max(...sentences.map(count));
      w.state({
        sentence: ui.integer(0, sentences.length - 1),
        position: ui.integer(1, most(({ tokens }) => tokens.length) - 1),
        shown: ui.integer(1, most(({ prefix }) => prefix)),
      });
      // A place past the end of a shorter sentence is its last one.
      const now = () => {
        const one = sentences[w.get("sentence")];
        return { one, t: Math.min(w.get("position"), one.tokens.length - 1),
          shown: Math.min(w.get("shown"), one.prefix), family: w.get("family") };
      };
      const nameOf = (family, shown) =>
        (family === "decoder-only" && shown > 1 ? "Prefix model" : NAMES[family]);

      const select = controls.select(w, "sentence", { label: "Sentence",
        options: sentences.map(({ tokens, prefix }, i) => [i, tokens.slice(1, prefix - 1).join(" ")]) });
      const token = controls.slider(w, "position", { label: "Token to guess",
        format: () => `${now().t}: ${now().one.tokens[now().t]}` });
      const choice = controls.choice(w, "family", { label: "Show the mask of",
        options: families.map((family) => [family, NAMES[family]]) });
      const prefix = controls.slider(w, "shown", { label: "Prefix, decoder-only",
        format: () => (now().shown === 1 ? "none" : `${now().shown} tokens`) });
      prefix.input.addEventListener("input", () => w.set({ family: "decoder-only" }));

      choice.element.classList.add("fe-choice");
      const row = ui.h("div", { class: "bw-words fe-row", role: "group",
        "aria-label": "The sequence of tokens" });
      const key = ui.h("p", { class: "fe-key" });
      const cards = families.map((family) => {
        const title = ui.h("p", { class: "fe-name" });
        const [sees, loss] = [ui.h("p", { class: "fe-text" }), ui.h("p", { class: "fe-text" })];
        const none = ui.h("p", { class: "fe-none", text: "– no guess" });
        const bars = chart.bars({ label: `Guesses of the ${family} model`,
          format: (value) => (value > 0 && value < 0.005 ? "< 1 %" : `${Math.round(100 * value)} %`) });
        const element = ui.h("div", { class: "fe-card" }, title,
          ui.h("div", { class: "fe-facts" }, ui.h("p", { class: "bw-label", text: "Reads" }), sees,
            ui.h("p", { class: "bw-label", text: "Target" }), loss), bars.element, none);
        return { family, element, title, sees, loss, bars, none };
      });
      const map = grid.cells({ caption: "Mask: which tokens each position may attend to",
        rowTitle: "queries", columnTitle: "keys", kinds: { on: SEEN, off: UNSEEN } });
      const reading = ui.h("p", { class: "fe-note" });

      let built = null;
      w.draw(() => {
        const { one, t, shown, family } = now();
        token.limits(1, one.tokens.length - 1);
        prefix.limits(1, one.prefix);
        if (built !== one) {
          row.replaceChildren(...one.tokens.map((text, j) => (j === 0
            ? ui.h("span", { class: "fe-token fe-start", text })
            : ui.h("button", { type: "button", class: "bw-button fe-token", text,
              click: () => w.set({ position: j }) }))));
          built = one;
        }
        const open = visible(family, one, t, shown);
        [...row.children].forEach((node, j) => {
          node.classList.toggle("fe-seen", open[j] && j !== t);
          node.classList.toggle("fe-unseen", !open[j] && j !== t);
          node.classList.toggle("fe-now", j === t);
          node.classList.toggle("fe-first", j === one.prefix);
          if (!j) return;
          node.setAttribute("aria-pressed", String(j === t));
          node.setAttribute("aria-label", `${one.tokens[j]}, ${j === t ? "to guess"
            : open[j] ? "read" : "not read"}`);
        });
        const kind = family === "decoder-only" && shown > 1 ? "prefix" : family;
        key.textContent = `Underlined: what the ${kind} model may look at for the filled token. `
          + "Hatched: what it may not.";
        const spoken = cards.map((card) => {
          const { sees, loss, said } = ask(card.family, one, t, shown);
          card.title.textContent = nameOf(card.family, shown);
          card.sees.textContent = sees;
          card.loss.textContent = loss;
          card.none.hidden = said.length > 0;
          card.bars.element.hidden = !said.length;
          card.bars.update(said.map(([name, value]) => ({ name, value,
            current: name === one.tokens[t], note: name === one.tokens[t] && "✓ right" })));
          card.element.classList.toggle("fe-chosen", card.family === family);
          return said.length ? `${nameOf(card.family, shown)}: ${said[0][0]}, `
            + `${Math.round(100 * said[0][1])} %` : `${nameOf(card.family, shown)}: no guess`;
        });
        const names = one.tokens;
        const at = family === "encoder-only"
          || (family === "encoder-decoder" && t < one.prefix) ? t
          : family === "encoder-decoder" && t === one.prefix ? 0 : t - 1; // where the guess is made
        map.update(names.map((_, i) => names.map((__, j) =>
          (allowed(family, one, shown, i, j) ? "on" : "off"))), names, names, at);
        reading.textContent = ask(family, one, t, shown).said.length
          ? `The guess is made in row ${at}, ${names[at]}.`
          : `Row ${at}, ${names[at]}: nothing is guessed here.`;
        w.say(`Token ${names[t]}. ${spoken.join(". ")}`);
      });

      w.add(
        ui.row(select.element, token.element),
        ui.row(choice.element, prefix.element),
        ui.part("The row: source, its end, translation, its end", row, key),
        ui.h("div", { class: "fe-cards" }, cards.map(({ element }) => element)),
        ui.part("The mask", map.element, reading),
      );
      w.foot();
    });
  },
};
