// Table 1 as curves: what four kinds of layer cost, and what speaks for each of them.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const LIMIT = 2 ** 20; // lengths up to which a crossing is looked for
const NAMES = { attention: "Self-attention", recurrent: "Recurrent", convolution: "Convolution",
  restricted: "Restricted" };
const LAYERS = Object.keys(NAMES);
const COLUMNS = ["Layer", "Work", "Memory", "Steps", "Path"];
const MEASURES = {
  work: { name: "Work", field: "flops", axis: "FLOPs of one layer" },
  memory: { name: "Memory", field: "memory", axis: "numbers that one layer makes and keeps" },
  path: { name: "Path", field: "path", axis: "layers or steps between first and last" },
};

/** Layers until the last position has read the first. */
function layersToReach(distance, k, dilated) {
  let [layers, reached] = [0, 0];
  if (!dilated) return Math.ceil(distance / (k - 1));
  while (reached < distance) {
    layers += 1;
    reached = k ** layers - 1;
  }
  return layers;
}

/** What each layer costs: the formulas of chapters.complexity.costs. */
export function costs({ n, d, k, radius, dilated, projections }) {
  const wide = projections ? 8 * n * d * d : 0; // to queries, keys, values and output
  const kept = projections ? 4 * n * d : 0;
  const reach = Math.min(radius, n - 1);
  const pairs = n * (2 * reach + 1) - reach * (reach + 1);
  return {
    attention: { flops: 4 * n * n * d + wide, memory: n * n + kept, sequential: 1, path: 1 },
    recurrent: { flops: 2 * n * d * d + 2 * (n - 1) * d * d, memory: n * d, sequential: n,
      path: n - 1 },
    convolution: { flops: 2 * k * n * d * d, memory: n * d, sequential: 1,
      path: layersToReach(n - 1, k, dilated) },
    restricted: { flops: 4 * pairs * d + wide, memory: pairs + kept, sequential: 1,
      path: Math.ceil((n - 1) / radius) },
  };
}

