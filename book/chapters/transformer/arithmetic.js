// The arithmetic behind one attention weight: q · k, its scale, and the softmax of its row.
import * as chart from "../../widgets/js/chart.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const BLOCK = 4; // dimensions that always stand beside each other

/**
 * How query i of a head weighs key j. Args: { queries, keys } of a layer, all heads side by side;
 * heads, how many; head, which; open, how many keys the query may attend to.
 * Returns { query, key, products, sum, root, score, scores, weights }: sum is q · k, root the
 * square root of d_k, score their quotient; scores and weights are those of the open keys.
 */
export function behind({ queries, keys }, { heads, head, i, j, open }) {
  const width = queries[i].length / heads;
  const root = Math.sqrt(width);
  const part = (vector) => Array.from(vector.slice(head * width, (head + 1) * width));
  const [query, key] = [part(queries[i]), part(keys[j])];
  const products = query.map((value, n) => value * key[n]);
  const sum = math.dot(query, key);
  const scores = keys.slice(0, open).map((other) => math.dot(query, part(other)) / root);
  return { query, key, products, sum, root, score: sum / root, scores,
    weights: math.softmax(scores) };
}

/** Two digits after the point, one from 10 on, with a true minus sign. */
function short(value, digits = Math.abs(value) < 9.995 ? 2 : 1) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}

/** The vectors and their products, some dimensions to a table, so that they wrap as blocks. */
function blocks({ query, key, products }) {
  const most = (row) => Math.max(...row.map(Math.abs), 1e-9);
  const scale = most([...query, ...key]);
  const rows = [["q", query, scale], ["k", key, scale], ["q × k", products, most(products)]];
  const cell = (value, top) => ui.h("td", { text: short(value), "--share": Math.abs(value) / top,
    class: value < 0 ? "ft-minus" : "ft-plus" });
  return Array.from({ length: Math.ceil(query.length / BLOCK) }, (_, block) => {
    const from = block * BLOCK;
    const to = Math.min(from + BLOCK, query.length);
    return ui.h("table", { class: "ft-numbers" },
      ui.h("caption", { class: "bw-hidden", text: `Dimensions ${from + 1} to ${to}` }),
      ui.h("thead", {}, ui.h("tr", {}, ui.h("td"), query.slice(from, to).map((__, n) =>
        ui.h("th", { scope: "col", text: from + n + 1 })))),
      ui.h("tbody", {}, rows.map(([name, row, top]) => ui.h("tr", {},
        ui.h("th", { scope: "row", text: name }),
        row.slice(from, to).map((value) => cell(value, top))))));
  });
}

/** The row of scores on its way through the softmax, with key j marked. */
function softmaxOf({ scores, weights }, names, j) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const line = (name, cells, mark) => ui.h("tr", { class: mark },
    ui.h("th", { scope: "row", text: name }), cells);
  const weigh = (weight) => chart.shade(
    ui.h("td", { class: "bw-shaded", text: weight.toFixed(3) }), weight);
  const table = ui.h("table", { class: "ft-numbers ft-softmax" },
    ui.h("caption", { class: "bw-hidden", text: "The softmax of this row" }),
    ui.h("thead", {}, ui.h("tr", {}, ["key", "score", "exp(score − max)", "weight"].map(
      (text) => ui.h("th", { scope: "col", text })))),
    ui.h("tbody", {}, scores.map((score, n) => line(names[n],
      [ui.h("td", { text: short(score) }), ui.h("td", { text: powers[n].toFixed(3) }),
        weigh(weights[n])], n === j && "ft-here")),
    line("sum", [ui.h("td"), ui.h("td", { text: total.toFixed(3) }),
      ui.h("td", { text: "1.000" })], "ft-sum")));
  return { table, power: powers[j], total };
}

