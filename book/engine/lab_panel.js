// The parts of a laboratory's panel: its runs in a list, attention maps, examples, numbers.
// Each is { element, update(...) } and draws what it is given.
import * as chart from "../widgets/js/chart.js";
import { button, copier, freshId, h, hidden } from "../widgets/js/ui.js";
import { broken, percent, token, tokens } from "./lab_results.js";
import * as labRuns from "./lab_runs.js";

const TABLE = 16; // rows or columns of a map as a table, which takes its time to make
const WIDE = 16; // tokens at most of an example whose lines stand below each other

/** What an entry has reached: of several runs from where to where, and the middle. */
function reached({ runs }) {
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

/**
 * The entries of this visit, and those kept from earlier ones, with their settings. words(entry) ->
 * [[label, value]]; on: what the buttons of a row do, each with its entry: show, use, again, keep
 * (with a name), remove, and link, which returns one, or null where a page has no address.
 */
export function list({ words, measure, on }) {
  const element = h("ol", { class: "lab-runs", "aria-label": "Runs" });
  let rows = [];

  function row(entry, varied) {
    const run = `run ${entry.number}`;
    const quiet = (text, says, click) => button(text, click, { quiet: true, label: `${says} ${run}` });
    const result = h("span", { class: "lab-result" });
    const show = quiet("Show", "Show", () => on.show(entry));
    const again = quiet("Train again", "Train again:", () => on.again(entry));
    const settings = h("span", { class: "lab-settings" }, words(entry).map(([label, value], i) =>
      h(varied[i] ? "strong" : "span", { text: `${label} ${value}` })));
    const name = h("input", { type: "text", class: "bw-input", id: freshId(), value: entry.label,
      maxlength: labRuns.LONGEST_NAME, autocomplete: "off", enterkeyhint: "done",
      keydown(event) { if (event.key === "Enter" && !event.isComposing) save(); } });
    const save = () => on.keep(entry, name.value.trim());
    const form = h("span", { class: "lab-keep", hidden: true },
      h("label", { class: "bw-label", for: name.id, text: `A name for ${run}, if you like` }), name,
      button("Keep it in this browser", save));
    const keep = quiet(entry.key ? "Rename" : "Keep", entry.key ? "Rename" : "Keep", () => {
      form.hidden = !form.hidden;
      keep.setAttribute("aria-expanded", !form.hidden);
      if (!form.hidden) name.focus();
    });
    keep.setAttribute("aria-expanded", "false");
    const opened = entry.runs[0].state === "opened"; // out of a file: no settings have its numbers
    const [copy, field] = opened || on.link(entry) === null ? []
      : copier("Copy link", `Link to ${run}`, () => on.link(entry), `Copy link to ${run}`);
    const node = h("li", {}, h("span", { class: "lab-name" }, chart.swatch(entry.number - 1),
      h("span", { text: labRuns.titleOf(entry) }), entry.key && hidden(" (kept in this browser)")),
    settings, result,
    h("span", { class: "lab-actions" }, show, again,
      quiet("Use settings", "Use the settings of", () => on.use(entry)), copy,
      !opened && keep, quiet("Remove", "Remove", () => on.remove(entry))), form, field);
    return { entry, node, result, show, again };
  }

  return {
    element,
    /** Makes the rows anew: after an entry has come or gone, or has another name. */
    rebuild(entries) {
      const all = entries.map(words);
      const varied = all[0]?.map((_, i) => new Set(all.map((one) => one[i][1])).size > 1) ?? [];
      rows = entries.map((entry) => row(entry, varied));
      element.replaceChildren(...rows.map(({ node }) => node));
    },
    update(shown) {
      for (const { entry, node, result, show, again } of rows) {
        node.classList.toggle("lab-shown", entry === shown);
        show.setAttribute("aria-pressed", entry === shown);
        show.hidden = rows.length === 1;
        again.hidden = entry.runs.some((run) => !labRuns.isOver(run) || run.probes.some((probe) =>
          probe.maps));
        result.textContent = reached(entry);
        result.title = measure;
      }
    },
  };
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * The attention maps of one layer, a map for each head; where there are more layers, its place has a
 * list of them, which calls chosen() when the reader chooses another. jobs(maps) gives what is to be done
 * to show these maps: a function for each head.
 */
export function maps(chosen) {
  const grid = h("div", { class: "lab-maps" });
  const select = h("select", { class: "bw-select", id: freshId(), change: chosen });
  const place = h("div", { class: "lab-place" },
    h("label", { class: "bw-label", for: select.id, text: "Layer" }), select);
  let [heads, held, names] = [[], [], ""];

  function jobs() {
    const map = held.find(({ name }) => name === select.value) ?? held[0];
    const { queries, keys, data, rows, columns } = map;
    while (heads.length < map.heads) {
      const number = heads.length + 1;
      const one = chart.heatMap({ caption: `Attention of head ${number}`, most: TABLE });
      const node = h("div", { class: "lab-head" },
        h("p", { class: "bw-label", text: `Head ${number}` }), one.element);
      heads.push({ one, node });
    }
    const shown = heads.slice(0, map.heads);
    if (grid.childElementCount !== shown.length) {
      grid.replaceChildren(...shown.map(({ node }) => node));
    }
    grid.style.setProperty("--label", Math.max(...rows.map((text) => [...text].length)));
    grid.style.setProperty("--columns", keys);
    grid.classList.toggle("lab-large", Math.max(queries, keys) > TABLE); // one picture each
    grid.classList.toggle("lab-short", columns.every((text) => [...text].length < 3));
    return shown.map(({ one }, k) => () => {
      const values = Array.from({ length: queries }, (_, i) =>
        Array.from(data.subarray((k * queries + i) * keys, (k * queries + i + 1) * keys)));
      one.update(values, { rows, columns });
    });
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
