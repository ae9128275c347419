// A matrix as a table whose cells can be walked through, or, where it is large, as one picture.
import * as raster from "./raster.js";
import { h, hidden } from "./ui.js";
import * as walk from "./walk.js";

/**
 * A matrix as a table. Options: caption, look (a class), blank() -> an empty cell's content, and
 * for cells to walk through onRead, onMove, onPick (see `walk`).
 * Returns { element, update({ rows, columns, fill }), outline(row, column) }; fill(td, i, j)
 * writes a cell.
 * @param {Record<string, any>} options
 */
function table({ caption, look, blank, ...on }) {
  const walkable = Object.values(on).some(Boolean);
  const node = h("table", { class: `bw-map ${look}`, role: walkable && "grid",
    "aria-label": caption });
  const element = h("div", walkable ? { class: "bw-scroll" }
    : { class: "bw-scroll", role: "group", "aria-label": caption }, node);
  let cells = [];
  let stop = null; // the cell that the Tab key reaches
  if (!walkable) {
    new ResizeObserver(() => { // only what scrolls needs a stop of the Tab key
      if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
      else element.removeAttribute("tabindex");
    }).observe(element);
  }
  const walked = walkable && walk.through(node, {
    ...on,
    size: () => [cells.length, cells[0].length],
    stand(i, j, focus) {
      stop?.setAttribute("tabindex", -1);
      stop = cells[i][j];
      stop.tabIndex = 0;
      if (focus) stop.focus();
    },
    placeOf,
  });

  function placeOf(event) {
    const cell = event.target.closest("td:not(.bw-corner)");
    return cell && [cell.parentNode.rowIndex - 1, cell.cellIndex - 1];
  }

  function rebuild(rows, columns) {
    node.style.setProperty("--columns", columns);
    cells = Array.from({ length: rows }, () => Array.from({ length: columns }, () =>
      h("td", { role: walkable && "gridcell", tabindex: walkable && -1 }, blank())));
    const head = (scope) => h("th", { scope }, h("span", {}));
    node.replaceChildren(
      h("caption", { class: "bw-hidden", text: caption }),
      h("thead", {}, h("tr", {}, h("td", { class: "bw-corner" }),
        Array.from({ length: columns }, () => head("col")))),
      h("tbody", {}, cells.map((line) => h("tr", {}, head("row"), line))));
    if (walkable) walked.refresh();
  }

  return {
    element,
    placeOf,
    update({ rows, columns, fill }) {
      if (cells.length !== rows.length || cells[0].length !== columns.length) {
        rebuild(rows.length, columns.length);
      }
      const heads = node.querySelectorAll("th > span");
      [...columns, ...rows].forEach((text, k) => {
        if (heads[k].textContent !== text) heads[k].textContent = text;
      });
      cells.forEach((line, i) => line.forEach((cell, j) => fill(cell, i, j)));
    },
    outline(row = null, column = null) {
      cells.forEach((line, i) => {
        line[0].parentNode.classList.toggle("bw-current", i === row);
        line.forEach((cell, j) => cell.classList.toggle("bw-current-column", j === column));
      });
      if (walkable) walked.home(row, column);
    },
  };
}

/**
 * A matrix of any size: a table while no side is longer than `most`, then one picture. Options
 * beside those of both: rowTitle, columnTitle, and scale (nodes for the caption of the table).
 * Returns { element, update(map), outline(row, column) }: the map has what both need.
 * @param {Record<string, any>} options
 */
