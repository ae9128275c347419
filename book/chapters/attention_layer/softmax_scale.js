// A random query and random keys, from the seed: their scores, the softmax of the scores, and what
// becomes of it as the vectors grow wider.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const DRAWS = 100; // random queries, each with its keys, that a point of the curve is the mean of
const REACH = 10; // scores beyond this leave the chart: e^10 is 22,026
const LITTLE = 0.1; // a sensitivity below this is called little; of equal weights it is larger
const SERIES = ["divided by √d_k", "not divided"];

/** Scores of one query against `keys` keys at each of the widths: widths x keys. */
export function drawScores(seed, widths, keys) {
  const draw = math.normal(seed);
  const widest = Math.max(...widths);
  const [query] = math.matrix(1, widest, draw);
  const scores = widths.map(() => []);
  for (let key = 0; key < keys; key += 1) {
    let sum = 0;
    for (let i = 0; i < widest; i += 1) {
      sum += query[i] * draw(); // a wider vector is a narrower one with entries added
      const at = widths.indexOf(i + 1);
      if (at >= 0) scores[at].push(sum);
    }
  }
  return scores;
}

/**
 * For the curve: many queries by their lengths (draws x widths), and normal numbers (draws x keys).
 * Given the query, q·k is normal with standard deviation |q|, so |q| z is a score of a random key.
 */
export function drawMany(seed, widths, keys) {
  const draw = math.normal(seed);
  const lengths = Array.from({ length: DRAWS }, () => {
    let [square, width] = [0, 0];
    return widths.map((wanted) => {
      for (; width < wanted; width += 1) square += draw() ** 2;
      return Math.sqrt(square);
    });
  });
  return { lengths, normals: math.matrix(DRAWS, keys, draw) };
}

/** The mean sensitivity and entropy over the draws: one entry for each width, with and without. */
export function meanCurves({ lengths, normals }, widths, keys, temperature) {
  const rows = normals.map((row) => row.slice(0, keys));
  const means = (factor) => widths.map((width, at) => {
    let [sensitivity, entropy] = [0, 0];
    rows.forEach((row, draw) => {
      const by = (lengths[draw][at] * factor(width)) / temperature;
      const weights = math.softmax(row.map((z) => z * by));
      sensitivity += math.sensitivity(weights) / DRAWS;
      entropy += math.entropy(weights) / DRAWS;
    });
    return { sensitivity, entropy };
  });
  return [means((width) => 1 / Math.sqrt(width)), means(() => 1)];
}

/** Standard deviation, as of a sample. */
export function deviation(row) {
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
  return Math.sqrt(row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (row.length - 1));
}

