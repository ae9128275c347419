// A deep stack of feed-forward sub-layers with random parameters, run forward and backward.
// A matrix is one typed array, row after row: products along rows are what a browser does fast.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const EPS = 1e-5;
const FAINT = 0.01; // a gradient below this, of 1 at the top, is called vanishing
const STRONG = 100;

/** Evenly spread numbers of mean 0, much faster to draw than normal ones. */
function fill(length, draw, deviation) {
  const [numbers, spread] = [new Float32Array(length), Math.sqrt(12) * deviation];
  for (let i = 0; i < length; i += 1) numbers[i] = spread * (draw() - 0.5);
  return numbers;
}

/** The random stack: input, gradient at the top, and two matrices for each layer. */
export function drawStack(seed, width, layers, time) {
  const draw = math.uniform(seed);
  const inner = 4 * width;
  return {
    width,
    input: Float64Array.from(fill(time * width, draw, 1)),
    pull: Float64Array.from(fill(time * width, draw, 1)),
    layers: Array.from({ length: layers }, () => ({
      first: fill(width * inner, draw, Math.sqrt(2 / width)), // ReLU keeps half of the squares
      second: fill(inner * width, draw, 1 / Math.sqrt(inner)),
    })),
  };
}

/** x W for each row of x, W being (columns of x) x out. */
export function times(x, weight, columns, out) {
  const rows = x.length / columns;
  const y = new Float64Array(rows * out);
  for (let i = 0; i < columns; i += 1) { // each row of W is read once, for all rows of x
    for (let row = 0; row < rows; row += 1) {
      const value = x[row * columns + i];
      if (value === 0) continue; // ReLU leaves half of them at 0
      for (let j = 0; j < out; j += 1) y[row * out + j] += value * weight[i * out + j];
    }
  }
  return y;
}

/** g W^T for each row of g, W being columns x (columns of g); only where `open` is not 0. */
export function timesTransposed(g, weight, columns, out, open) {
  const rows = g.length / out;
  const y = new Float64Array(rows * columns);
  for (let i = 0; i < columns; i += 1) {
    for (let row = 0; row < rows; row += 1) {
      let sum = 0;
      if (!open || open[row * columns + i] !== 0) {
        for (let j = 0; j < out; j += 1) sum += g[row * out + j] * weight[i * out + j];
      }
      y[row * columns + i] = sum;
    }
  }
  return y;
}

/** Layer norm of each row, and what its gradient needs. */
function normalise(x, width) {
  const value = new Float64Array(x.length);
  const factor = new Float64Array(x.length / width);
  for (let row = 0; row < factor.length; row += 1) {
    const part = x.subarray(row * width, (row + 1) * width);
    let [sum, squares] = [0, 0];
    for (const entry of part) sum += entry;
    const mean = sum / width;
    for (const entry of part) squares += (entry - mean) ** 2;
    factor[row] = 1 / Math.sqrt(squares / width + EPS);
    for (let i = 0; i < width; i += 1) value[row * width + i] = (part[i] - mean) * factor[row];
  }
  return { value, factor };
}

/** The gradient through a norm: less its mean, less what would only change the size. */
function throughNorm(g, { value, factor }, width) {
  const y = new Float64Array(g.length);
  factor.forEach((by, row) => {
    const from = row * width;
    let [mean, along] = [0, 0];
    for (let i = from; i < from + width; i += 1) {
      mean += g[i] / width;
      along += (g[i] * value[i]) / width;
    }
    for (let i = from; i < from + width; i += 1) y[i] = by * (g[i] - mean - value[i] * along);
  });
  return y;
}

const plus = (a, b) => a.map((value, i) => value + b[i]);

/** Root of the mean square. */
function size(x) {
  let squares = 0;
  for (const value of x) squares += value * value;
  return Math.sqrt(squares / x.length);
}

/** The mean cosine between the rows: 1 if all positions hold the same direction. */
function similarity(x, width) {
  const rows = Array.from({ length: x.length / width }, (_, i) =>
    x.subarray(i * width, (i + 1) * width));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const cosine = (a, b) => mean(a.map((value, i) => value * b[i])) / size(a) / size(b);
  return mean(rows.flatMap((a, i) => rows.slice(i + 1).map((b) => cosine(a, b))));
}

/**
 * Forward and backward. Sizes of the vectors after each layer and of the gradients there, entry 0
 * being the input; the loss is the sum of the outputs, each times its random number in `pull`.
 */
export function profile({ width, input, pull, layers }, { n_layers: depth, norm, residual, scale }) {
  const inner = 4 * width;
  const by = scale * scale; // both matrices are scaled, and ReLU lets a factor through
  const kept = [];
  const sizes = [size(input)];
  let x = input;
  for (let layer = 0; layer < depth; layer += 1) {
    const { first, second } = layers[layer];
    const before = norm === "pre" ? normalise(x, width) : null;
    const open = times(before ? before.value : x, first, width, inner)
      .map((value) => (value > 0 ? value : 0));
    const change = times(open, second, inner, width).map((value) => by * value);
    x = residual ? plus(x, change) : change;
    const after = norm === "post" ? normalise(x, width) : null;
    if (after) x = after.value;
    sizes.push(size(x));
    kept.push({ before, open, after });
  }
  let g = pull;
  const gradients = [size(g)];
  for (let layer = depth - 1; layer >= 0; layer -= 1) {
    const { first, second } = layers[layer];
    const { before, open, after } = kept[layer];
    if (after) g = throughNorm(g, after, width);
    const inside = timesTransposed(g, second, inner, width, open);
    let back = timesTransposed(inside, first, width, inner).map((value) => by * value);
    if (before) back = throughNorm(back, before, width);
    g = residual ? plus(g, back) : back;
    gradients.unshift(size(g));
  }
  return { sizes, gradients, similarity: similarity(x, width) };
}

