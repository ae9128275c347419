// The curves of runs over their steps: loss and accuracy, of several seeds a band about the median.
import * as chart from "../widgets/js/chart.js";
import { h } from "../widgets/js/ui.js";
import * as labLines from "./lab_lines.js";
import { broken, percent } from "./lab_results.js";

/** The runs of an entry; a model without any is its own. */
const runsOf = (one) => one.runs ?? [one];

/** The height of a line through points [[x, y]] at x, or null beyond its ends. */
function heightAt(points, x) {
  const k = points.findIndex(([a]) => a >= x);
  if (k < 0) return null;
  const [right, high] = points[k];
  if (right === x) return high;
  if (k === 0) return null;
  const [left, low] = points[k - 1];
  return low + ((high - low) * (x - left)) / (right - left);
}

/** Several lines as one: [[x, least, median, greatest]], each over the lines that reach x. */
export function spread(lines) {
  const places = [...new Set(lines.flatMap((points) => points.map(([x]) => x)))]
    .sort((a, b) => a - b);
  return places.map((x) => {
    const heights = lines.map((points) => heightAt(points, x)).filter((y) => y !== null)
      .sort((a, b) => a - b);
    const middle = heights.length / 2;
    const median = (heights[Math.ceil(middle) - 1] + heights[Math.floor(middle)]) / 2;
    return [x, heights[0], median, heights.at(-1)];
  });
}

/** A line of an entry's runs, by name of chart.lines: of several runs the median, and a band. */
function lineOf(one, pointsOf) {
  const runs = runsOf(one);
  const all = runs.map((run) => pointsOf(run).filter(([, y]) => Number.isFinite(y)));
  const { name, number } = one;
  const shared = { form: number - 1, end: name ? null : number,
    name: name && [name, broken(one)].filter(Boolean).join(", ") };
  if (runs.length === 1) return { ...shared, points: all[0], cut: Boolean(broken(runs[0])) };
  const begun = spread(all.filter((points) => points.length));
  return { ...shared, points: begun.map(([x, , middle]) => [x, middle]),
    band: begun.map(([x, low, , high]) => [x, low, high]) };
}

/**
 * The run of an entry whose line is nearest to a height at a step, and its recorded place there.
 * @returns {[any, number]}
 */
function nearest(one, pointsOf, x, y) {
  const far = ([, height]) => Math.abs(height - y);
  const at = (points) => points.reduce((best, point) =>
    (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
  const [run] = runsOf(one).filter((each) => pointsOf(each).length)
    .sort((a, b) => far(at(pointsOf(a))) - far(at(pointsOf(b))));
  const place = run.probes.reduce((best, probe, i) =>
    (Math.abs(probe.step - x) < Math.abs(run.probes[best].step - x) ? i : best), 0);
  return [run, place];
}

/**
 * Loss and accuracy of all runs over their steps; the one that is shown comes last, on top. Runs
 * have names, which stand in a legend, or their numbers at the ends of their lines. What is shown
 * is an entry: its runs have one line together. onPick(run, place) hears which recorded step of
 * which run was clicked.
 * @param {string} measure
 * @param {number} height
 * @param {((run: any, place: number) => void) | null} onPick
 */
export function curves(measure, height = 210, onPick = null) {
  const axis = (label, max) => ({ label, min: 0, max });
  let [ordered, cap] = [[], 1];
  const lossOf = (run) => labLines.thinned(run.losses, run.steps)
    .map(([step, y]) => [step, Math.min(cap, y)]);
  const accuracyOf = (run) => run.probes.map((probe) => [probe.step, probe.accuracy]);
  const picked = (pointsOf) => onPick && ((i, x, y) => {
    if (ordered[i]) onPick(...nearest(ordered[i], pointsOf, x, y));
  });
  const loss = chart.lines({ title: "Loss of each run", height, points: false,
    x: axis("step", 1), y: axis("Loss", 1), onPick: picked(lossOf) });
  const accuracy = chart.lines({ title: `${measure}, of each run`, height, points: false,
    x: axis("step", 1), y: axis(measure, 1), onPick: picked(accuracyOf) });

  /** What the lines show, for those who cannot see them. */
  const told = (entries, end) => entries.map((one) => {
    const name = one.name ?? `Run ${one.number}`;
    const runs = runsOf(one);
    const ends = runs.map((run) => [end(run), broken(run)].filter(Boolean).join(", "));
    return `${name}${runs.length > 1 ? `, ${runs.length} seeds` : ""}: ${ends.join("; ")}.`;
  }).join(" ");

  return {
    element: h("div", { class: "bw-columns" }, loss.element, accuracy.element),
    loss: loss.element,
    accuracy: accuracy.element,
    update(entries, shown, at) {
      ordered = [...entries.filter((one) => one !== shown), shown];
      const runs = entries.flatMap(runsOf);
      const x = axis("step", Math.max(1, ...runs.map((run) => run.steps)));
      // A run that diverges leaves the picture at the top
      const starts = runs.flatMap(({ losses }) => losses.slice(0, 1).map(([, first]) => first));
      cap = 1.2 * Math.max(0.1, ...starts.filter(Number.isFinite));
      const series = /** @type {any[]} */ (ordered.map((one) => lineOf(one, lossOf)));
      const [checked] = runsOf(shown).filter((run) => run.torch);
      if (checked) {
        const points = lossOf({ ...checked, losses: checked.torch });
        series.push({ name: undefined, points, form: shown.number + 2, end: "torch" });
      }
      const last = ({ losses }) => losses.at(-1)?.[1]?.toPrecision(2) ?? "none yet";
      loss.update(series, { at, x, y: axis("Loss", cap), description: told(entries, last) });
      accuracy.update(ordered.map((one) => ({ ...lineOf(one, accuracyOf), name: undefined })), {
        at, x, y: axis(measure, 1),
        description: told(entries, (run) => percent(run.probes.at(-1)?.accuracy)) });
    },
  };
}