/** The first length at which self-attention takes more work than another layer, or null. */
export function crossing(state, other) {
  const more = (n) => {
    const all = costs({ ...state, n });
    return all.attention.flops > all[other].flops;
  };
  let [low, high] = [0, LIMIT]; // not yet at low, already at high
  if (!more(high)) return null;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (more(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** A whole number, its thousands apart; and a short one with a unit: 4.19 M. */
const count = (value) => value.toLocaleString("en-GB").replaceAll(",", "\u202f");
export function brief(value) {
  if (value < 10_000) return count(value);
  const power = Math.min(4, Math.floor(Math.log10(Number(value.toPrecision(3))) / 3));
  return `${Number((value / 1000 ** power).toPrecision(3))}\u202f${["", "k", "M", "G", "T"][power]}`;
}

/** Powers of ten between two numbers, as ticks of a logarithmic axis. */
export function decades(low, high, most) {
  const [first, last] = [Math.ceil(low - 1e-9), Math.floor(high + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const ticks = [];
  for (let power = first; power <= last; power += step) ticks.push([power, brief(10 ** power)]);
  return ticks;
}

/** What speaks for a layer, and what against it: one line for each column of the table. */
export function verdict(all, pick) {
  const asked = [["flops", "Work"], ["memory", "Memory"], ["sequential", "Sequential operations"],
    ["path", "Longest path"]];
  return asked.map(([field, name]) => {
    const least = Math.min(...LAYERS.map((layer) => all[layer][field]));
    const best = LAYERS.filter((layer) => all[layer][field] === least);
    if (best.includes(pick)) {
      const others = best.filter((layer) => layer !== pick).map((layer) => NAMES[layer]);
      const also = others.length ? `, as with ${others.join(", ").toLowerCase()}` : "";
      return { good: true, text: `${name}: the least of the four${also}.` };
    }
    const times = Number((all[pick][field] / least).toPrecision(2));
    return { good: false, text:
      `${name}: ${brief(times)} times that of ${NAMES[best[0]].toLowerCase()}.` };
  });
}

/** The sentence about one crossing. */
function crossingText(state, other) {
  const at = crossing(state, other);
  if (at === null) return `not below n = ${count(LIMIT)}`;
  return at === 1 ? "at every length" : `from n = ${count(at)}`;
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Complexity explorer",
      lead: "Four kinds of layer read n vectors of dimension d. Change the sizes, see what each costs, "
        + "then pick one.",
    }, (w) => {
      const lengths = w.domain("n");
      w.state();
      const length = controls.slider(w, "n", { label: "Length n", format: count });
      const width = controls.slider(w, "d", { label: "Dimension d", format: count });
      const kernel = controls.slider(w, "k", { label: "Kernel k" });
      const radius = controls.slider(w, "radius", { label: "Window r",
        format: (value) => count(2 * value + 1) });
      const dilated = controls.toggle(w, "dilated", { label: "Dilated convolution" });
      const projections = controls.toggle(w, "projections", { label: "Count attention’s projections" });
      const measure = controls.choice(w, "measure", { label: "Curves show",
        options: Object.entries(MEASURES).map(([key, { name }]) => [key, name]) });
      const pick = controls.choice(w, "pick", { label: "Which layer would you pick?",
        options: LAYERS.map((layer) => [layer, NAMES[layer]]) });

      const lines = chart.lines({ title: "Cost by length", height: 280, points: false,
        x: { label: "length n", min: 0, max: 1 }, y: { label: "", min: 0, max: 1 } });
      const body = ui.h("tbody", {});
      const table = ui.h("table", { class: "ce-table" },
        ui.h("caption", { class: "bw-hidden", text: "What each layer costs at these sizes" }),
        ui.h("thead", {}, ui.h("tr", {},
          COLUMNS.map((text) => ui.h("th", { scope: "col", text })))), body);
      const whole = ui.h("p", { class: "ce-whole", "aria-hidden": "true" });
      for (const name of ["mouseover", "click"]) { // a tap is a click
        table.addEventListener(name, ({ target }) => {
          const cell = target.closest("td");
          if (cell) whole.textContent = cell.dataset.whole;
        });
      }
      const crossings = ui.h("p", { class: "ce-crossings" });
      const verdicts = ui.h("ul", { class: "ce-verdict", "aria-label": "What speaks for this layer" });

      w.draw((state) => {
        const shown = MEASURES[state.measure];
        const here = costs(state);
        const curves = lengths.map((n) => [Math.log10(n), costs({ ...state, n })]);
        const series = LAYERS.map((layer) => ({ name: NAMES[layer],
          points: curves.map(([x, all]) => [x, Math.log10(all[layer][shown.field])]) }));
        const heights = series.flatMap(({ points }) => points.map(([, y]) => y));
        const [low, high] = [Math.floor(Math.min(...heights)), Math.max(...heights) * 1.03];
        const ends = [Math.log10(lengths[0]), Math.log10(lengths.at(-1))];
        lines.update(series, {
          x: { label: "length n", min: ends[0], max: ends[1], ticks: decades(...ends, 6) },
          y: { label: shown.axis, min: low, max: high, ticks: decades(low, high, 6) },
          description: LAYERS.map((layer) => `${NAMES[layer]}: at length ${lengths[0]} `
            + `${brief(curves[0][1][layer][shown.field])}, at ${state.n} `
            + `${brief(here[layer][shown.field])}, at ${lengths.at(-1)} `
            + `${brief(curves.at(-1)[1][layer][shown.field])}`).join(". "),
        });
        lines.mark(Math.log10(state.n));

        whole.textContent = "Tap a number, or point at it, for all its digits.";
        body.replaceChildren(...LAYERS.map((layer, i) => ui.h("tr",
          { class: layer === state.pick ? "ce-picked" : "" },
          ui.h("th", { scope: "row" }, chart.swatch(i), ui.h("span", { text: NAMES[layer] })),
          ["flops", "memory", "sequential", "path"].map((field, k) => {
            const best = LAYERS.every((other) => here[layer][field] <= here[other][field]);
            return ui.h("td", { class: best ? "ce-best" : "",
              "data-whole": `${NAMES[layer]}, ${COLUMNS[k + 1]}: ${count(here[layer][field])}` },
              best && ui.h("span", { text: "✓\u202f", "aria-label": "least, ", role: "img" }),
              brief(here[layer][field]));
          }))));
        crossings.textContent = "Self-attention takes more work than "
          + LAYERS.slice(1).map((other) =>
            `${NAMES[other].toLowerCase()} ${crossingText(state, other)}`).join(", ") + ".";

        verdicts.hidden = state.pick === "none";
        if (state.pick !== "none") {
          verdicts.replaceChildren(...verdict(here, state.pick).map(({ good, text }) =>
            ui.h("li", { class: good ? "ce-for" : "ce-against", text: `${good ? "✓" : "✗"} ${text}` })));
        }
        w.say(`${shown.name} at n ${state.n}, d ${state.d}: ${LAYERS.map((layer) =>
          `${NAMES[layer]} ${brief(here[layer][shown.field])}`).join(", ")}`);
      });

      w.add(
        ui.row(length.element, width.element),
        ui.row(kernel.element, radius.element),
        ui.row(dilated.element, projections.element),
        measure.element,
        lines.element,
        ui.h("div", {}, table, whole),
        crossings,
        pick.element,
        verdicts,
      );
      w.foot();
    });
  },
};