export function map({ most, rowTitle, columnTitle, scale, ...options }) {
  const { look, blank, ...shared } = options;
  const key = h("span", { class: "bw-raster-key" });
  const reading = h("span", { class: "bw-reading", "aria-hidden": "true" });
  const axes = h("span", { text: `Rows: ${rowTitle}. Columns: ${columnTitle}.` });
  const element = h("figure", { class: "bw-figure" }, h("div"), h("figcaption",
    { class: "bw-caption" }, h("span", { class: "bw-said" }, axes, reading), scale, key));
  const views = {};
  let view = null;
  let held = null;
  let outlined = [];
  let place = null; // the cell under the pointer, the last tap or the focus
  function read(next) {
    place = next && next[0] in held.rows && next[1] in held.columns ? next : null;
    const text = place ? held.describe(...place) : "";
    if (reading.textContent === text) return;
    reading.textContent = text;
    axes.style.visibility = text ? "hidden" : "";
  }
  for (const name of ["mousemove", "click", "focusin"]) {
    element.addEventListener(name, (event) => read(view.placeOf(event)));
  }
  for (const name of ["mouseleave", "focusout"]) element.addEventListener(name, () => read(null));
  return {
    element,
    update(next) {
      const large = Math.max(next.rows.length, next.columns.length) > most;
      const name = large ? "raster" : "table";
      views[name] ??= large ? raster.map(shared) : table(options);
      view = views[name];
      if (element.firstChild !== view.element) {
        element.firstChild.replaceWith(view.element);
        key.replaceChildren(...(view.legend ? [view.legend] : []));
      }
      view.update(next);
      view.outline(...outlined);
      held = next;
      read(place);
    },
    outline(...place) {
      outlined = place;
      view.outline(...place);
    },
  };
}

const SIDE = 10; // pixels of a cell in the picture
const COLOURS = ["high", "low", "second", "paper"];

/** Paints one cell: its ground, a gap at two sides, and its mark. */
function tile({ ground, mark }) {
  return (pixels, width, inks, left = 0, top = 0) => {
    const ink = (name) => inks[COLOURS.indexOf(name)] ?? 0;
    for (let y = 0; y < SIDE; y += 1) {
      for (let x = 0; x < SIDE; x += 1) {
        const ring = Math.abs(Math.hypot(x - 5, y - 5) - 2.6) < 1;
        const marked = mark === "corner" ? x - y > 3 : mark === "ring" && ring;
        pixels[(top + y) * width + left + x] = marked ? ink("second")
          : ground && (x === 0 || y === 0) ? ink("paper") : ink(ground);
      }
    }
  };
}

/**
 * A matrix of signs. Options: caption, rowTitle, columnTitle, onMove, onPick (see `walk`), and
 * kinds: { name: { look, sign, words, ground, mark } }, what a cell may be: its class, sign and
 * words in a table; in a picture a ground (none is hatched) and a mark ("corner" or "ring").
 * Returns { element, update(matrix of names, rows, columns, row) }.
 * @param {Record<string, any>} options
 */
export function cells({ kinds, onMove, onPick, ...options }) {
  const walkable = onMove || onPick;
  const drawn = map({ ...options, onMove, onPick, look: "bw-cells", most: 12, blank: () =>
    [h("span", { "aria-hidden": "true" }), !walkable && hidden("")] });
  const tiles = Object.fromEntries(Object.entries(kinds).map(([name, one]) => [name, tile(one)]));
  const colours = COLOURS.map((name) => `var(--bw-${name})`);
  const legend = Object.entries(kinds).map(([name, { words }]) => [words, tiles[name]]);

  return { element: drawn.element, update(matrix, rows, columns, row) {
    const describe = (i, j) => `${rows[i]} → ${columns[j]}: ${kinds[matrix[i][j]].words}`;
    drawn.update({ rows, columns, describe, colours, side: SIDE, legend,
      fill(cell, i, j) {
        const { look, sign, words } = kinds[matrix[i][j]];
        const title = describe(i, j);
        if (cell.className === look && cell.title === title) return;
        const [shown, read] = cell.children;
        Object.assign(cell, { className: look, title });
        shown.textContent = sign;
        if (read) read.textContent = words; // for screen readers
        else cell.ariaLabel = words;
      },
      paint(pixels, width, inks) {
        const made = {}; // each kind is painted once, then copied line by line
        for (const name of new Set(matrix.flat())) {
          made[name] = new Uint32Array(SIDE * SIDE);
          tiles[name](made[name], SIDE, inks);
        }
        matrix.forEach((line, i) => {
          for (let y = 0; y < SIDE; y += 1) {
            let at = (i * SIDE + y) * width;
            for (const name of line) {
              const one = made[name];
              for (let k = y * SIDE; k < (y + 1) * SIDE; k += 1, at += 1) pixels[at] = one[k];
            }
          }
        });
      } });
    drawn.outline(row);
  } };
}
