// What the widgets draw: a heat map, a list of bars, lines over an axis.
// Queries are rows and keys are columns. Colour never says anything alone.
import * as grid from "./grid.js";
import * as raster from "./raster.js";
import { h } from "./ui.js";

const TURN = 0.59; // from this share on, text on a shade changes colour; a test holds the contrast
const isOpen = (value) => typeof value === "number" && Number.isFinite(value);

/** Colours a node by a share from 0 to 1; the style sheet turns it into a colour. */
export function shade(node, share) {
  const held = Math.min(1, Math.max(0, share));
  node.style.setProperty("--share", held.toFixed(3));
  node.classList.toggle("bw-deep", held > TURN);
  return node;
}

const LINE = 12; // pixels between two texts at the ends of lines
const STEPS = 64; // shades of a large map
const RAMP = Array.from({ length: STEPS + 1 }, (_, k) =>
  `color-mix(in oklab, var(--bw-high) ${(100 * k) / STEPS}%, var(--bw-low))`);

/**
 * A map of numbers: a table, or one picture where a side is too long for it. Options: caption,
 * rowTitle and columnTitle (what a row and a column are), digits, numbers (write them into the
 * cells), most (rows or columns of a table; more are a picture), max (the value of the darkest
 * colour; 0 and less have the lightest). Cells can be walked
 * through, by arrow keys as with a pointer, if one of these is given: onRead(row, column, byKey),
 * also without arguments when no cell is read any more; onPick(row, column) for a click, Space or
 * Enter.
 * A value that is null stands for "may not attend" and is hatched.
 * Returns { element, update(values, { rows, columns, max }), outline(row, column) }, with the
 * names of rows and columns.
 * @param {{ caption: string, rowTitle?: string, columnTitle?: string, digits?: number,
 *   numbers?: boolean, most?: number, max?: number, onRead?: any, onPick?: any }} options
 */
export function heatMap({ caption, rowTitle = "query", columnTitle = "key", digits = 2,
  numbers = false, most = numbers ? 10 : 32, max = 1, onRead, onPick }) {
  const [low, top] = [h("span"), h("span")];
  const scale = h("span", { class: "bw-scale", "aria-hidden": "true" },
    low, h("span", { class: "bw-ramp" }), top);
  let labels = { rows: [], columns: [], max };
  const map = grid.map({ caption, rowTitle, columnTitle, scale, onRead, onPick,
    most, look: numbers ? "bw-numbers" : "", blank: () => h("span") });

  return {
    element: map.element,
    outline: map.outline,
    update(values, changes = {}) {
      labels = { ...labels, ...changes };
      const { rows, columns } = labels;
      low.textContent = values.some((line) => line.some((value) => value < 0)) ? "≤ 0" : "0";
      top.textContent = String(labels.max);
      const text = (value) => (isOpen(value) ? value.toFixed(digits) : "masked");
      const describe = (i, j) => `${rows[i]} → ${columns[j]}: ${text(values[i][j])}`;
      map.update({ rows, columns, describe, colours: RAMP, side: 1,
        fill(cell, i, j) {
          const open = isOpen(values[i][j]);
          cell.title = describe(i, j);
          cell.classList.toggle("bw-masked", !open);
          cell.firstChild.className = numbers && open ? "" : "bw-hidden";
          cell.firstChild.textContent = text(values[i][j]);
          if (open) shade(cell, values[i][j] / labels.max);
          else cell.removeAttribute("style");
        },
        paint: painted(values, labels.max) });
    },
  };
}

/** What paints a map of numbers in the shades of RAMP. */
const painted = (values, max) => (pixels, width, inks) =>
  values.forEach((line, i) => line.forEach((value, j) => {
    const share = Math.min(1, Math.max(0, value / max));
    pixels[i * width + j] = isOpen(value) ? inks[Math.round(STEPS * share)] : 0;
  }));

/** The same map as a small picture, without names: { element, update(values) }. */
export function heatPicture() {
  const { element, update } = raster.picture();
  return { element, update: (values) => update({ rows: values, columns: values[0], colours: RAMP,
    paint: painted(values, 1) }) };
}

/**
 * Bars beside their names. Options: label, max, format(value) -> text.
 * Returns { element, update([{ name, value, note, current }], max) }; a value of null is not known
 * yet.
 */
