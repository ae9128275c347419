// Positions: what a scheme gives to each position, scores by offset, and the shift M_k as a turn.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const NAMES = { sinusoidal: "Sinusoidal", learned: "Learned", rotary: "Rotary", alibi: "ALiBi" };
const WHAT = {
  sinusoidal: "What is added to the embedding at each position.",
  learned: "What is added to the embedding at each position, before any training: random rows.",
  rotary: "A query of ones, rotated by its position; queries and keys are rotated in the same way.",
  alibi: "What is added to the scores of this head, before the softmax.",
};

/** What the scheme makes of each position: (time x d_model); of ALiBi, the bias (query x key). */
export function table({ scheme, d_model: d, length, base, head }, nHeads) {
  if (scheme === "sinusoidal") return math.sinusoidal(length, d, base);
  if (scheme === "learned") {
    const draw = math.normal(8);
    return math.matrix(length, d, () => 0.5 * draw());
  }
  if (scheme === "rotary") {
    return math.sinusoidal(length, d, base).map((row) => row.map((value, i) =>
      (i % 2 ? row[i - 1] + value : row[i + 1] - value))); // (1 + j)(cos + j sin)
  }
  const slope = 2 ** (-8 * head / nHeads);
  return math.matrix(length, length, () => 0).map((row, i) =>
    row.map((_, j) => -slope * Math.abs(i - j) || 0));
}

/** M_k times a row: each pair (sin, cos) turns by k times its rate; of rotary, the other way. */
export function shifted(row, k, base, scheme = "sinusoidal") {
  const sign = scheme === "rotary" ? -1 : 1;
  return row.map((value, i) => {
    const angle = sign * k * base ** (-(i - (i % 2)) / row.length);
    const other = i % 2 ? -row[i - 1] : row[i + 1];
    return value * Math.cos(angle) + other * Math.sin(angle);
  });
}

/** The dot products of one position with all, as points (offset, product). */
export const products = (rows, p) => rows.map((row, j) => [j - p, math.dot(rows[p], row)]);

/** 256 colours from `low` over `middle` to `high`, as pixels of a canvas. */
export function palette(low, middle, high) {
  const bytes = Array.from({ length: 256 }, (_, i) => {
    const share = Math.abs(i / 127.5 - 1);
    const end = i < 128 ? low : high;
    return [...middle.map((value, c) => value + share * (end[c] - value)), 255];
  });
  return new Uint32Array(Uint8ClampedArray.from(bytes.flat()).buffer);
}

