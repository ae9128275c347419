// Heads and dimensions: the shape after each step, parameters and FLOPs, and each head's map.
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const SHOWN = 8; // maps; of more heads the first ones are shown

/** What multi-head attention costs: parameters with biases, and FLOPs of its matrix products. */
export function cost({ d_model: d, n_heads: h, time: n }, dk) {
  const side = h * dk; // all heads side by side
  return {
    parameters: 4 * d * side + 3 * side + d,
    projections: 2 * 4 * n * d * side,
    attention: 2 * 2 * n * n * side,
    weights: h * n * n,
  };
}

/**
 * Random tokens times random matrices, for each width d_model: the first d entries of a token and
 * the first d rows of the matrix. Computed once, each width from the one before. Of unit variance.
 */
export function projections(widths, time, columns) {
  const widest = Math.max(...widths);
  const tokens = math.matrix(time, widest, math.normal(11));
  return [12, 13].map((seed) => {
    const weight = math.matrix(widest, columns, math.normal(seed));
    let sum = tokens.map(() => new Array(columns).fill(0));
    let from = 0;
    return Object.fromEntries(widths.map((width) => {
      const part = math.matmul(tokens.map((row) => row.slice(from, width)),
        weight.slice(from, width));
      sum = sum.map((row, i) => row.map((value, j) => value + part[i][j]));
      from = width;
      return [width, sum.map((row) => row.map((value) => value / Math.sqrt(width)))];
    }));
  });
}

/** The attention map of one head: its d_k columns of the queries and the keys. */
export function headMap(queries, keys, head, dk, time) {
  const own = (rows) => rows.slice(0, time).map((row) => row.slice(head * dk, (head + 1) * dk));
  const [q, k] = [own(queries), own(keys)];
  return q.map((row) => math.softmax(k.map((key) => math.dot(row, key) / Math.sqrt(dk))));
}