/** Columns beside each other, one for each key. A column that leaves the chart ends in a point. */
function columns({ title, min, max, ticks, height, format }) {
  const svg = ui.h("svg", { role: "img", class: "bw-lines ss-columns", height });
  const box = { left: 46, top: 18, bottom: height - 22 };
  let held = { values: [], chosen: 0, description: "" };
  function paint() {
    const { values, chosen, description } = held;
    if (!values.length) return;
    const width = Math.max(240, svg.clientWidth || 480);
    const slot = (width - box.left - 4) / values.length;
    const wide = Math.min(28, slot * 0.72);
    const y = (value) => box.bottom - ((value - min) / (max - min)) * (box.bottom - box.top);
    const x = (key) => box.left + slot * (key + 0.5);
    const every = [1, 2, 4, 8].find((step) => slot * step > 22);
    const text = (left, down, words, anchor, kind) =>
      ui.h("text", { x: left, y: down, text: words, "text-anchor": anchor, class: kind });
    const column = (value, key) => {
      const shown = Math.min(max, Math.max(min, value));
      const [left, right] = [x(key) - wide / 2, x(key) + wide / 2];
      const tip = shown === value ? y(shown) : y(shown) - 5 * Math.sign(value);
      return ui.h("path", {
        class: key === chosen ? "ss-column ss-chosen" : "ss-column",
        d: `M${left} ${y(0)}V${y(shown)}L${x(key)} ${tip}L${right} ${y(shown)}V${y(0)}z`,
      }, ui.h("title", { text: `key ${key + 1}: ${format(value)}` }));
    };
    const top = Math.max(y(Math.min(max, Math.max(0, values[chosen]))) - 7, 11);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(
      ui.h("title", { text: title }), ui.h("desc", { text: description }),
      ...ticks.flatMap(([value, words]) => [
        ui.h("line", { class: value === 0 ? "ss-zero" : "bw-grid", x1: box.left, x2: width,
          y1: y(value), y2: y(value) }),
        text(box.left - 8, y(value) + 4, words, "end")]),
      ...values.map(column),
      ...values.flatMap((_, key) =>
        ((key + 1) % every && (key || every === 2) ? []
          : [text(x(key), height - 4, key + 1, "middle")])),
      text(Math.min(width - 22, Math.max(box.left + 22, x(chosen))), top, format(values[chosen]),
        "middle", "ss-top"),
    );
  }
  new ResizeObserver(paint).observe(svg);
  return { element: svg, update(values, chosen, description) {
    held = { values, chosen, description };
    paint();
  } };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Softmax and scale explorer",
      lead: "A random query meets random keys; every entry has variance 1. Widen the vectors and "
        + "watch the scores grow apart, until one key has all the weight.",
    }, (w) => {
      const widths = w.domain("d_k");
      const mostKeys = w.domain("n_keys").most;
      w.state();
      const percent = (share) => (share > 0.995 && share < 1 ? "> 99 %"
        : share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);
      const short = (value) => (Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(1))
        .replace("-", "−");

      const width = controls.slider(w, "d_k", { label: "Dimension d_k" });
      const heat = controls.slider(w, "temperature", { label: "Temperature" });
      const keys = controls.slider(w, "n_keys", { label: "Number of keys" });
      const scaled = controls.toggle(w, "scaled", { label: "Divide by √d_k" });
      const again = ui.button("Draw again", () =>
        w.set({ seed: (w.get("seed") + 1) % (w.domain("seed").most + 1) }));
      const curve = controls.choice(w, "curve", {
        label: "Over all dimensions", options: [["sensitivity", "Sensitivity"], ["entropy", "Entropy"]] });

      // Read-outs: a figure, and what to hold it against
      const figures = {};
      const figure = (key, label) => {
        figures[key] = { value: ui.h("span", { class: "ss-value" }), beside: ui.h("span", {}) };
        return ui.h("li", { class: "ss-figure" }, ui.h("span", { class: "bw-label", text: label }),
          figures[key].value, figures[key].beside);
      };
      const fill = (key, value, beside) => {
        figures[key].value.textContent = value;
        figures[key].beside.textContent = beside;
      };
      const readOuts = ui.h("ul", { class: "ss-figures" },
        figure("products", "Deviation of q·k"),
        figure("largest", "Largest weight"),
        figure("entropy", "Entropy"),
        figure("sensitivity", "Sensitivity"));
      const formula = ui.h("p", { class: "ss-formula" });
      const reading = ui.h("p", { class: "ss-reading" });
      const scoreChart = columns({ title: "What the softmax gets, by key", height: 150,
        min: -REACH, max: REACH, ticks: [-REACH, 0, REACH].map((value) =>
          [value, String(value).replace("-", "−")]), format: short });
      const weightChart = columns({ title: "Softmax weights, by key", height: 150,
        min: 0, max: 1, ticks: [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]], format: percent });
      const lines = chart.lines({
        title: "Means over the dimension of the vectors", height: 220,
        x: { label: "dimension d_k", min: 0, max: widths.length - 1,
          ticks: widths.map((value, i) => [i, String(value)]).filter((_, i) => i % 2 === 0) },
        y: { label: "", min: 0, max: 1 },
      });

      const many = drawMany(1, widths, mostKeys);
      let drawn = {};
      let means = {};
      w.draw(({ d_k: d, temperature, n_keys: n, scaled: divide, seed, curve: kind }) => {
        if (drawn.seed !== seed) drawn = { seed, scores: drawScores(seed, widths, mostKeys) };
        if (means.n !== n || means.temperature !== temperature) {
          means = { n, temperature, curves: meanCurves(many, widths, n, temperature) };
        }
        const at = widths.indexOf(d);
        const products = drawn.scores[at].slice(0, n);
        const by = temperature * (divide ? Math.sqrt(d) : 1);
        const scores = products.map((score) => score / by);
        const weights = math.softmax(scores);
        const best = math.argmax(weights);
        const entropy = math.entropy(weights);
        const sensitivity = math.sensitivity(weights);

        formula.replaceChildren(
          ui.h("span", { class: "ss-weights", text: `weights = softmax(q·k${
            divide ? ` / √${d}` : ""}${temperature === 1 ? "" : ` / ${temperature}`})` }),
          ui.h("span", {}, "standard deviation in the brackets: ",
            ui.h("strong", { text: short(deviation(scores)) })));
        fill("products", short(deviation(products)), `√d_k = ${short(Math.sqrt(d))}`);
        fill("largest", percent(weights[best]), `key ${best + 1}`);
        fill("entropy", entropy.toFixed(2), `of at most ${Math.log(n).toFixed(2)}`);
        fill("sensitivity", sensitivity.toFixed(3), `of at most ${(1 - 1 / n).toFixed(3)}`);
        let [held, sum] = [0, 0];
        for (const weight of [...weights].sort((a, b) => b - a)) {
          if (sum < 0.9) [held, sum] = [held + 1, sum + weight];
        }
        const share = `${held} of ${n} keys hold${held === 1 ? "s" : ""} 90 % of the weight.`;
        reading.textContent = sensitivity < LITTLE
          ? `${share} Saturated: the weights hardly react.` : share;

        scoreChart.update(scores, best, `Standard deviation ${short(deviation(scores))}; largest: `
          + `key ${best + 1} with ${short(scores[best])}`);
        weightChart.update(weights, best, weights.map((weight, i) =>
          `key ${i + 1} ${percent(weight)}`).join(", "));
        const most = kind === "sensitivity" ? 1 : Math.log(n);
        const values = means.curves.map((curve) => curve.map((point) => point[kind]));
        lines.update(SERIES.map((name, i) => ({
          name, points: values[i].map((value, x) => [x, value]) })), {
          y: { min: 0,
            label: `${kind === "sensitivity" ? "Sensitivity" : "Entropy"}, mean of ${DRAWS} draws`,
             max: most, ticks: [0, most / 2, most].map((tick) => [tick, tick.toFixed(2)]) },
          description: SERIES.map((name, i) => `Scores ${name}: ${widths.map((value, x) =>
            `d_k ${value} ${values[i][x].toFixed(3)}`).join(", ")}`).join(". "),
        });
        lines.mark(at);
        w.say(`d_k ${d}: largest weight ${percent(weights[best])}, entropy ${entropy.toFixed(2)} `
          + `of at most ${Math.log(n).toFixed(2)}, sensitivity ${sensitivity.toFixed(3)}`);
      });

      w.add(
        ui.row(width.element, heat.element),
        ui.row(keys.element, ui.h("div", { class: "bw-field ss-switch" }, scaled.element, again)),
        formula,
        readOuts,
        ui.h("div", { class: "bw-columns" },
          ui.part("What the softmax gets, by key", scoreChart.element),
          ui.part("Softmax weights, by key", weightChart.element)),
        reading,
        curve.element,
        lines.element,
      );
      w.foot();
    });
  },
};
