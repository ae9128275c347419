// Who may attend to whom: a mask made of rules and of single cells, which inputs each output then
// depends on, and how others would write the same mask.
import * as controls from "../../widgets/js/controls.js";
import * as grid from "../../widgets/js/grid.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const FEW = 12; // positions of which all are named; of more, runs of positions
const FORMS = [
  ["This book, F.scaled_dot_product_attention", "True = may attend", "sdpa_mask(mask)",
    (open) => (open ? "True" : "False"), "Fully masked: the output is 0."],
  ["nn.MultiheadAttention", "True = masked", "multihead_mask(mask, shape)",
    (open) => (open ? "False" : "True"), "Fully masked: NaN where it returns weights."],
  ["Added to the scores", "−∞ = masked", "additive_mask(mask)",
    (open) => (open ? "0." : "-inf"), "Fully masked: a plain softmax gives NaN."],
].map(([name, means, call, entry, alone]) => ({ name, means, call, entry, alone }));

const IDLE = "More layers change nothing here: the keys come from another sequence, which these "
  + "layers do not touch.";
const SIGNS = "● by the mask, ○ by another way, 0 not at all";
// What a cell of the mask and of the Jacobian may be: see `grid.cells`.
const ON = { look: "mb-on", sign: "✓", words: "True", ground: "high" };
const OFF = { look: "bw-masked", sign: "", words: "False" };
const byHand = (one) => ({
  ...one, look: `${one.look} mb-set`, words: `${one.words}, by hand`, mark: "corner" });
const MASK = { on: ON, off: OFF, onSet: byHand(ON), offSet: byHand(OFF) };
const DEPENDS = {
  on: { look: "mb-on", sign: "●", words: "depends", ground: "high" },
  way: { look: "mb-way", sign: "○", words: "depends, though masked", ground: "low", mark: "ring" },
  zero: { look: "mb-zero", sign: "0", words: "exactly 0", ground: "paper" },
};

/** The cells that were set by hand, from text such as "2.4t_3.0f": [[row, column, allowed]]. */
function readCells(text) {
  return (text ? text.split("_") : []).map((part) => {
    const [, i, j, allowed] = /^(\d+)\.(\d+)([tf])$/.exec(part) ?? [];
    if (i === undefined) throw new Error(`expected cells such as 2.4t, got "${part}"`);
    return [Number(i), Number(j), allowed === "t"];
  });
}

/** Runs of equal entries in a row: [[entry, how many, where they begin]]. */
function runs(row) {
  const starts = row.flatMap((entry, j) => (j && row[j - 1] === entry ? [] : [j]));
  return starts.map((j, k) => [row[j], (starts[k + 1] ?? row.length) - j, j]);
}

/** Whole numbers with commas between them. */
function readLengths(text) {
  return text.split(",").map((part) => {
    if (/^\s*\d+\s*$/.test(part)) return Number(part);
    throw new Error(`expected whole numbers with commas between them, got "${part.trim()}"`);
  });
}

/**
 * The mask of a state, by the rules and with the cells set by hand: { rule, mask, code, problems }.
 * A rule that cannot hold is left out, and a problem says why.
 */