/** Where q and k are taken, for a kind of step in a model with this configuration. */
export function taken({ kind }, { norm, positions }) {
  const x = norm === "pre" ? "LN(x)" : "x";
  const made = `q = W_q ${x} + b_q, k = W_k ${kind === "cross" ? "M" : x} + b_k`;
  if (positions !== "rotary") return `${made}.`;
  return kind === "cross" ? `${made}. Cross-attention rotates neither.`
    : `${made}, both after the rotation by their positions.`;
}

/**
 * The part of the tracer that shows it. Options: size, of the model in kB; load(tell), which
 * fetches it. Returns { element, show(place) -> what is to be read out }. A place is null where
 * there is no model, or { stage, config, vectors, queries, keys, heads, head, i, j, open }, with
 * the tokens of queries and keys; without j the reader is asked to choose a cell, without a
 * configuration to load the model.
 * @param {any} own
 */
export function panel({ size, load }) {
  const body = ui.h("div", { class: "ft-behind", tabindex: -1, role: "group",
    "aria-label": "The numbers behind one weight" });
  const element = ui.part("The numbers behind one weight", body);
  const word = (text) => ui.h("span", { class: "bw-word ft-word", text });
  const problem = ui.h("p", { class: "bw-note bw-problem", "aria-live": "polite" });
  const button = ui.button(`Load the model (${size}) and show the numbers`, async () => {
    const tell = (text) => { problem.textContent = text ? `✗ ${text}.` : ""; };
    tell("");
    if (await load(tell)) body.focus();
  });
  /** A step of the sum; in its text W_q stands for W with a small q below. */
  const step = (text, ...nodes) => ui.h("li", {}, ui.h("p", {}, text.split(/_(\w)/).map(
    (part, n) => (n % 2 ? ui.h("sub", { text: part }) : part))), nodes);

  function show(place) {
    // A sentence with words that the model does not have has no vectors.
    element.hidden = !place || Boolean(place.config && !place.vectors);
    if (element.hidden) return "";
    const { stage, config, vectors, queries, keys, head, i, j, open } = place;
    if (j === null) {
      body.replaceChildren(ui.h("p", { class: "ft-pair",
        text: "Choose a cell of the attention map to see how its weight is computed." }));
      return "";
    }
    const pair = [word(queries[i]), " looks at ", word(keys[j]), ` in head ${head + 1}: `];
    if (j >= open) {
      body.replaceChildren(ui.h("p", { class: "ft-pair" }, pair,
        "the weight is exactly 0. This key comes later, and the mask sets its score to −∞ before "
        + "the softmax: exp(−∞) = 0."));
      return body.textContent;
    }
    if (!config) {
      const line = ui.h("p", { class: "ft-pair" }, pair,
        "its numbers come from the model's parameters.");
      body.replaceChildren(line, button, problem);
      return `${line.textContent} The button below the map loads them.`;
    }
    const found = behind(vectors, place);
    const { sum, root, score, weights, query } = found;
    const { table, power, total } = softmaxOf(found, keys, j);
    const weight = weights[j].toFixed(3);
    body.replaceChildren(
      ui.h("p", { class: "ft-pair" }, pair, "weight ", ui.h("strong", { text: weight })),
      ui.h("ol", { class: "ft-sums" },
        step(`Multiply the query by the key, dimension by dimension. ${taken(stage, config)}`,
          ui.h("div", { class: "ft-blocks" }, blocks(found))),
        step(`Add the products: q · k = ${short(sum, 3)}. Divide by √d_k = √${query.length} = `
          + `${short(root)}: the score is ${short(score, 3)}.`),
        step("Put the scores of the whole row through the softmax: "
          + `${power.toFixed(3)} / ${total.toFixed(3)} = ${weight}.`, table)),
      ui.h("p", { class: "bw-note", text: "Shown rounded, computed with all digits." }));
    return `${queries[i]} looks at ${keys[j]}: q · k is ${short(sum, 3)}, divided by `
      + `${short(root)} it is ${short(score, 3)}, and the softmax makes the weight ${weight}. `
      + "All numbers stand below the map.";
  }
  return { element, show };
}
