// The parts of a laboratory's panel: attention maps, examples, numbers.
// Each is { element, update(...) } and draws what it is given.
import * as chart from "../widgets/js/chart.js";
import { freshId, h, hidden } from "../widgets/js/ui.js";
import * as labMaps from "./lab_maps.js";
import { broken, percent, token, tokens } from "./lab_results.js";

const TABLE = 16; // rows or columns of a map as a table, which takes its time to make
const MANY = 4; // heads whose maps stand beside each other; of more, one is large
const WIDE = 16; // tokens at most of an example whose lines stand below each other

/** What an entry has reached: of several runs from where to where, and the middle. */
export function reached({ runs }) {
  const shares = runs.map(({ probes }) => probes.at(-1)?.accuracy)
    .filter(Number.isFinite).sort((a, b) => a - b);
  const failed = runs.filter(({ state }) => state === "failed").length;
  if (runs.length === 1) {
    return failed ? "✗ failed" : [percent(shares[0]), broken(runs[0])].filter(Boolean).join(", ");
  }
  if (!shares.length) return "–";
  const middle = shares.length / 2;
  const median = (shares[Math.ceil(middle) - 1] + shares[Math.floor(middle)]) / 2;
  return [`${percent(shares[0])} to ${percent(shares.at(-1))}, median ${percent(median)}`,
    failed && `✗ ${failed} of ${runs.length} failed`, ...runs.map((run) =>
      broken(run) && `seed ${run.settings.seed} ${broken(run)}`)].filter(Boolean).join(", ");
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * The attention maps of one layer, a map for each head; of many heads all are small, and the one that is
 * chosen there is large. Where there are more layers, the place has a list of them. jobs(maps) gives what is to be
 * done to show these maps, a function for each head; changed() is called when the reader chooses.
 */
export function maps(changed) {
  const grid = h("div", { class: "lab-maps" });
  const select = h("select", { class: "bw-select", id: freshId(), change: changed });
  const place = h("div", { class: "lab-place" },
    h("label", { class: "bw-label", for: select.id, text: "Layer" }), select);
  const strip = h("div", { class: "lab-heads", role: "group", "aria-label": "Choose a head" });
  const [heads, small, large] = [[], [], makeHead("the chosen head")];
  let [held, names, picked] = [[], "", 0];

  function makeHead(name) {
    const one = chart.heatMap({ caption: `Attention of ${name}`, most: TABLE });
    const label = h("p", { class: "bw-label", text: capital(name) });
    return { one, label, node: h("div", { class: "lab-head" }, label, one.element) };
  }

  function makeSmall(k) {
    const one = chart.heatPicture();
    const node = h("button", { type: "button", class: "lab-small", click() {
      picked = k;
      changed();
    } }, h("span", {}, hidden("Head "), k + 1), one.element);
    return { one, node };
  }

  /** So many of them, made where there were fewer. */
  const some = (list, count, make) => {
    while (list.length < count) list.push(make(list.length));
    return list.slice(0, count);
  };
  const put = (node, children) => {
    if (node.childElementCount !== children.length || node.firstChild !== children[0]) {
      node.replaceChildren(...children);
    }
  };

  function jobs() {
    const map = held.find(({ name }) => name === select.value) ?? held[0];
    const { queries, keys, rows, columns } = map;
    grid.style.setProperty("--label", Math.max(...rows.map((text) => [...text].length)));
    grid.style.setProperty("--columns", keys);
    grid.classList.toggle("lab-large", Math.max(queries, keys) > TABLE); // one picture each
    grid.classList.toggle("lab-short", columns.every((text) => [...text].length < 3));
    const many = map.heads > MANY;
    grid.classList.toggle("lab-many", many);
    const draw = (one, k) => one.update(labMaps.headOf(map, k), { rows, columns });
    if (!many) {
      const shown = some(heads, map.heads, (k) => makeHead(`head ${k + 1}`));
      put(grid, shown.map(({ node }) => node));
      return shown.map(({ one }, k) => () => draw(one, k));
    }
    picked = Math.min(picked, map.heads - 1);
    const shown = some(small, map.heads, makeSmall);
    put(strip, shown.map(({ node }) => node));
    put(grid, [strip, large.node]);
    large.label.textContent = `Head ${picked + 1}`;
    return [() => draw(large.one, picked), ...shown.map(({ one, node }, k) => () => {
      node.setAttribute("aria-pressed", k === picked);
      draw(one, k);
    })];
  }

  return {
    element: grid,
    place,
    jobs(found) {
      held = found;
      const now = found.map(({ name }) => name).join();
      if (now !== names) {
        names = now;
        const before = select.value;
        select.replaceChildren(...found.map(({ name }) =>
          h("option", { value: name, text: capital(name) })));
        select.value = found.some(({ name }) => name === before) ? before : found.at(-1)?.name;
        place.hidden = found.length < 2;
      }
      return found.length ? jobs() : [];
    },
  };
}

/** Lines of as many tokens each, below each other; they scroll, so they are written in place. */
function aligned(labels, width) {
  const cells = labels.map(() => Array.from({ length: width }, () => token("td")));
  const node = h("div", { class: "bw-scroll", tabindex: 0, role: "group",
    "aria-label": "Example" },
  h("table", { class: "lab-aligned" }, h("tbody", {}, labels.map((label, k) =>
    h("tr", {}, h("th", { scope: "row", text: label }), cells[k].map((cell) => cell.node))))));
  return { node, write(lines) {
    lines.forEach(([, texts, right], k) =>
      texts.forEach((text, i) => cells[k][i].write(text, right?.[i] === false)));
  } };
}

/** The same at once: [[label, texts, right]]. */
export function below(lines) {
  const one = aligned(lines.map(([label]) => label), lines[0][1].length);
  one.write(lines);
  return one.node;
}

/** Lines of any length; one that stays as it is, is left alone. */
function loose(labels) {
  const alone = labels.length === 1;
  const places = labels.map(() => h(alone ? "p" : "dd"));
  const node = alone ? h("div", {}, places)
    : h("dl", {}, labels.flatMap((label, k) => [h("dt", { text: label }), places[k]]));
  const held = [];
  return { node, write(lines) {
    lines.forEach(([, texts, right], k) => {
      const now = `${texts}|${right}`;
      if (held[k] !== now) places[k].replaceChildren(tokens(texts, right));
      held[k] = now;
    });
  } };
}

/** What the model answers to a few inputs that it was not trained on. */
export function examples() {
  const element = h("ol", { class: "lab-examples", "aria-label": "Examples" });
  let [form, items] = ["", []];
  return {
    element,
    update(found) {
      const all = found.map(({ input, wanted, got, right }) =>
        [["Input", input], ["Wanted", wanted], ["Answer", got, right]]
          .filter(([, texts]) => texts.length));
      const width = found[0]?.input.length ?? 0;
      const even = width <= WIDE && all.every((lines) =>
        lines.length === 3 && lines.every(([, texts]) => texts.length === width));
      const now = `${even && width} ${all.map((lines) => lines.length)}`;
      if (now !== form) {
        form = now;
        items = all.map((lines) => {
          const labels = lines.map(([label]) => label);
          const body = even ? aligned(labels, width) : loose(labels);
          const verdict = h("p", { class: "lab-verdict" });
          return { body, verdict, node: h("li", {}, body.node, verdict) };
        });
        element.replaceChildren(...items.map(({ node }) => node));
      }
      items.forEach(({ body, verdict, node }, i) => {
        const { right } = found[i];
        const wrong = right.filter((one) => !one).length;
        body.write(all[i]);
        node.classList.toggle("lab-right", !wrong);
        verdict.textContent = wrong ? `✗ ${wrong} of ${right.length} wrong` : "✓ right";
      });
    },
  };
}

/** Numbers under their names: bars where all are shares, else a list. */
export function numbers() {
  const bars = chart.bars({ label: "Measured", format: percent });
  const terms = h("dl", { class: "lab-numbers" });
  const element = h("div", {}, bars.element, terms);
  return {
    element,
    update(found) {
      const all = Object.entries(found ?? {});
      const shares = all.length > 0 && all.every(([, value]) => value >= 0 && value <= 1);
      element.hidden = all.length === 0;
      bars.element.hidden = !shares;
      terms.hidden = shares;
      if (shares) {
        bars.update(all.map(([name, value]) => ({ name: capital(name), value, current: true })));
        return;
      }
      terms.replaceChildren(...all.flatMap(([name, value]) => [h("dt", { text: capital(name) }),
        h("dd", { text: Number.isFinite(value) ? +value.toPrecision(3) : value })]));
    },
  };
}
