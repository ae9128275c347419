// Controls that are tied to one key of a widget's state: they show it and they change it.
// Each takes the widget, the key and its options, and returns { element, input }.
import { h, freshId } from "./ui.js";

/** A finger that scrolls the page over a slider has moved it by then: moves it back. */
export function steady(input) {
  let value = null;
  input.addEventListener("pointerdown", () => { value = input.value; });
  input.addEventListener("pointercancel", () => {
    if (input.value === value) return;
    input.value = value;
    input.dispatchEvent(new Event("input"));
  });
  return input;
}

/**
 * Lets a pointer drag a node of a drawing, by the part that has the class bw-grip, wherever on it
 * the pointer is: `move(left, down)` gets where its middle is to be, as shares of the drawing.
 */
export function draggable(node, move) {
  let off = null; // from the pointer to the middle of the grip, while it is held
  const follow = (event) => {
    const box = node.ownerSVGElement.getBoundingClientRect();
    move((event.clientX + off[0] - box.left) / box.width,
      (event.clientY + off[1] - box.top) / box.height);
  };
  node.classList.add("bw-handle");
  node.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const grip = node.querySelector(".bw-grip").getBoundingClientRect();
    off = [grip.left + grip.width / 2 - event.clientX, grip.top + grip.height / 2 - event.clientY];
    event.preventDefault(); // no selection of text; and so the focus comes by hand
    node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    node.addEventListener("pointermove", follow);
  });
  // Chromium does not heed touch-action within a drawing: it would scroll after the first moves
  node.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  for (const end of ["pointerup", "pointercancel"]) {
    node.addEventListener(end, () => node.removeEventListener("pointermove", follow));
  }
}

/**
 * @param {any} w
 * @param {string} key
 * @param {string} label
 * @param {any} input
 * @param {{ value?: any, note?: any }} more
 */
function field(w, key, label, input, { value, note } = {}) {
  input.id = freshId();
  input.dataset.key = key;
  const head = h("div", { class: "bw-field-head" },
    h("label", { class: "bw-label", for: input.id, text: label }), value);
  return h("div", { class: "bw-field" }, head, input, note);
}

/**
 * A slider for a number, over all that the state's key may be: a range, or a list to move along.
 * Options: label, step, format(value) -> text. `limits(min, max)` changes its range later.
 * @param {any} w
 * @param {string} key
 * @param {{ label: string, step?: number, format?: (value: any) => string }} options
 */
export function slider(w, key, { label, step = 1, format = String }) {
  const { values, min = 0, max = values?.length - 1 } = w.keys[key];
  const at = (place) => (values ? values[place] : place);
  const value = h("span", { class: "bw-value", "aria-hidden": "true" });
  const input = steady(h("input", { type: "range", class: "bw-slider", min, max, step,
    input: () => w.set({ [key]: at(input.valueAsNumber) }) }));
  const show = (state) => {
    input.value = values ? values.indexOf(state[key]) : state[key];
    const text = format(at(input.valueAsNumber));
    value.textContent = text;
    input.setAttribute("aria-valuetext", text);
    const span = input.max - input.min;
    input.style.setProperty("--filled", span > 0 ? (input.value - input.min) / span : 0);
  };
  w.draw(show);
  return {
    input,
    element: field(w, key, label, input, { value }),
    limits(low, high) {
      Object.assign(input, { min: low, max: high });
      show(w.snapshot());
    },
  };
}

/** A list to choose from. Options: label, options as [value, text] pairs. */
export function select(w, key, { label, options }) {
  const input = h("select", { class: "bw-select",
    change: () => w.set({ [key]: input.value }) },
  options.map(([value, text]) => h("option", { value, text })));
  w.draw((state) => { input.value = String(state[key]); });
  return { input, element: field(w, key, label, input) };
}

/** A few choices side by side, as radio buttons. Options: label, options as for a list. */
export function choice(w, key, { label, options }) {
  const name = freshId();
  const inputs = options.map(([value]) => h("input", { type: "radio", name, value,
    "data-key": key, change: () => w.set({ [key]: value }) }));
  w.draw((state) => {
    for (const input of inputs) input.checked = input.value === String(state[key]);
  });
  const element = h("fieldset", { class: "bw-field bw-choice" },
    h("legend", { class: "bw-label", text: label }),
    h("div", { class: "bw-segments" }, options.map(([, text], i) =>
      h("label", {}, inputs[i], h("span", { text })))));
  return { inputs, element };
}

/** On or off. Options: label. */
export function toggle(w, key, { label }) {
  const input = h("input", { type: "checkbox", "data-key": key,
    change: () => w.set({ [key]: input.checked }) });
  w.draw((state) => { input.checked = state[key]; });
  return { input, element: h("label", { class: "bw-toggle" }, input, h("span", { text: label })) };
}

/**
 * A line that the reader types. Options: label, hint, parse(text) -> value for the state.
 * `parse` throws an Error whose message says what was expected; it is shown under the field, and
 * the state keeps the last good value.
 * @param {any} w
 * @param {string} key
 * @param {{ label: string, hint?: string, parse?: (text: string) => any,
 *   format?: (value: any) => string }} options
 */
export function text(w, key, { label, hint, parse = String, format = String }) {
  const note = h("p", { class: "bw-note", id: freshId(), "aria-live": "polite", text: hint });
  let typed = null; // what the state holds from this field, so that drawing leaves it alone
  const input = h("input", { type: "text", class: "bw-input", autocomplete: "off",
    spellcheck: "false", "aria-describedby": note.id,
    input() {
      let problem = null;
      try {
        typed = parse(input.value);
        const held = w.keys[key](typed);
        if (held === undefined) throw new Error("this value is out of range");
        w.set({ [key]: held });
      } catch (error) {
        problem = error.message;
      }
      mark(problem);
    } });
  function mark(problem) {
    input.toggleAttribute("aria-invalid", false);
    if (problem) input.setAttribute("aria-invalid", "true");
    note.classList.toggle("bw-problem", Boolean(problem));
    note.textContent = problem ? `✗ ${problem}` : (hint ?? "");
  }
  w.draw((state) => {
    if (state[key] === typed) return;
    typed = state[key];
    input.value = format(state[key]);
    mark(null);
  });
  return { input, element: field(w, key, label, input, { note }) };
}