function build({ kind, n_queries: n, n_keys, padding, length, lengths, causal, radius, by_hand }) {
  const self = kind === "self";
  const m = self ? n : n_keys;
  const [masks, calls, problems] = [[Array.from({ length: n }, () => Array(m).fill(true))], [], []];
  const add = (mask, call) => { masks.push(mask); calls.push(call); };
  if (padding === "sequence") {
    const real = Math.min(length, m);
    add(math.paddingMask(n, m, real), `padding_mask(torch.tensor([${real}]), ${m})`);
  }
  if (padding === "queries") {
    const each = readLengths(lengths);
    const long = each.find((real) => real > m);
    if (each.length !== n) {
      problems.push(`valid lengths. Expected ${n}, one for each query, got ${each.length}.`);
    } else if (long !== undefined) {
      problems.push(`valid lengths. Expected at most ${m}, the number of keys, got ${long}.`);
    } else {
      add(math.paddingMask(n, m, each), `padding_mask(torch.tensor([[${each.join(", ")}]]), ${m})`);
    }
  }
  const near = radius < m;
  if (self && causal) add(math.causalMask(n), `causal_mask(${n})`);
  if (self && near) add(math.windowMask(n, radius), `window_mask(${n}, ${radius})`);
  if (!self && (causal || near)) {
    const rules = [causal && "causal", near && "window"].filter(Boolean).join(" and ");
    problems.push(`${rules}. Expected positions of one sequence, got queries of one and keys of `
      + "another: no position of the one is later than, or near to, a position of the other.");
  }

  const rule = math.combineMasks(...masks);
  const mask = rule.map((row) => [...row]);
  const lines = [calls.length === 0 ? `mask = torch.ones(${n}, ${m}, dtype=torch.bool)`
    : calls.length === 1 ? `mask = ${calls[0]}`
      : `mask = combine_masks(\n${calls.map((call) => `    ${call},\n`).join("")})`];
  const changed = readCells(by_hand).filter(([i, j, allowed]) =>
    i < n && j < m && rule[i][j] !== allowed);
  if (changed.length) lines.push(`mask = mask.expand(1, ${n}, ${m}).clone()`);
  for (const value of [true, false]) {
    const cells = changed.filter(([, , allowed]) => allowed === value);
    for (const [i, j] of cells) mask[i][j] = value;
    const places = [0, 1].map((axis) => `[${cells.map((cell) => cell[axis]).join(", ")}]`);
    if (cells.length) lines.push(`mask[0, ${places.join(", ")}] = ${value ? "True" : "False"}`);
  }
  return { rule, mask, code: lines.join("\n"), problems };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Mask builder",
      lead: "Set the rules, or flip single cells: click, or use the arrow keys and Space. A query "
        + "(row) may attend to a key (column) where the mask is True.",
    }, (w) => {
      const [queryTokens, keyTokens] = [w.data("query_tokens"), w.data("key_tokens")];
      const { most } = w.domain("radius"); // of as many as there are keys, or more, is no window
      w.state({ lengths: ui.readable(readLengths), by_hand: ui.readable(readCells) });
      const nKeys = () => w.get(w.get("kind") === "self" ? "n_queries" : "n_keys");

      const kind = controls.choice(w, "kind", { label: "Attention",
        options: [["self", "Self"], ["cross", "Cross"]] });
      const queries = controls.slider(w, "n_queries", { label: "Queries" });
      const keys = controls.slider(w, "n_keys", { label: "Keys" });
      const padding = controls.choice(w, "padding", { label: "Valid lengths",
        options: [["none", "None"], ["sequence", "One"], ["queries", "Per query"]] });
      const length = controls.slider(w, "length", { label: "Valid keys",
        format: (value) => `${value} of ${nKeys()}` });
      const lengths = controls.text(w, "lengths", { label: "Valid keys of each query",
        hint: "One number for each query.", parse: (text) => readLengths(text) && text });
      const causal = controls.toggle(w, "causal", { label: "Causal: no key after the query" });
      const radius = controls.slider(w, "radius", { label: "Window radius",
        format: (value) => (value >= nKeys() ? "off" : String(value)) });
      const layers = controls.slider(w, "n_layers", { label: "Layers" });
      radius.input.addEventListener("input", () => { // off stays off in a longer sequence
        if (radius.input.value === radius.input.max) w.set({ radius: most });
      });
      padding.inputs[2].addEventListener("change", () => {
        const each = Array.from({ length: w.get("n_queries") }, (_, i) => Math.min(i + 1, nKeys()));
        const old = readLengths(w.get("lengths"));
        if (old.length !== each.length) w.set({ lengths: each.join(", ") });
      });

      const [empty, hand, reach, leak] = [1, 2, 3, 4].map(() => ui.h("p", { class: "mb-line" }));
      const formsOf = ui.h("p", { class: "bw-label" });
      const problems = ui.h("ul", { class: "mb-problems" });
      const code = ui.h("pre", { class: "mb-code" });
      const chip = (text) => ui.h("span", { class: "bw-word mb-chip", text });
      const corner = ui.h("span", { class: "mb-corner", text: "◥ " });
      const undo = ui.button("Undo", () => w.set({ by_hand: "" }), {
        quiet: true, label: "Undo the cells set by hand" });
      const map = grid.cells({ caption: "The mask: True where the query may attend to the key",
        rowTitle: "queries", columnTitle: "keys", onMove: (row) => w.set({ row }), onPick: flip,
        kinds: MASK });
      const dependence = grid.cells({ rowTitle: "outputs", columnTitle: "inputs",
        kinds: DEPENDS, caption: "Zero pattern of the Jacobian: which outputs depend on which inputs" });
      const signs = ui.h("p", { class: "mb-note", text: SIGNS });
      const maps = ui.h("div", { class: "mb-maps" },
        ui.part("Mask: who may attend to whom", map.element, hand, empty),
        ui.part("Jacobian: what depends on what", dependence.element, signs, layers.element, reach, leak));
      const forms = FORMS.map(({ name, means, call }) => {
        const [values, note] = [ui.h("code"), ui.h("p", { class: "mb-note" })];
        const head = [ui.h("strong", { text: name }), ui.h("span", { text: means })];
        return { values, note, element: ui.h("li", { class: "mb-form" },
          ui.h("p", { class: "mb-name" }, head),
          ui.h("code", { class: "mb-call", text: call }), " ", values, note) };
      });

      function flip(i, j) {
        const { rule, mask } = build(w.snapshot());
        const cells = readCells(w.get("by_hand")).filter(([a, b]) => a !== i || b !== j);
        if (mask[i][j] === rule[i][j]) cells.push([i, j, !mask[i][j]]);
        w.set({ row: i, by_hand: cells.map((c) => `${c[0]}.${c[1]}${c[2] ? "t" : "f"}`).join("_") });
      }

      w.draw((state) => {
        const self = state.kind === "self";
        const [n, m] = [state.n_queries, nKeys()];
        const show = ({ element, input }, shown) => {
          for (const node of [element, input]) node.hidden = !shown;
        };
        show(keys, !self);
        show(length, state.padding === "sequence");
        show(lengths, state.padding === "queries");
        queries.element.querySelector("label").textContent = self ? "Tokens" : "Queries";
        for (const slider of [length, radius]) slider.limits(0, m);

        const { rule, mask, code: text, problems: found } = build(state);
        const real = state.padding === "sequence" ? state.length : m;
        const nameAll = (tokens, length_, end) => Array.from({ length: length_ }, (_, j) =>
          `${j} ${j < end ? tokens[j] ?? "" : "<pad>"}`.trim()); // counted as in the code
        const columns = nameAll(self ? queryTokens : keyTokens, m, real);
        const rows = self ? columns : nameAll(queryTokens, n, n);
        const row = Math.min(state.row, n - 1);
        const jacobian = self ? math.influence(mask, state.n_layers) : mask;
        const count = (matrix) => matrix.flat().filter(Boolean).length;

        problems.replaceChildren(...found.map((p) => ui.h("li", { text: `✗ Left out: ${p}` })));
        problems.hidden = !found.length;
        maps.style.setProperty("--columns", m);
        map.update(mask.map((cells, i) => cells.map((open, j) =>
          `${open ? "on" : "off"}${open !== rule[i][j] ? "Set" : ""}`)), rows, columns, row);
        dependence.update(jacobian.map((cells, i) => cells.map((depends, j) =>
          (!depends ? "zero" : mask[i][j] ? "on" : "way"))), rows, columns, row);
        signs.hidden = Math.max(n, m) > FEW; // then the picture has a legend

        const flipped = count(mask.map((cells, i) => cells.map((open, j) => open !== rule[i][j])));
        hand.replaceChildren(...(flipped ? [corner, `${flipped} set by hand`, undo] : []));
        const none = rows.filter((_, i) => !mask[i].includes(true));
        const named = none.slice(0, FEW).map(chip);
        empty.replaceChildren(...(none.length ? ["∅ Fully masked: ", ...named,
          none.length > FEW ? ` and ${none.length - FEW} more.` : "",
          " All its weights are 0, and so is the output of the attention."] : []));
        const sources = m <= FEW ? columns.filter((_, j) => jacobian[row][j])
          : runs(jacobian[row]).filter(([depends]) => depends).map(([, length, from]) =>
            (length > 1 ? `${from} to ${from + length - 1}` : String(from)));
        reach.replaceChildren("Output ", chip(rows[row]),
          ` depends on ${jacobian[row].filter(Boolean).length || "none"} of ${m} inputs `,
          ...sources.map(chip));
        const last = jacobian.map((cells) => cells.lastIndexOf(true));
        const early = self && state.causal ? last.findIndex((j, i) => j > i) : -1;
        leak.replaceChildren(...(early >= 0 ? ["✗ A leak: output ", chip(rows[early]),
          " depends on ", chip(columns[last[early]]), ", which comes after it."]
          : !self && state.n_layers > 1 ? [IDLE] : []));
        code.textContent = text;
        formsOf.replaceChildren("Row ", chip(rows[row]), " in three conventions");
        forms.forEach(({ values, note }, k) => {
          const entries = mask[row].map(FORMS[k].entry);
          values.textContent = m <= FEW ? `[${entries.join(", ")}]` // else with repeated entries
            : runs(entries).map(([entry, length]) => `[${entry}] * ${length}`).join(" + ");
          note.textContent = mask[row].includes(true) ? "" : FORMS[k].alone;
        });
        const out = [none.length && `${none.length} fully masked`,
          `${count(jacobian)} derivatives are not 0`, ...found.map((p) => `Left out: ${p}`)];
        w.say([`${count(mask)} of ${n * m} pairs are True`, ...out].filter(Boolean).join(". "));
      });

      w.add(
        ui.h("div", { class: "mb-controls" },
          kind.element, ui.h("div", { class: "mb-sizes" }, queries.element, keys.element),
          padding.element, ui.h("div", {}, length.element, lengths.element),
          causal.element, radius.element),
        problems, maps, ui.part("The same in code", code),
        ui.h("div", {}, formsOf, ui.h("ul", {}, forms.map(({ element }) => element))));
      w.foot();
    });
  },
};