/** One pixel for each entry; `most` is the value of the darkest colour on either side. */
function picture(canvas, rows, most, colours) {
  const [height, width] = [rows.length, rows[0].length];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  rows.forEach((row, i) => row.forEach((value, j) => {
    const share = Math.min(1, Math.max(0, 0.5 + (0.5 * value) / most));
    pixels[i * width + j] = colours[Math.round(255 * share)];
  }));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const OFFSET = "offset: key position − query position";
const minus = (text) => text.replace("-", "−");
const short = (value) => minus(value.toFixed(2));
const long = (value) => (value < 1000 ? value.toPrecision(3)
  : Math.round(value).toLocaleString("en-GB").replaceAll(",", "\u202f"));

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Position explorer",
      lead: "Choose a scheme and its sizes. See what each position gets, how the score of two "
        + "positions depends on their distance, and what moving on by k does.",
    }, (w) => {
      const nHeads = w.domain("head").most;
      w.state({ pair: ui.integer(0, Math.max(...w.domain("d_model")) / 2 - 1) });
      const scheme = controls.choice(w, "scheme", {
        label: "Scheme", options: Object.entries(NAMES) });
      const width = controls.slider(w, "d_model", { label: "Dimension d_model" });
      const length = controls.slider(w, "length", { label: "Positions" });
      const base = controls.slider(w, "base", { label: "Base", format: long });
      const head = controls.slider(w, "head", { label: "Head",
        format: (value) => `${value} of ${nHeads}` });
      const position = controls.slider(w, "position", { label: "Position p" });
      const shift = controls.slider(w, "shift", { label: "Shift k" });
      const pair = controls.slider(w, "pair", { label: "Pair of entries" });

      const canvas = ui.h("canvas", { role: "img" });
      const [here, there] = ["p", "p + k"].map((text) =>
        ui.h("div", { class: "pe-row", "aria-hidden": "true" }, ui.h("span", { text })));
      const [least, most, axes] = ["", "", ""].map(() => ui.h("span"));
      const [what, curveNote, noTurn] = ["", "", ""].map(() => ui.h("p", { class: "pe-note" }));
      const map = ui.h("figure", { class: "pe-map" },
        ui.h("div", { class: "pe-frame" }, canvas, here, there),
        ui.h("figcaption", { class: "bw-caption" }, axes, ui.h("span",
          { class: "bw-scale", "aria-hidden": "true" }, least,
          ui.h("span", { class: "pe-ramp" }), most)));
      canvas.addEventListener("click", (event) => { // the sliders do the same for the keyboard
        const at = canvas.getBoundingClientRect();
        w.set({ position: Math.floor(canvas.height * (event.clientY - at.top) / at.height),
          pair: Math.floor(canvas.width * (event.clientX - at.left) / at.width / 2) });
      });
      const inks = ["pe-low", "pe-middle", "pe-high"].map((name) =>
        ui.h("span", { class: name, hidden: true }));
      let colours = null;

      const curve = chart.lines({ title: "Score by offset", height: 210, points: false,
        x: { label: OFFSET }, y: { label: "score" } });

      const circle = ui.h("circle", { class: "pe-circle" });
      const line = ui.h("line", { class: "pe-line", x1: 0, y1: 0 });
      const arc = ui.h("path", { class: "pe-arc" });
      const start = ui.h("circle", { class: "pe-start", r: 4 });
      const turned = ui.h("circle", { class: "pe-turned", r: 5.5 });
      const actual = ui.h("rect", { class: "pe-actual", width: 17, height: 17 });
      const dial = ui.h("svg", { viewBox: "-100 -100 200 200", class: "pe-dial", role: "img" },
        circle, line, arc, start, turned, actual);
      const facts = ui.h("dl", { class: "pe-facts" });
      const turn = ui.part("Does one turn lead from p to p + k, from any p?",
        ui.row(shift.element, pair.element), ui.h("div", { class: "pe-turn" }, dial, facts));

      function drawTurn({ scheme: kind, d_model: d, base: b, position: p, shift: k, pair: i },
        rows) {
        const shown = kind !== "alibi" && d % 2 === 0;
        turn.hidden = !shown;
        noTurn.hidden = shown;
        noTurn.textContent = kind === "alibi"
          ? "ALiBi has no vectors for positions: it only lowers the scores of distant keys."
          : `With ${d} entries the last sine has no cosine, so no rotation moves it on: M_k needs `
            + "an even dimension.";
        if (!shown) return null;
        const target = rows[p + k];
        const moved = shifted(rows[p], k, b, kind);
        const gap = Math.max(...moved.map((value, j) => Math.abs(value - target[j])));
        // x and y of a pair: (cos, sin), of rotary the pair itself; y points up
        const xy = (row) => (kind === "rotary" ? [row[2 * i], row[2 * i + 1]]
          : [row[2 * i + 1], row[2 * i]]);
        const [from, to, end] = [rows[p], moved, target].map(xy);
        const scale = 78 / Math.max(Math.hypot(...from), Math.hypot(...end), 1e-9);
        const at = (place) => [scale * place[0], -scale * place[1]];
        const radius = scale * Math.hypot(...from);
        const rate = b ** (-2 * i / d);
        const angle = Math.atan2(from[1], from[0]);
        const swept = Math.min(k * rate, 2 * Math.PI);
        const steps = Array.from({ length: 49 }, (_, s) => angle + (swept * s) / 48);
        const put = (node, attributes) => Object.entries(attributes).forEach(([name, value]) =>
          node.setAttribute(name, value));
        put(circle, { r: radius });
        put(line, { x2: at(to)[0], y2: at(to)[1] });
        put(arc, { d: steps.map((a, s) => `${s ? "L" : "M"}${(radius * Math.cos(a)).toFixed(2)} `
          + `${(-radius * Math.sin(a)).toFixed(2)}`).join("") });
        put(start, { cx: at(from)[0], cy: at(from)[1] });
        put(turned, { cx: at(to)[0], cy: at(to)[1] });
        put(actual, { x: at(end)[0] - 8.5, y: at(end)[1] - 8.5 });
        const held = gap < 1e-9;
        dial.setAttribute("aria-label", `Pair ${i} at position ${p}, rotated by ${short(k * rate)} `
          + `radians, ${held ? "meets" : "misses"} the pair at position ${p + k}`);
        const two = (row) => `(${short(row[2 * i])}, ${short(row[2 * i + 1])})`;
        const entries = [["● at p", two(rows[p])], ["◉ rotated, M_k applied", two(moved)],
          ["□ at p + k", two(target)], ["turn k·w", `${short(k * rate)} rad`],
          ["wavelength", `${long((2 * Math.PI) / rate)} positions`],
          ["largest gap, all pairs", held ? `✓ ${minus(gap.toExponential(0))}`
            : `✗ ${gap.toFixed(2)}`]];
        facts.replaceChildren(...entries.flatMap(([name, value]) =>
          [ui.h("dt", { text: name }), ui.h("dd", { text: value })]));
        return held;
      }

      function drawCurve({ scheme: kind, length: n, position: p, head: own }, rows) {
        const alibi = kind === "alibi";
        const series = alibi
          ? [...new Set([own, 1, Math.ceil(nHeads / 2), nHeads])].map((h) => ({ name: `head ${h}`,
            points: Array.from({ length: n }, (_, t) => [-t, -t * 2 ** (-8 * h / nHeads) || 0]) }))
          : [...new Set([p, 0, n - 1])].map((q) => (
            { name: `from position ${q}`, points: products(rows, q) }));
        const values = [0, ...series.flatMap(({ points }) => points.map((point) => point[1]))];
        const [low, high] = [Math.min(...values), Math.max(...values)];
        curve.update(series, { x: { label: OFFSET, min: 1 - n, max: alibi ? 0 : n - 1 },
          y: { label: alibi ? "added to the score" : "dot product", min: low, max: high },
          description: `${series.length} curves over ${n} positions` });
        curveNote.textContent = { alibi: "A straight line down; each head has a slope of its own.",
          learned: "Three positions, three curves: nothing says that distance counts.",
        }[kind] ?? "From any position the same curve: only the offset counts.";
      }

      function paint(state) {
        const { scheme: kind, length: n } = state;
        const alibi = kind === "alibi";
        const even = kind === "rotary" && state.d_model % 2 ? state.d_model + 1 : state.d_model;
        const p = Math.min(state.position, n - 1);
        const i = Math.min(state.pair, Math.floor(even / 2) - 1);
        const own = { ...state, d_model: even, position: p, pair: i };
        const rows = table({ ...own, length: alibi ? n : Math.max(n, p + own.shift + 1) }, nHeads);
        const seen = rows.slice(0, n);
        const hide = ({ element, input }, off) => {
          for (const node of [element, input]) node.hidden = off;
        };
        hide(width, alibi);
        hide(head, !alibi);
        hide(base, alibi || kind === "learned");
        width.element.querySelector("label").textContent =
          kind === "rotary" ? "Dimension d_k" : "Dimension d_model";
        position.limits(0, n - 1);
        pair.limits(0, Math.floor(even / 2) - 1);

        colours ??= palette(...inks.map((ink) =>
          getComputedStyle(ink).color.match(/[\d.]+/g).slice(0, 3).map(Number)));
        const top = { sinusoidal: 1, learned: 1.5, rotary: Math.SQRT2 }[kind] ?? -rows[0][n - 1];
        const bound = +top.toPrecision(3);
        picture(canvas, seen, top, colours);
        canvas.parentNode.style.setProperty("--rows", n);
        [least.textContent, most.textContent] = [`−${bound}`, alibi ? "0" : `+${bound}`];
        map.classList.toggle("pe-one-side", alibi);
        axes.textContent = alibi ? "Rows: query. Columns: key." : "Rows: position. Columns: entry.";
        canvas.setAttribute("aria-label", alibi ? `Bias of head ${own.head}: ${n} by ${n}`
          : `${NAMES[kind]}: ${n} positions by ${even} entries, from −${bound} to ${bound}`);
        [[here, p], [there, p + state.shift]].forEach(([mark, row]) => {
          mark.style.setProperty("--row", row);
          mark.hidden = row >= n || (mark === there && alibi);
        });
        what.textContent = WHAT[kind] + (even === state.d_model ? ""
          : ` It rotates pairs, so ${state.d_model} entries will not do; shown for ${even}.`);
        drawCurve(own, seen);
        const held = drawTurn(own, rows);
        w.say(`${NAMES[kind]}, ${n} positions. ${held === null ? noTurn.textContent
          : `M_k ${held ? "moves position p to p + k" : "misses position p + k"}`}`);
      }

      w.add(
        scheme.element,
        ui.row(width.element, length.element),
        ui.row(base.element, head.element, position.element),
        ui.part("What each position gets", map, what),
        ui.part("Score by offset", curve.element, curveNote),
        turn, noTurn, ...inks,
      );
      w.draw(paint);
      const observer = new MutationObserver(() => { // the picture holds colours of the theme
        colours = null;
        paint(w.snapshot());
      });
      observer.observe(document.documentElement, {
        attributes: true, attributeFilter: ["data-theme"] });
      w.onClose(() => observer.disconnect());
      w.foot();
    });
  },
};