export function bars({ label, max = 1, format = (value) => value.toFixed(2) }) {
  const element = h("ol", { class: "bw-bars", "aria-label": label });
  return {
    element,
    update(items, most = max) {
      element.replaceChildren(...items.map(({ name, value, note, current }) =>
        h("li", { class: current ? "bw-chosen" : "" },
          h("span", { class: "bw-bar-name" }, h("span", { text: name }),
            note && h("span", { class: "bw-bar-note", text: note })),
          h("span", { class: "bw-bar", "aria-hidden": "true", "--share": (value ?? 0) / most }),
          h("span", { class: "bw-bar-value", text: value === null ? "–" : format(value) }))));
    },
  };
}

// The marks of the series, so that they differ in form as well as in colour.
const MARKS = [
  (x, y) => h("circle", { cx: x, cy: y, r: 4 }),
  (x, y) => h("rect", { x: x - 3.75, y: y - 3.75, width: 7.5, height: 7.5 }),
  (x, y) => h("path", { d: `M${x} ${y - 5}l5 8.7h-10z` }),
  (x, y) => h("path", { d: `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5-5.5z` }),
];

/** The line and mark of series `i`, to stand beside its name. */
export function swatch(i) {
  const mark = MARKS[i % 4](17, 7);
  mark.classList.add("bw-mark");
  return h("svg", { width: 34, height: 14, viewBox: "0 0 34 14", class: "bw-swatch",
    "aria-hidden": "true" },
  h("g", { class: `bw-series bw-series-${(i % 4) + 1}` },
    h("path", { class: "bw-line", d: "M1 7H33" }), mark));
}

/** Heights of lines of text, moved as little as keeps each a line apart, none below `lowest`. */
function apart(heights, lowest) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const found = [...heights];
  order.forEach((i, k) => {
    if (k) found[i] = Math.max(found[i], found[order[k - 1]] + LINE);
  });
  let limit = lowest;
  for (const i of order.reverse()) {
    found[i] = Math.min(found[i], limit);
    limit = found[i] - LINE;
  }
  return found;
}

/** A round step for about `count` ticks. */
function tickStep(span, count) {
  const raw = span / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
}

function ticksOf(axis, count) {
  if (axis.ticks) return axis.ticks;
  const step = tickStep(axis.max - axis.min, count);
  const first = Math.ceil(axis.min / step - 1e-9);
  const number = Math.floor(axis.max / step + 1e-9) - first + 1;
  return Array.from({ length: number }, (_, i) => [
    (first + i) * step, String(+((first + i) * step).toPrecision(6)).replace("-", "−")]);
}

/**
 * Lines over an axis. Options: title and description (for those who cannot see it), x and y as
 * { label, min, max, ticks: [[value, text]] } (without ticks it finds round ones), height,
 * points (draw a mark at each point; default for up to 30 points).
 * A series may have a spread, [[x, low, high]], drawn as upright strokes; a band, the same as an
 * area; a form, the number of its colour and mark, if that is not its place; an end, a text behind
 * its last point; and be cut there: a cross says that it was broken off. A series
 * without a name is not in the legend. onPick(i, x, y) hears of a click: the series that is nearest
 * to it, and where it was. Behind the series stand
 * `pale` lines, each a list of points, and an `edge`, { x, text }: what lies right of it is other.
 * Returns { element, update([{ name, points: [[x, y]], spread }],
 * { x, y, description, pale, edge, at }), mark(x) }: `at` is marked, as by `mark`.
 * @param {{ title: string, description?: string, x: any, y: any, height?: number,
 *   points?: boolean, onPick?: any }} options
 */