const raised = (power) => String(power).replace("-", "⁻")
  .replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
const decade = (power) => (Math.abs(power) < 3 ? String(+(10 ** power).toFixed(2))
  : `10${raised(power)}`);

/** A size as text: three digits, and a power of ten where it is far from 1. */
export function short(value) {
  if (value >= 0.001 && value < 999.5) return String(+value.toPrecision(2));
  const [digits, power] = value.toExponential(1).split("e");
  return `${digits} · 10${raised(+power)}`;
}

/** Axis of powers of ten that holds the values, and 1. */
export function axis(label, values) {
  const powers = values.map(Math.log10);
  const low = Math.min(-1, Math.floor(Math.min(...powers)));
  const high = Math.max(1, Math.ceil(Math.max(...powers)));
  const step = Math.ceil((high - low) / 5);
  const ticks = Array.from({ length: high - low + 1 }, (_, i) => low + i)
    .filter((power) => power % step === 0).map((power) => [power, decade(power)]);
  return { label, min: low, max: high, ticks };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Norm and residual explorer",
      lead: "Build a deep stack of feed-forward sub-layers with random parameters. See how large its "
        + "vectors become on the way up, and its gradients on the way down.",
    }, (w) => {
      const [most, positions] = [w.domain("n_layers").most, w.data("positions")];
      const lastSeed = w.domain("seed").most;
      w.state();
      const depth = controls.slider(w, "n_layers", { label: "Layers" });
      const scale = controls.slider(w, "scale", { label: "Initial scale",
        format: (value) => `× ${value}` });
      const width = controls.slider(w, "d_model", { label: "Dimension d_model" });
      const norm = controls.choice(w, "norm", { label: "Layer norm",
        options: [["none", "none"], ["pre", "pre"], ["post", "post"]] });
      const residual = controls.toggle(w, "residual", { label: "Residual connection" });
      const again = ui.button("Draw again", () =>
        w.set({ seed: (w.get("seed") + 1) % (lastSeed + 1) }));

      const formula = ui.h("p", { class: "ne-formula" });
      const figures = ["Vectors at top", "Gradient at input", "Cosine similarity"]
        .map((label) => ({ label, value: ui.h("span", { class: "ne-value" }) }));
      const verdict = ui.h("p", { class: "ne-verdict" });
      const x = { label: "layer (0 = the input)", min: 0, max: most };
      const charts = ["Size of the vectors, by layer", "Size of the gradient, by layer"]
        .map((title) => chart.lines({ title, height: 220, x, y: { label: "", min: -1, max: 1 } }));

      let drawn = {}; // the stacks of one seed, by width
      w.draw((state) => {
        if (drawn.seed !== state.seed) drawn = { seed: state.seed };
        drawn[state.d_model] ??= drawStack(state.seed, state.d_model, most, positions);
        const { sizes, gradients, similarity: alike } = profile(drawn[state.d_model], state);
        const sum = (inside) => (state.residual ? `x + FFN(${inside})` : `FFN(${inside})`);
        formula.textContent = { none: sum("x"), pre: sum("LayerNorm(x)"),
          post: `LayerNorm(${sum("x")})` }[state.norm];
        const [top, bottom] = [sizes.at(-1), gradients[0]];
        [short(top), short(bottom), alike.toFixed(2)].forEach((text, i) => {
          figures[i].value.textContent = text;
        });
        verdict.textContent = bottom < FAINT * gradients.at(-1)
          ? "The gradient vanishes on its way down: hardly any reaches the first layers."
          : bottom > STRONG * gradients.at(-1)
            ? "The gradient explodes on its way down: one step would throw the first layers far."
            : "The gradient reaches the first layers with about the size that it has at the top.";
        [sizes, gradients].forEach((values, i) => {
          const name = ["vectors", "gradient"][i];
          charts[i].update([{ name, points: values.map((v, layer) => [layer, Math.log10(v)]) }], {
            x: { ...x, max: state.n_layers, ...(state.n_layers < 4
              && { ticks: values.map((_, layer) => [layer, String(layer)]) }) },
            y: axis("root mean square", values),
            description: values.map((v, layer) => `layer ${layer} ${short(v)}`).join(", "),
          });
        });
        w.say(`Vectors at the top ${short(top)}, gradient at the input ${short(bottom)}, `
          + `similarity of positions ${alike.toFixed(2)}. ${verdict.textContent}`);
      });

      w.add(
        ui.h("div", { class: "ne-top" }, norm.element, residual.element, again),
        ui.h("div", { class: "ne-sizes" }, depth.element, scale.element, width.element),
        formula,
        ui.h("ul", { class: "ne-figures" }, figures.map(({ label, value }) =>
          ui.h("li", {}, ui.h("span", { class: "bw-label", text: label }), value))),
        ui.h("div", { class: "bw-columns" },
          ui.part("Forward: size of the vectors", charts[0].element),
          ui.part("Backward: size of the gradient", charts[1].element)),
        verdict,
      );
      w.foot();
    });
  },
};