/** A map as a small picture: one pixel a weight, as dark as its share of the largest weight. */
function picture(canvas, map, ink) {
  const n = map.length;
  Object.assign(canvas, { width: n, height: n });
  const image = new ImageData(n, n);
  const most = Math.max(...map.flat());
  map.flat().forEach((weight, at) => image.data.set([...ink, 255 * (weight / most)], 4 * at));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const count = (value) => Math.round(value).toLocaleString("en-GB").replaceAll(",", "\u202f");
const flops = (value) => (value < 1e6 ? `${(value / 1e3).toFixed(1)} k`
  : value < 1e9 ? `${(value / 1e6).toFixed(1)} M` : `${(value / 1e9).toFixed(2)} G`);

/** @returns {[string, string, number[]][]} */
function steps({ d_model: d, n_heads: h, time: n }, dk) {
  return [
    ["Input", "X", [n, d]],
    ["Queries; keys and values alike", "X W^Q", [n, h * dk]],
    ["Queries, by head", "split into heads", [h, n, dk]],
    ["Scores", "Q Kᵀ / √d_k", [h, n, n]],
    ["Weights", "softmax over the keys", [h, n, n]],
    ["Output of the heads", "weights V", [h, n, dk]],
    ["Heads side by side", "concatenate", [n, h * dk]],
    ["Output", "concatenated W^O", [n, d]],
  ];
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Heads and dimensions explorer",
      lead: "Turn the sizes of one multi-head attention layer. See the shape after each step, what "
        + "the layer costs, and one attention map for each head.",
    }, (w) => {
      const widths = w.domain("d_model");
      w.state();
      const model_ = controls.slider(w, "d_model", { label: "Dimension d_model" });
      const heads = controls.slider(w, "n_heads", { label: "Heads" });
      const time = controls.slider(w, "time", { label: "Tokens" });
      const width = controls.slider(w, "d_k", { label: "Dimension d_k of a head",
        format: (value) => (value ? String(value) : "d_model / heads") });

      const trouble = ui.h("p", { class: "he-trouble", role: "status" });
      const fits = ui.h("div", { class: "bw-row he-fits" });
      const body = ui.h("tbody", {});
      const table = ui.h("table", { class: "he-steps" },
        ui.h("caption", { class: "bw-hidden", text: "Shape after each step" }),
        ui.h("thead", {}, ui.h("tr", {}, ["Step", "Formula", "Shape"].map((text) =>
          ui.h("th", { scope: "col", text })))), body);
      const figures = ["Parameters", "FLOPs, projections", "FLOPs, attention", "Attention weights"]
        .map((label) => ({ label, value: ui.h("span", { class: "he-value" }) }));
      const list = ui.h("ul", { class: "he-figures" }, figures.map(({ label, value }) =>
        ui.h("li", {}, ui.h("span", { class: "bw-label", text: label }), value)));
      const maps = ui.h("ul", { class: "he-maps" });
      const note = ui.h("p", { class: "he-note" });
      const ink = ui.h("span", { class: "he-ink", hidden: true });
      const result = ui.h("div", { class: "he-result" });

      let projected = null;
      const colour = () => getComputedStyle(ink).color.match(/[\d.]+/g).slice(0, 3).map(Number);

      function drawMaps({ d_model: d, n_heads: h, time: n }, dk) {
        projected ??= projections(widths, w.domain("time").most, Math.max(...widths));
        const rgb = colour();
        const shown = Math.min(h, SHOWN);
        while (maps.children.length > shown) maps.lastChild.remove();
        while (maps.children.length < shown) {
          maps.append(ui.h("li", {}, ui.h("canvas", { role: "img" }), ui.h("span", {})));
        }
        let total = 0;
        [...maps.children].forEach((item, head) => {
          const map = headMap(projected[0][d], projected[1][d], head, dk, n);
          const [canvas, text] = item.children;
          picture(canvas, map, rgb);
          const entropy = map.reduce((sum, row) => sum + math.entropy(row), 0) / n;
          total += entropy;
          text.textContent = `head ${head + 1}`;
          canvas.setAttribute("aria-label", `Attention map of head ${head + 1}: ${n} queries, ${n} keys, `
            + `mean entropy ${entropy.toFixed(2)}`);
        });
        note.textContent = `Random parameters, before any training. Rows are queries, columns are `
          + `keys. Mean entropy of a row ${(total / shown).toFixed(2)}, of at most `
          + `${Math.log(n).toFixed(2)}.${h > SHOWN ? ` The first ${SHOWN} of ${h} heads.` : ""}`;
      }

      function paint(state) {
        const { d_model: d, n_heads: h } = state;
        const dk = state.d_k || d / h;
        const whole = Number.isInteger(dk);
        result.hidden = !whole;
        trouble.hidden = whole;
        fits.hidden = whole;
        if (!whole) {
          const good = Array.from({ length: w.domain("n_heads").most }, (_, i) => i + 1)
            .filter((heads_) => d % heads_ === 0);
          trouble.textContent = `✗ ${d} cannot be shared out among ${h} heads: ${d} / ${h} = `
            + `${dk.toFixed(2)}, and a dimension is a whole number. Take a number of heads that `
            + `divides ${d}, or move the slider of d_k.`;
          fits.replaceChildren(...good.map((heads_) => ui.button(String(heads_),
            () => { w.set({ n_heads: heads_ }); heads.input.focus(); },
            { label: `Take ${heads_} head${heads_ > 1 ? "s" : ""}` })));
          w.say(trouble.textContent);
          return;
        }
        const { parameters, projections: linear, attention, weights } = cost(state, dk);
        body.replaceChildren(...steps(state, dk).map(([name, formula, shape]) => ui.h("tr", {},
          ui.h("th", { scope: "row", text: name }), ui.h("td", { text: formula }),
          ui.h("td", { class: "he-shape", text: `(${shape.join(", ")})` }))));
        [count(parameters), flops(linear), flops(attention), count(weights)].forEach((text, i) => {
          figures[i].value.textContent = text;
        });
        drawMaps(state, dk);
        w.say(`${h} heads of dimension ${dk}: ${count(parameters)} parameters, `
          + `${flops(linear + attention)} FLOPs`);
      }
      w.add(
        ui.row(model_.element, heads.element),
        ui.row(time.element, width.element),
        trouble,
        fits,
        result,
        ink,
      );
      result.append(
        ui.part("What it costs", list),
        ui.part("The shape after each step", ui.h("div", { class: "bw-scroll" }, table)),
        ui.part("One attention map for each head", maps, note),
      );
      w.draw(paint);
      // The pictures hold colours of the theme, so they are painted again when it changes.
      const again = () => paint(w.snapshot());
      const observer = new MutationObserver(again);
      observer.observe(document.documentElement, {
        attributes: true, attributeFilter: ["data-theme"] });
      w.onClose(() => observer.disconnect());
      w.foot();
    });
  },
};
