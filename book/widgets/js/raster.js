// A large map on one canvas, in the look of the tables. For the keyboard and for screen readers it
// is a grid of which one cell stands in the page: the cell that has the focus, or would get it.
import { h } from "./ui.js";
import * as walk from "./walk.js";

/** Colours, as the style sheet means them under `node` in the present theme, as pixels. */
function pixelsOf(node, colours) {
  const probe = h("span", { hidden: true }, colours.map((colour) => {
    const one = h("span");
    one.style.color = colour;
    return one;
  }));
  node.append(probe);
  const context = h("canvas", { width: colours.length, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  [...probe.children].forEach((one, k) => {
    context.fillStyle = getComputedStyle(one).color;
    context.fillRect(k, 0, 1, 1);
  });
  probe.remove();
  return new Uint32Array(context.getImageData(0, 0, colours.length, 1).data.buffer);
}

const images = new WeakMap(); // a canvas keeps its pixels, so that a new picture takes no memory

/** Sets the pixels of a canvas: paint(pixels, width) writes each of them; 0 is transparent. */
function fill(canvas, width, height, paint) {
  if (images.get(canvas)?.width !== width || images.get(canvas).height !== height) {
    Object.assign(canvas, { width, height });
    images.set(canvas, new ImageData(width, height));
  }
  const image = images.get(canvas);
  paint(new Uint32Array(image.data.buffer), width);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/**
 * What paints a canvas in `node`: draw(inks, fresh), with the colours as pixels, whenever it is called
 * and whenever they have changed, with the theme and on paper. colours() gives none before there is a map.
 */
function painter(node, canvas, colours, draw) {
  let inks = null;
  function paint() {
    if (!colours() || !node.isConnected) return; // the observer below paints once it is
    const fresh = !inks;
    inks ??= pixelsOf(node, colours());
    draw(inks, fresh);
  }
  new ResizeObserver(() => { if (!inks) paint(); }).observe(node);
  const repaint = () => {
    inks = null;
    paint();
  };
  canvas.addEventListener("transitionend", repaint); // the style sheet: the theme has changed
  for (const moment of ["beforeprint", "afterprint"]) { // paper is light, whatever the screen
    addEventListener(moment, () => queueMicrotask(repaint));
  }
  return paint;
}

/** A small picture without names, where others tell what it shows: { element, update(map) }, as in `map`. */
export function picture() {
  const canvas = h("canvas", { "aria-hidden": "true", class: "bw-raster-plain" });
  const element = h("span", { class: "bw-picture" }, canvas);
  let held = null;
  const paint = painter(element, canvas, () => held?.colours, (inks) =>
    fill(canvas, held.columns.length, held.rows.length, (pixels, width) => held.paint(pixels, width, inks)));
  return { element, update(next) {
    held = next;
    paint();
  } };
}

/** The names of an axis, as many of them as there is room for. */
function ticks(names, kind) {
  const step = [[16, 1], [32, 4], [64, 8]].find(([most]) => names.length <= most)?.[1] ?? 64;
  return names.flatMap((text, k) => (k % step ? []
    : [h("span", { style: `grid-${kind}: ${k + 1}` }, h("span", { text }))]));
}

/**
 * Options: caption, and what `walk` wants: onRead, onMove, onPick.
 * Returns { element, legend, update(map), outline(row, column) }, with map as { rows, columns }
 * (names), describe(i, j) -> text, colours (CSS), side (pixels of a cell), paint(pixels, width,
 * colours), and a legend: [[text, paint]] for one cell each.
 * @param {Record<string, any>} options
 */
export function map({ caption, ...on }) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const marks = ["row", "column"].map((name) =>
    h("div", { class: `bw-raster-${name}`, "aria-hidden": "true", hidden: true }));
  let cell = h("div", { role: "gridcell", tabindex: 0 });
  const body = h("div", { class: "bw-raster-body", role: "row" }, canvas, marks, cell);
  const heads = ["columns", "rows"].map((name) =>
    h("div", { class: `bw-raster-${name}`, "aria-hidden": "true" }));
  const grid = h("div", { class: "bw-raster", role: "grid", "aria-label": caption }, heads, body);
  const element = h("div", { class: "bw-scroll" }, grid);
  const legend = h("span", { class: "bw-raster-legend", "aria-hidden": "true" });
  let held = null;
  let names = "";

  function stand(i, j, focus) {
    const next = h("div", { role: "gridcell", tabindex: 0, "aria-colindex": j + 1,
      "aria-label": held.describe(i, j), "--row": i, "--column": j });
    const last = cell;
    cell = next;
    body.setAttribute("aria-rowindex", i + 1);
    if (focus) { // a new node, so that the focus moves and a screen reader follows it
      body.append(next);
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
      last.remove();
    } else last.replaceWith(next);
  }
  function placeOf(event) {
    if (event.type === "focusin") {
      return [Number(body.getAttribute("aria-rowindex")) - 1,
        Number(cell.getAttribute("aria-colindex")) - 1];
    }
    const box = body.getBoundingClientRect();
    const place = [(event.clientY - box.top) / box.height * held.rows.length,
      (event.clientX - box.left) / box.width * held.columns.length].map(Math.floor);
    const holds = place[0] in held.rows && place[1] in held.columns;
    if (holds && event.type === "mousemove") body.title = held.describe(...place);
    return holds ? place : null;
  }
  const walked = walk.through(body, { size: () => [held.rows.length, held.columns.length],
    stand, placeOf, ...on });

  const paint = painter(grid, canvas, () => held?.colours, (inks, fresh) => {
    const { rows, columns, side } = held;
    const other = legend.firstChild?.firstChild.width !== side;
    fill(canvas, side * columns.length, side * rows.length,
      (pixels, width) => held.paint(pixels, width, inks));
    if (fresh || other) legend.querySelectorAll("canvas").forEach((one, k) =>
      fill(one, side, side, (pixels, width) => held.legend[k][1](pixels, width, inks)));
  });

  return {
    element,
    legend,
    placeOf,
    update(next) {
      const { rows, columns } = next;
      const sized = rows.length === held?.rows.length && columns.length === held.columns.length;
      held = next;
      if (`${rows}\n${columns}` !== names) {
        names = `${rows}\n${columns}`;
        heads[0].replaceChildren(...ticks(columns, "column"));
        heads[1].replaceChildren(...ticks(rows, "row"));
        legend.replaceChildren(...(next.legend ?? []).map(([text]) =>
          h("span", {}, h("canvas"), text)));
      }
      if (!sized) {
        grid.style.setProperty("--rows", rows.length);
        grid.style.setProperty("--columns", columns.length);
        grid.classList.toggle("bw-raster-wide", columns.length > 64);
        canvas.classList.toggle("bw-raster-plain", next.side === 1);
        grid.setAttribute("aria-rowcount", rows.length);
        grid.setAttribute("aria-colcount", columns.length);
        walked.refresh();
      } else {
        cell.setAttribute("aria-label", held.describe(...placeOf({ type: "focusin" })));
      }
      paint();
    },
    outline(...place) {
      place.forEach((at, axis) => {
        marks[axis].hidden = typeof at !== "number";
        marks[axis].style.setProperty("--at", at);
      });
      walked.home(...place);
    },
  };
}
