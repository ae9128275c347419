// A query among keys in the plane. Its scores are the keys' projections on its direction, times its
// length; and the output, a weighted mean, stays within the convex hull of the values.
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const SIDE = 320; // of a plane, in its own units
const ROOM = 0.45; // beyond the limit, for points at the edge
const STEP = 0.1; // every move ends on this grid, so that numbers can be checked by hand
const LEAP = 0.5; // of an arrow key with Shift
const WIDEST = 12; // the line of a weight of 1
const NAME = [48, 14]; // width and height of the word "output"
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

const fixed = (value, digits = 2) =>
  value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");
const pair = (vector) => `(${vector.map((entry) => fixed(entry)).join(", ")})`;
const named = (letter, i) => `${letter}${"₁₂₃₄₅"[i]}`;

/** Two decimals, or a power of ten. */
function short(value) {
  if (value < 10000) return fixed(value);
  const [head, power] = value.toExponential(1).split("e+");
  return `${head}·10${[...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

/** `count` numbers within the limit: from nested lists, or from text with commas as in a link. */
function numbers(value, count, limit) {
  const parts = String(value).split(",");
  const fit = parts.length === count
    && parts.every((part) => part.trim() !== "" && Math.abs(Number(part)) <= limit);
  return fit ? parts.map(Number) : undefined;
}

/** What the state may be: one vector of the plane, or `count` of them. */
const vector = (limit) => (value) => numbers(value, 2, limit);
const vectors = (count, limit) => (value) => {
  const all = numbers(value, 2 * count, limit);
  return all && Array.from({ length: count }, (_, i) => all.slice(2 * i, 2 * i + 2));
};

/** One query's look-up, step by step; a query of length 0 has no direction to project on. */
export function lookUp(query, key, value, divisor) {
  const length = Math.hypot(...query);
  const products = key.map((row) => math.dot(query, row));
  const found = math.attention([query], key, value, { scale: 1 / divisor });
  return {
    length,
    products,
    along: products.map((product) => (length ? product / length : 0)),
    scores: found.scores[0],
    powers: found.scores[0].map(Math.exp),
    weights: found.weights[0],
    output: found.output[0],
  };
}

/** The corners of the convex hull, all around. */
export function hull(points) {
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const half = (row) => {
    const held = [];
    for (const point of row) {
      while (held.length > 1 && turn(held.at(-2), held.at(-1), point) <= 0) held.pop();
      held.push(point);
    }
    return held.slice(0, -1);
  };
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return [...half(sorted), ...half(sorted.reverse())];
}

/** Of the places for a name beside a point, the one with most room to the nearest obstacle. */
export function clearest([x, y], obstacles, [width, height] = NAME) {
  const [aside, above] = [width / 2 + 14, height / 2 + 13];
  // Where its middle may stand, from the point
  const besides = [[aside, -10], [-aside, -10], [aside, 13], [-aside, 13], [0, -above], [0, above]];
  const outside = (left, length) => Math.max(0, -left, left + length - SIDE);
  const room = besides.map(([dx, dy]) => {
    const [left, top] = [x + dx - width / 2, y + dy - height / 2];
    if (outside(left, width) + outside(top, height) > 0) return -1;
    return Math.min(...obstacles.map(([a, b]) => Math.hypot(
      Math.max(0, left - a, a - left - width), Math.max(0, top - b, b - top - height))));
  });
  return besides[math.argmax(room)];
}

/** What one should see: who wins and why. */
function verdict(key, { length, along, products, weights }) {
  const best = math.argmax(products);
  const ties = products.flatMap((score, i) => (products[best] - score < 1e-9 ? [i] : []));
  if (ties.length === key.length) {
    const why = length === 0 ? "A query of 0 scores every key 0"
      : Math.abs(products[best]) < 1e-9 ? "Every key is at a right angle to q, so every score is 0"
        : "All the projections are equal, and so are the scores";
    return `${why}: the weights are equal, and the output is the mean of the values.`;
  }
  if (ties.length > 1) {
    const names = ties.map((i) => named("k", i));
    return `${names.slice(0, -1).join(", ")} and ${names.at(-1)} tie: their projections on q are `
      + `equal, and so are their weights, ${fixed(weights[best])} each.`;
  }
  const turned = key.map((row, i) => (Math.hypot(...row) ? along[i] / Math.hypot(...row) : -1));
  const nearest = math.argmax(turned);
  const share = weights[best] < 0.995 ? `a weight of ${fixed(weights[best])}`
    : "nearly all the weight";
  const won = `${named("k", best)} wins with ${share}`;
  return turned[nearest] > turned[best] + 1e-9
    ? `${won}: ${named("k", nearest)} points more nearly along q, but ${named("k", best)} reaches `
      + "further along it."
    : `${won}: it reaches furthest along q.`;
}

/** A plane with its axes, which may have names, and a layer to draw in. */
function plane(label, limit, [across = "", up = ""]) {
  const unit = SIDE / 2 / (limit + ROOM);
  const at = ([a, b]) => [SIDE / 2 + a * unit, SIDE / 2 - b * unit];
  const layer = ui.h("g", {});
  const line = (kind, from, to) => {
    const [[x1, y1], [x2, y2]] = [at(from), at(to)];
    return ui.h("line", { class: kind, x1, y1, x2, y2 });
  };
  const far = limit + ROOM;
  const places = Array.from({ length: 2 * limit + 1 }, (_, i) => i - limit);
  const tick = (value, [dx, dy], place) => ui.h("text", { class: "qp-tick", text: fixed(value, 0),
    x: at(place)[0] + dx, y: at(place)[1] + dy, "text-anchor": "middle", "aria-hidden": "true" });
  const axis = (text, x, y, anchor) =>
    ui.h("text", { class: "qp-tick qp-of", text, x, y, "text-anchor": anchor });
  const svg = ui.h("svg", { role: "group", "aria-label": label, class: "bw-lines qp-plane",
    viewBox: `0 0 ${SIDE} ${SIDE}` },
  places.flatMap((value) => ["bw-grid", "qp-axis"].slice(+(value === 0)).slice(0, 1)
    .flatMap((kind) => [line(kind, [value, -far], [value, far]),
      line(kind, [-far, value], [far, value])])),
  [-2, 2].flatMap((value) => [tick(value, [0, 13], [value, 0]), tick(value, [-10, 4], [0, value])]),
  axis(across, SIDE - 5, SIDE / 2 + 27, "end"), axis(up, SIDE / 2 + 6, 12, "start"),
  layer);

  /**
   * A point that can be moved, by pointer and by arrow keys. Its name is for those who cannot see
   * it; `mark` is drawn at it; `onActive` hears whether the reader points at it or has its focus.
   * @param {{ name: string, text: string, kind: string, mark?: any, onMove: (place: number[]) => void,
   *   onActive?: (is: boolean) => void }} options
   */
  function handle({ name, text, kind, mark, onMove, onActive = () => undefined }) {
    const label = ui.h("text", { class: "qp-name", text, "text-anchor": "middle" });
    const where = ui.h("text", { class: "qp-where", "text-anchor": "middle" });
    let held = [0, 0];
    const move = (place) => onMove(place.map((entry) =>
      Math.max(-limit, Math.min(limit, Math.round(Math.round(entry / STEP) * STEP * 100) / 100))));
    const node = ui.h("g", { class: `qp-handle qp-${kind}`, role: "slider", tabindex: 0,
      "aria-label": name, "aria-roledescription": "movable point", "aria-valuemin": -limit,
      "aria-valuemax": limit,
      focus: () => onActive(true), blur: () => onActive(false),
      pointerenter: () => onActive(true), pointerleave: () => onActive(node.matches(":focus")),
      keydown(event) {
        const way = ARROWS[event.key];
        if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        move(held.map((entry, k) => entry + way[k] * (event.shiftKey ? LEAP : STEP)));
      } },
    ui.h("circle", { r: 16, class: "bw-grip" }), ui.h("circle", { r: 11, class: "qp-halo" }),
    mark, label, where);
    controls.draggable(node, (left, down) =>
      move([(left - 0.5) * (SIDE / unit), (0.5 - down) * (SIDE / unit)]));
    return { node, put(place, from = [0, 0]) {
      held = place;
      const [x, y] = at(place);
      node.setAttribute("transform", `translate(${x} ${y})`);
      node.setAttribute("aria-valuenow", place[0]);
      node.setAttribute("aria-valuetext", place.map((entry) => fixed(entry)).join(", "));
      const out = [place[0] - from[0], from[1] - place[1]];
      const size = Math.hypot(...out) || 1;
      const aside = x + (17 * out[0]) / size;
      label.setAttribute("x", Math.max(9, Math.min(SIDE - 9, aside)) - x);
      label.setAttribute("y", 4 + (17 * out[1]) / size);
      where.textContent = `${text} ${pair(place)}`;
      where.setAttribute("x", Math.max(52, Math.min(SIDE - 52, x)) - x);
      where.setAttribute("y", y < 40 ? 29 : -18);
    } };
  }

  /** An arrow from the origin that ends in a head; none where it is too short to see. */
  function arrow(to, head) {
    const [[a, b], [c, d]] = [at([0, 0]), at(to)];
    const length = Math.hypot(c - a, d - b);
    if (length < 2) return "";
    const [u, v] = [(c - a) / length, (d - b) / length];
    const [e, f] = [c - head * u, d - head * v];
    const wing = (side) => `${e + side * 0.45 * head * v} ${f - side * 0.45 * head * u}`;
    return `M${a} ${b}L${e} ${f}L${wing(1)}L${c} ${d}L${wing(-1)}L${e} ${f}`;
  }

  /** A path through places. */
  const path = (places, close) =>
    `M${places.map((place) => at(place).join(" ")).join("L")}${close ? "z" : ""}`;

  const stroke = (kind) => ui.h("path", { class: kind });

  return { svg, layer, far, handle, arrow, path, at, stroke };
}

/** Shows the first `count` of lists of nodes, and marks those of one place. */
function showSome(lists, count, chosen) {
  for (const list of lists) {
    list.forEach((node, i) => {
      node.toggleAttribute("hidden", i >= count);
      node.classList.toggle("qp-shown", i === chosen);
    });
  }
}

/** Query and keys: each key's projection on the query's direction, that of one key as a stripe. */
function lookingPlane(limit, most, axes, { onQuery, onKey, onActive }) {
  const { svg, layer, far, handle, arrow, path, at, stroke } =
    plane("The plane of the query and the keys", limit, axes);
  const [level, ray, stripe] = ["qp-level", "qp-ray", "qp-stripe"].map(stroke);
  const levelName = ui.h("text", { class: "qp-tick", "text-anchor": "end", text: "score 0" });
  const [queryArrow, ...keyArrows] = ["query", ...Array(most).fill("key")]
    .map((kind) => stroke(`qp-arrow qp-${kind}`));
  const drops = keyArrows.map(() => stroke("qp-drop"));
  const feet = keyArrows.map(() => ui.h("circle", { r: 3.5, class: "qp-foot" }));
  const query = handle({ name: "query q", text: "q", kind: "query", onMove: onQuery });
  const keys = keyArrows.map((_, i) => handle({ name: `key k${i + 1}`, text: named("k", i),
    kind: "key", onMove: onKey(i), onActive: onActive(i) }));
  const note = ui.h("p", { class: "qp-note" });
  layer.append(level, levelName, ray, stripe, ...drops, ...keyArrows, ...feet, queryArrow,
    ...keys.map(({ node }) => node), query.node);

  /** From edge to edge of the plane, through the origin. */
  function line(direction) {
    const out = far / (Math.max(...direction.map(Math.abs)) || 1);
    return [-out, out].map((by) => direction.map((entry) => entry * by));
  }

  /** The line of all places with score 0, and its name where it leaves the plane. */
  function drawLevel([a, b], length) {
    const across = line(b > 0 ? [b, -a] : [-b, a]); // to the right, for the name
    level.setAttribute("d", path(across));
    const [x, y] = at(across[1]);
    levelName.toggleAttribute("hidden", length === 0);
    levelName.setAttribute("x", Math.max(48, Math.min(SIDE - 6, x)));
    levelName.setAttribute("y", Math.max(12, Math.min(SIDE - 6, y - 6)));
  }

  return { element: ui.part("Query and keys", svg, note), update(now, found, shown) {
    const { length, along, products } = found;
    const unit = now.query.map((entry) => (length ? entry / length : 0));
    const foot = (i) => unit.map((entry) => entry * along[i]);
    query.put(now.query);
    queryArrow.setAttribute("d", arrow(now.query, 13));
    ray.setAttribute("d", path(line(unit)));
    drawLevel(unit, length);
    stripe.setAttribute("d", path([[0, 0], foot(shown)]));
    showSome([keys.map(({ node }) => node), keyArrows, drops, feet], along.length, shown);
    along.forEach((_, i) => {
      keys[i].put(now.key[i]);
      keyArrows[i].setAttribute("d", arrow(now.key[i], 10));
      drops[i].setAttribute("d", path([now.key[i], foot(i)]));
      const [x, y] = at(foot(i));
      feet[i].setAttribute("cx", x);
      feet[i].setAttribute("cy", y);
    });
    note.textContent = length ? `${named("k", shown)} reaches ${fixed(along[shown])} along q (the wide `
      + `stripe); times |q| = ${fixed(length)}, its score is ${fixed(products[shown])}.`
      : "q has no length and no direction: every score is 0.";
  } };
}

/** Values and output: the convex hull, and each weight as the thickness of a line. */
function mixingPlane(limit, most, axes, { onValue, onActive }) {
  const { svg, layer, handle, path, at, stroke } =
    plane("The plane of the values and the output", limit, axes);
  const shape = stroke("qp-hull");
  const values = Array.from({ length: most }, (_, i) => handle({ name: `value v${i + 1}`,
    text: named("v", i), kind: "value", onMove: onValue(i), onActive: onActive(i),
    mark: ui.h("rect", { x: -5, y: -5, width: 10, height: 10, class: "qp-dot" }) }));
  const shares = values.map(() => stroke("qp-share"));
  const name = ui.h("text", { class: "qp-name", text: "output", "text-anchor": "middle" });
  const output = ui.h("g", { class: "qp-output" }, ui.h("path", { d: "M0 -8L8 0L0 8L-8 0z" }), name);
  const note = ui.h("p", { class: "qp-note" });
  layer.append(shape, ...shares, ...values.map(({ node }) => node), output);

  /** What the output's name must not cover: a value, its name, and its line unless that is thin. */
  function inTheWay(row, middle, { output, weights }, i) {
    const [[x, y], [a, b], [c, d]] = [at(row), at(middle), at(output)];
    const size = Math.hypot(x - a, y - b) || 1;
    const along = weights[i] > 0.05 ? [0.25, 0.5, 0.75] : [];
    return [[x, y], [x + (17 * (x - a)) / size, y + (17 * (y - b)) / size],
      ...along.map((part) => [x + part * (c - x), y + part * (d - y)])];
  }

  return { element: ui.part("Values and output", svg, note), update(now, found, shown) {
    const value = now.value.slice(0, now.n_keys);
    const middle = [0, 1].map((k) => value.reduce((sum, row) => sum + row[k], 0) / value.length);
    showSome([values.map(({ node }) => node), shares], value.length, shown);
    value.forEach((row, i) => {
      values[i].put(row, middle);
      shares[i].setAttribute("d", path([row, found.output]));
      shares[i].setAttribute("stroke-width", Math.max(0.75, WIDEST * found.weights[i]));
    });
    shape.setAttribute("d", path(hull(value), true));
    const [x, y] = at(found.output);
    output.setAttribute("transform", `translate(${x} ${y})`);
    const size = name.isConnected ? name.getBBox().width : 0; // larger letters on a phone
    const [dx, dy] = clearest([x, y], value.flatMap((row, i) => inTheWay(row, middle, found, i)),
      size ? [size, (size * NAME[1]) / NAME[0]] : NAME);
    name.setAttribute("x", dx);
    name.setAttribute("y", dy + 5);
    note.textContent = `output = ${found.weights.map((weight, i) =>
      `${fixed(weight)} ${named("v", i)}`).join(" + ")} = ${pair(found.output)}`;
  } };
}

/** From keys to weights, a row for each key. */
function weighing(most) {
  const bar = (kind = "") => ui.h("div", { class: `qp-bar ${kind}`, "aria-hidden": "true" });
  const rows = Array.from({ length: most }, (_, i) => {
    const cells = Object.fromEntries(["along", "product", "score", "power", "weight"]
      .map((name) => [name, ui.h("span", {})]));
    const bars = [bar("qp-signed"), bar()];
    const wide = (drawn, cell) => ui.h("td", { class: "qp-wide" }, ui.h("div", {}, drawn, cell));
    return { cells, bars, node: ui.h("tr", {},
      ui.h("th", { scope: "row", text: named("k", i) }), ui.h("td", {}, cells.along),
      wide(bars[0], cells.product), ui.h("td", { class: "qp-divided" }, cells.score),
      ui.h("td", {}, cells.power), wide(bars[1], cells.weight)) };
  });
  const head = (text, kind) => ui.h("th", { scope: "col", class: kind, text });
  const divided = head("", "qp-divided");
  const total = ui.h("td", {});
  const table = ui.h("table", { class: "qp-table" },
    ui.h("caption", { class: "bw-hidden", text: "From the keys to their weights" }),
    ui.h("thead", {}, ui.h("tr", {}, head("key"), head("along q", "qp-number"),
      head("score q·k", "qp-wide"), divided, head("exp", "qp-number"), head("weight", "qp-wide"))),
    ui.h("tbody", {}, rows.map(({ node }) => node)),
    ui.h("tfoot", {}, ui.h("tr", {}, ui.h("th", { scope: "row", text: "sum" }), ui.h("td", {}),
      ui.h("td", {}), ui.h("td", { class: "qp-divided" }), total, ui.h("td", { text: "1.00" }))));

  return { element: table, update(now, found, shown) {
    const largest = Math.max(1, ...found.products.map(Math.abs));
    showSome([rows.map(({ node }) => node)], now.n_keys, shown);
    found.weights.forEach((weight, i) => {
      const { cells, bars } = rows[i];
      cells.along.textContent = found.length ? fixed(found.along[i]) : "–";
      cells.product.textContent = fixed(found.products[i]);
      cells.score.textContent = fixed(found.scores[i]);
      cells.power.textContent = short(found.powers[i]);
      cells.weight.textContent = fixed(weight);
      bars[0].style.setProperty("--share", (found.products[i] / largest).toFixed(4));
      bars[1].style.setProperty("--share", weight.toFixed(4));
    });
    total.textContent = short(found.powers.reduce((sum, power) => sum + power, 0));
    const by = [now.scaled && "√2", now.temperature !== 1 && now.temperature].filter(Boolean);
    table.classList.toggle("qp-plain", by.length === 0);
    divided.textContent = by.length > 1 ? `÷ (${by.join(" · ")})` : `÷ ${by}`;
  } };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "A query among keys",
      lead: "A key's score is how far it reaches along the query, times the query's length. Drag any "
        + "point, or go to it with Tab and use the arrow keys (with Shift for larger steps).",
    }, (w) => {
      const limit = w.data("limit");
      const most = w.data("key").length;
      const axes = w.data("axes");
      w.state({ query: vector(limit), key: vectors(most, limit), value: vectors(most, limit) });
      let active = null; // the key that the reader points at, or that has the focus

      const count = controls.slider(w, "n_keys", { label: "Number of keys" });
      const heat = controls.slider(w, "temperature", { label: "Temperature" });
      const scaled = controls.toggle(w, "scaled", { label: "Divide by √d_k = √2" });
      const starts = w.data("starts").map(([name, query, key]) => ui.button(name, () => w.set({
        query, key: [...key, ...w.get("key").slice(key.length)], n_keys: key.length, scaled: false,
        temperature: 1 })));
      const onMove = (name) => (i) => (place) =>
        w.set({ [name]: w.get(name).map((row, j) => (j === i ? place : row)) });
      const onActive = (i) => (on) => {
        active = on ? i : null;
        w.redraw();
      };
      const looking = lookingPlane(limit, most, axes.slice(0, 2), {
        onQuery: (place) => w.set({ query: place }), onKey: onMove("key"), onActive });
      const mixing = mixingPlane(limit, most, axes.slice(2),
        { onValue: onMove("value"), onActive });
      const table = weighing(most);
      const reading = ui.h("p", { class: "qp-reading" });

      w.draw((now) => {
        const n = now.n_keys;
        const [key, value] = [now.key.slice(0, n), now.value.slice(0, n)];
        const found = lookUp(now.query, key, value,
          now.temperature * (now.scaled ? Math.SQRT2 : 1));
        const shown = active !== null && active < n ? active : math.argmax(found.weights);
        for (const drawn of [looking, mixing, table]) drawn.update(now, found, shown);
        reading.textContent = verdict(key, found);
        w.say(`Weights: ${found.weights.map((weight, i) => `k${i + 1} ${fixed(weight)}`).join(", ")}. `
          + `Output at ${found.output.map((entry) => fixed(entry)).join(", ")}.`);
      });

      w.add(
        ui.h("div", { class: "bw-buttons", role: "group", "aria-label": "Start from" }, starts),
        ui.h("div", { class: "qp-planes" },
          ui.h("div", { class: "qp-looking" }, looking.element),
          ui.h("div", { class: "qp-weighing" }, table.element, reading),
          ui.h("div", { class: "qp-mixing" }, mixing.element)),
        ui.h("div", { class: "bw-row qp-controls" }, count.element,
          w.data("divides") ? [heat.element, scaled.element] : []),
      );
      w.foot();
      requestAnimationFrame(() => w.redraw()); // once the letters can be measured
    });
  },
};
