// What the panels that train share: the seed's field, how far a run came, and tokens that may be wrong.
import * as controls from "../widgets/js/controls.js";
import { drawn, h, hidden } from "../widgets/js/ui.js";

/** The field for the seed of a run. */
export function seed(w) {
  const { most } = w.domain("seed");
  const { element, input } = controls.text(w, "seed", { label: `Seed, 0 to ${most}`, parse(text) {
    if (!/^\d+$/.test(text.trim()) || Number(text) > most) {
      throw new Error(`expected a whole number from 0 to ${most}`);
    }
    return Number(text);
  } });
  input.setAttribute("inputmode", "numeric");
  element.classList.add("lab-seed");
  return element;
}

/** What stands beside the name of a run that did not reach its end. */
export const broken = ({ state, step }) => (["stopped", "paused"].includes(state)
  ? `${state} at step ${step}` : "");

export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(0)}%` : "–");

/**
 * Calls each in a task and, where frames come, a frame of its own, so that the page stays free.
 * @param {(() => void)[]} calls
 */
export function inFrames([first, ...rest]) {
  if (!first) return;
  drawn().then(() => {
    first();
    inFrames(rest);
  });
}

/** A token; a wrong one is bold and underlined, and named to screen readers. */
export function token(tag) {
  const text = h("span");
  const mark = hidden(" (wrong)");
  const node = h(tag, {}, text);
  return { node, write(word, wrong) {
    text.textContent = word;
    node.classList.toggle("lab-wrong", wrong);
    if (wrong) node.append(mark);
    else mark.remove();
  } };
}

/** Tokens in a line. */
export const tokens = (texts, right) => h("span", { class: "lab-tokens" }, texts.flatMap((text, i) => {
  const one = token("span");
  one.write(text, right?.[i] === false);
  return [one.node, " "];
}));
