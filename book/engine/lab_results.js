// What a laboratory shows of its runs: curves with the list of runs, attention maps, examples.
// Each part is { element, update(...) } and draws what it is given.
import * as chart from "../widgets/js/chart.js";
import * as controls from "../widgets/js/controls.js";
import { h, hidden, freshId } from "../widgets/js/ui.js";

const TABLE = 16; // rows or columns of a map as a table, which takes its time to make
const WIDE = 16; // tokens at most of an example whose lines stand below each other
const POINTS = 120; // of a loss curve: each is a mean over neighbouring steps
const LATE = 100; // milliseconds after which a frame is not waited for

/** The field for the seed of a run. */
export function seed(w) {
  const { most } = w.domain("seed");
  const { element, input } = controls.text(w, "seed", { label: `Seed, 0 to ${most}`, parse(text) {
    if (!/^\d+$/.test(text.trim()) || Number(text) > most) {
      throw new Error(`expected a whole number from 0 to ${most}`);
    }
    return Number(text);
  } });
  input.setAttribute("inputmode", "numeric");
  element.classList.add("lab-seed");
  return element;
}

/** Losses [[step, loss]] as at most POINTS points, each the mean of its steps, up to a cap. */
function thinned(losses, cap) {
  const width = Math.max(1, Math.ceil(losses.length / POINTS));
  const points = [];
  for (let from = 0; from < losses.length; from += width) {
    const group = losses.slice(from, from + width);
    const mean = group.reduce((sum, [, loss]) => sum + loss, 0) / group.length;
    points.push([group.at(-1)[0], Math.min(cap, mean)]);
  }
  return points;
}

const nameOf = ({ name, number }) => name ?? `Run ${number}`;

/**
 * Loss and accuracy of all runs over their steps; the one that is shown comes last, on top. Runs
 * have names, which stand in a legend, or their numbers at the ends of their lines.
 */
export function curves(measure, height = 210) {
  const axis = (label, max) => ({ label, min: 0, max });
  const loss = chart.lines({ title: "Loss of each run", height, points: false,
    x: axis("step", 1), y: axis("Loss", 1) });
  const accuracy = chart.lines({ title: `${measure}, of each run`, height, points: false,
    x: axis("step", 1), y: axis(measure, 1) });
  return {
    element: h("div", { class: "bw-columns" }, loss.element, accuracy.element),
    update(runs, shown, at) {
      const ordered = [...runs.filter((run) => run !== shown), shown];
      const x = axis("step", Math.max(1, ...runs.map((run) => run.steps)));
      // A run that diverges leaves the picture at the top
      const starts = runs.flatMap(({ losses }) => losses.slice(0, 1).map(([, first]) => first));
      const cap = 1.2 * Math.max(0.1, ...starts.filter(Number.isFinite));
      const one = (points, { name, number }) => ({ name, form: number - 1,
        points: points.filter(([, y]) => Number.isFinite(y)), end: name ? null : number });
      const last = (points) => points.at(-1)?.[1].toPrecision(2) ?? "none yet";
      const series = ordered.map((run) => one(thinned(run.losses, cap), run));
      if (shown.torch) {
        const points = thinned(shown.torch, cap);
        series.push({ name: undefined, points, form: shown.number + 2, end: "torch" });
      }
      loss.update(series, { at, x, y: axis("Loss", cap), description:
        runs.map((run) => `${nameOf(run)}: ${last(run.losses)}.`).join(" ") });
      accuracy.update(ordered.map((run) => ({ ...one(run.probes.map((probe) =>
        [probe.step, probe.accuracy]), run), name: undefined })), { at, x, y: axis(measure, 1), description: runs.map(
        (run) => `${nameOf(run)}: ${percent(run.probes.at(-1)?.accuracy)}.`).join(" ") });
    },
  };
}

export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(0)}%` : "–");

/**
 * The runs of this visit with their settings. words(run) -> [[label, value]]; on: what the
 * buttons of a row do: show, use, remove, each with its run.
 */
export function list({ words, measure, on }) {
  const element = h("ol", { class: "lab-runs", "aria-label": "Runs of this visit" });
  let rows = [];
  const action = (run, name, text, label) => h("button", { type: "button",
    class: "bw-button bw-quiet", "aria-label": `${label} run ${run.number}`, text,
    click: () => on[name](run) });

  function row(run, varied) {
    const result = h("span", { class: "lab-result" });
    const show = action(run, "show", "Show", "Show");
    const settings = h("span", { class: "lab-settings" }, words(run).map(([label, value], i) =>
      h(varied[i] ? "strong" : "span", { text: `${label} ${value}` })));
    const node = h("li", {}, h("span", { class: "lab-name" }, chart.swatch(run.number - 1),
      h("span", { text: `Run ${run.number}` })), settings, result,
    h("span", { class: "lab-actions" }, show,
      action(run, "use", "Use settings", "Use the settings of"),
      action(run, "remove", "Remove", "Remove")));
    return { run, node, result, show };
  }

  return {
    element,
    /** Makes the rows anew: after a run has come or gone. */
    rebuild(runs) {
      const all = runs.map(words);
      const varied = all[0]?.map((_, i) => new Set(all.map((one) => one[i][1])).size > 1) ?? [];
      rows = runs.map((run) => row(run, varied));
      element.replaceChildren(...rows.map(({ node }) => node));
    },
    update(shown) {
      for (const { run, node, result, show } of rows) {
        node.classList.toggle("lab-shown", run === shown);
        show.setAttribute("aria-pressed", run === shown);
        show.hidden = rows.length === 1;
        const text = run.state === "failed" ? "✗ failed"
          : `${percent(run.probes.at(-1)?.accuracy)}`;
        result.textContent = text;
        result.title = measure;
      }
    },
  };
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * Calls each in a task and, where frames come, a frame of its own, so that the page stays free.
 * @param {(() => void)[]} calls
 */
export function inFrames([first, ...rest]) {
  if (!first) return;
  const frame = new Promise((come) => { requestAnimationFrame(come); });
  const late = new Promise((come) => { setTimeout(come, LATE); });
  Promise.race([frame, late]).then(() => setTimeout(() => {
    first();
    inFrames(rest);
  }));
}

/**
 * The attention maps of one layer, a map for each head; where there are more layers, a list of
 * them, which calls chosen() when the reader chooses another. jobs(maps) gives what is to be done
 * to show these maps: a function for each head.
 */
export function maps(chosen) {
  const grid = h("div", { class: "lab-maps" });
  const select = h("select", { class: "bw-select", id: freshId(), change: chosen });
  const place = h("div", { class: "bw-field lab-place" },
    h("div", { class: "bw-field-head" },
      h("label", { class: "bw-label", for: select.id, text: "Layer" })), select);
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
    element: h("div", { class: "lab-attention" }, place, grid),
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

/** A token; a wrong one is bold and underlined, and named to screen readers. */
function token(tag) {
  const text = h("span");
  const mark = hidden(" (wrong)");
  const node = h(tag, {}, text);
  return { node, write(word, wrong) {
    text.textContent = word;
    node.classList.toggle("lab-wrong", wrong);
    if (wrong) node.append(mark);
    else mark.remove();
  } };
}

/** Tokens in a line. */
export const tokens = (texts, right) => h("span", { class: "lab-tokens" }, texts.flatMap((text, i) => {
  const one = token("span");
  one.write(text, right?.[i] === false);
  return [one.node, " "];
}));

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