export function lines({ title, description = "", x, y, height = 240, points: withMarks, onPick }) {
  const svg = h("svg", { role: "img", class: "bw-lines" });
  const legend = h("div", { class: "bw-legend", "aria-hidden": "true" });
  const element = h("figure", { class: "bw-figure" }, legend, svg);
  let held = { series: [], x, y, description, at: null, pale: [], edge: null };

  /** Where things are: the drawing's width, its box, and the pixels of values. */
  function scales() {
    const width = Math.max(240, element.clientWidth || 480);
    const box = { left: 46, right: width - 14, top: held.edge ? 24 : 12, bottom: height - 44 };
    const span = (axis) => axis.max - axis.min || 1;
    return { width, box,
      px: (value) => box.left
        + ((value - held.x.min) / span(held.x)) * (box.right - box.left),
      py: (value) => box.bottom
        - ((value - held.y.min) / span(held.y)) * (box.bottom - box.top),
      back: (left, down) => [
        held.x.min + ((left - box.left) / (box.right - box.left)) * span(held.x),
        held.y.min + ((box.bottom - down) / (box.bottom - box.top)) * span(held.y)] };
  }

  /** Tells of a click which series is nearest. */
  function pick(event) {
    const { width, px, py, back } = scales();
    const frame = svg.getBoundingClientRect();
    const [left, down] = [event.clientX - frame.left, event.clientY - frame.top]
      .map((pixels) => (pixels * width) / frame.width);
    let [nearest, least] = [-1, Infinity];
    held.series.forEach(({ points }, i) => points.forEach(([a, b]) => {
      const far = Math.hypot(px(a) - left, py(b) - down);
      if (far < least) [nearest, least] = [i, far];
    }));
    if (nearest >= 0) onPick(nearest, ...back(left, down));
  }

  function paint() {
    const { width, box, px, py } = scales();
    const text = (left, down, words, attributes = {}) =>
      h("text", { x: left, y: down, text: words, ...attributes });
    const along = (points) =>
      points.map(([a, b], k) => `${k ? "L" : "M"}${px(a)} ${py(b)}`).join("");
    const places = apart(held.series.map(({ points }) =>
      (points.length ? py(points.at(-1)[1]) + 4 : 0)), box.bottom + 4);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.replaceChildren(
      h("title", { text: title }), h("desc", { text: held.description }),
      ...(held.edge === null ? [] : [
        h("rect", { class: "bw-beyond", x: px(held.edge.x), y: box.top,
          width: box.right - px(held.edge.x), height: box.bottom - box.top }),
        text(box.right, box.top - 8, held.edge.text, { "text-anchor": "end" })]),
      ...ticksOf(held.y, 4).flatMap(([value, label]) => [
        h("line", { class: "bw-grid", x1: box.left, x2: box.right, y1: py(value), y2: py(value) }),
        text(box.left - 8, py(value) + 4, label, { "text-anchor": "end" })]),
      ...ticksOf(held.x, width / 90).map(([value, label]) =>
        text(px(value), box.bottom + 18, label, { "text-anchor": "middle" })),
      text((box.left + box.right) / 2, height - 6, held.x.label,
        { "text-anchor": "middle", class: "bw-axis" }),
      ...(held.at === null ? [] : [
        h("line", { class: "bw-at", x1: px(held.at), x2: px(held.at), y1: box.top,
          y2: box.bottom })]),
      ...held.pale.map((points) => h("path", { class: "bw-pale", d: along(points) })),
      ...held.series.map(({ points, spread = [], band = [], form, end, cut }, i) => {
        const marks = withMarks ?? points.length <= 30;
        const kind = (form ?? i) % 4; // after four the same again, in thick lines
        const again = Math.floor((form ?? i) / 4) % 2 ? " bw-series-again" : "";
        const last = points.at(-1);
        return h("g", { class: `bw-series bw-series-${kind + 1}${again}` },
          band.length > 1 && h("path", { class: "bw-band", d: `${along(band.map(([a, low]) =>
            [a, low]))}${along(band.map(([a, , high]) => [a, high]).reverse()).replace("M", "L")}Z` }),
          spread.map(([a, low, high]) => h("line", { class: "bw-spread",
            x1: px(a), x2: px(a), y1: py(low), y2: py(high) })),
          h("path", { class: "bw-line", d: along(points) }),
          points.filter(([a]) => marks || a === held.at).map(([a, b]) => {
            const mark = MARKS[kind](px(a), py(b));
            mark.classList.add("bw-mark");
            if (a === held.at) mark.classList.add("bw-mark-current");
            return mark;
          }),
          cut && last && h("path", { class: "bw-cut",
            d: `M${px(last[0]) - 4} ${py(last[1]) - 4}l8 8m0-8l-8 8` }),
          end && last && text(px(last[0]) + (cut ? 8 : 5), places[i], end, { class: "bw-end" }));
      }));
  }

  new ResizeObserver(paint).observe(element);
  if (onPick) svg.addEventListener("click", pick);
  svg.classList.toggle("bw-picked", Boolean(onPick));
  return {
    element,
    update(series, changes = {}) {
      held = { ...held, ...changes, series };
      legend.replaceChildren(
        h("span", { class: "bw-axis-y", text: held.y.label }),
        ...series.map(({ name }, i) => name !== undefined
          && h("span", { class: "bw-legend-item" }, swatch(i), h("span", { text: name })))
          .filter(Boolean));
      paint();
    },
    mark(at) {
      held.at = at;
      paint();
    },
  };
}
