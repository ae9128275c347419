// Three learning-rate schedules over the steps of a run, which are counted from 0 as in the code.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const POINTS = 160; // of a curve, besides its corner and the step that is marked
const NAMES = { paper: "paper", cosine: "cosine", constant: "constant" };
const KINDS = Object.keys(NAMES);

/** The rate at a step: the formulas of lib.training. */
export function rateAt(kind, { d_model: d, warmup, total, peak }, step) {
  const number = step + 1; // the paper counts from 1
  if (kind === "paper") return Math.min(number ** -0.5, number * warmup ** -1.5) / Math.sqrt(d);
  if (step < warmup) return (peak * number) / warmup;
  if (kind === "constant") return peak;
  return (peak * (1 + Math.cos(Math.PI * Math.min(1, (step - warmup) / (total - warmup))))) / 2;
}

/** The step with the largest rate, the first if there are several: the end of the warm-up. */
export const peakStep = ({ warmup, total }) => Math.min(warmup, total) - 1;

/** The steps at which curves are drawn: even ones, the corner, and the step that is marked. */
export function stepsOf(state, step) {
  const last = state.total - 1;
  const even = Array.from({ length: POINTS + 1 }, (_, i) => Math.round((i / POINTS) * last));
  const extra = [step, peakStep(state), Math.min(last, state.warmup)];
  return [...new Set([...even, ...extra])].sort((a, b) => a - b);
}

/** A number of steps with its thousands apart; short for the axis: 75 k. */
const count = (value) => value.toLocaleString("en-GB").replaceAll(",", "\u202f");
const brief = (value) => (value < 10_000 ? count(value) : `${value / 1000} k`);

/** A rate in the manner of the code, 7.0e-4; with the sign that belongs to print. */
function short(rate, digits = 2) {
  if (rate === 0) return "0";
  return rate.toExponential(digits - 1).replace("-", "−");
}

/** What the reader would write to train so. */
function code(kind, { d_model: d, warmup, total, peak }) {
  const lr = kind === "paper" ? "1.0" : String(peak);
  const made = { paper: `paper_schedule(${d}, ${warmup})`, cosine: `cosine(${total}, ${warmup})`,
    constant: `warm_up(${warmup})` }[kind];
  return `train(model, stream, ${total}, lr=${lr}, schedule=${made})`;
}

/** In words: how the rate goes, and what is wrong with it. */
function reading(kind, state) {
  const { warmup, total } = state;
  if (warmup >= total) {
    const late = `✗ The warm-up of ${count(warmup)} steps fills the run of ${count(total)}: the rate`
      + " is still rising at the end.";
    return kind === "cosine" ? `${late} cosine() refuses these numbers.` : late;
  }
  const share = Math.round((100 * warmup) / total);
  const rise = warmup === 1 ? "No warm-up: the first step has the full rate."
    : `The rate rises for ${share < 1 ? "less than 1" : share} % of the run.`;
  const then = { paper: "Then it falls as 1 / √step; four times the step, half the rate.",
    cosine: "Then it falls along half a cosine, to 0 at the end.",
    constant: "Then it stays." }[kind];
  return `${rise} ${then}`;
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Learning-rate explorer",
      lead: "Three schedules over one run. Change the numbers, see where each peak is, and read "
        + "the rate of the chosen schedule at any step.",
    }, (w) => {
      w.state({ step: ui.integer(0, Math.max(...w.domain("total")) - 1) });
      const warmup = controls.slider(w, "warmup", { label: "Warm-up, steps",
        format: (value) => (value === 1 ? "none" : count(value)) });
      const total = controls.slider(w, "total", {
        label: "Steps in all", format: count });
      const width = controls.slider(w, "d_model", {
        label: "d_model, for the paper’s" });
      const peak = controls.slider(w, "peak", { label: "Peak, for the others",
        format: (value) => short(value, 1) });
      const kind = controls.choice(w, "schedule", {
        label: "Schedule", options: KINDS.map((key) => [key, NAMES[key]]) });
      const step = controls.slider(w, "step", {
        label: "Step, from 0", format: count });
      const toPeak = ui.button("Go to the peak", () => w.set({ step: peakStep(w.snapshot()) }));

      const figures = {};
      const figure = (key, label) => {
        figures[key] = { value: ui.h("span", { class: "lr-value" }), beside: ui.h("span", {}) };
        return ui.h("li", { class: "lr-figure" }, ui.h("span", { class: "bw-label", text: label }),
          figures[key].value, figures[key].beside);
      };
      const fill = (key, value, beside) => {
        figures[key].value.textContent = value;
        figures[key].beside.textContent = beside;
      };
      const readOuts = ui.h("ul", { class: "lr-figures" }, figure("chosen", "Rate at this step"),
        figure("peak", "Peak"), figure("first", "First step"), figure("last", "Last step"));
      const words = ui.h("p", { class: "lr-reading" });
      const line = ui.h("code", { class: "lr-code" });
      const lines = chart.lines({ title: "Learning rate by step", height: 260, points: false,
        x: { label: "step", min: 0, max: 1 }, y: { label: "learning rate", min: 0, max: 1 } });

      w.draw((state) => {
        const last = state.total - 1;
        const at = Math.min(state.step, last);
        step.limits(0, last);
        const places = stepsOf(state, at);
        const series = KINDS.map((name) => ({ name: NAMES[name],
          points: places.map((place) => [place, rateAt(name, state, place)]) }));
        const most = Math.max(...series.flatMap(({ points }) => points.map(([, rate]) => rate)));
        const power = Math.floor(Math.log10(most)); // the axis counts in 10^power
        const drawn = series.map(({ name, points }) => ({ name,
          points: points.map(([place, rate]) => [place, rate / 10 ** power]) }));
        const chosen = rateAt(state.schedule, state, at);
        const best = peakStep(state);
        const top = rateAt(state.schedule, state, best);
        const ends = [0, last].map((place) => rateAt(state.schedule, state, place));

        lines.update(drawn, {
          x: { label: "step", min: 0, max: last,
            ticks: [0, 0.25, 0.5, 0.75, 1].map((share) =>
              [share * last, brief(share * state.total)]) },
          y: { label: `Learning rate, in units of 1e${power}`.replace("-", "−"), min: 0,
            max: (most / 10 ** power) * 1.05 },
          description: KINDS.map((name) => `${NAMES[name]}: ${[0, best, at, last].map((place) =>
            `step ${place} ${short(rateAt(name, state, place), 3)}`).join(", ")}`).join(". "),
        });
        lines.mark(at);
        lines.element.dataset.chosen = KINDS.indexOf(state.schedule) + 1;
        fill("chosen", short(chosen, 3), `${Math.round((100 * chosen) / top)} % of the peak`);
        fill("peak", short(top, 3), `at step ${count(best)}`);
        fill("first", short(ends[0], 3), "step 0");
        fill("last", short(ends[1], 3), `step ${count(last)}`);
        words.textContent = reading(state.schedule, state);
        words.classList.toggle("lr-late", state.warmup >= state.total);
        line.textContent = code(state.schedule, state);
        w.say(`${NAMES[state.schedule]}: rate ${short(chosen, 3)} at step ${at}, peak `
          + `${short(top, 3)} at step ${best}`);
      });

      w.add(
        kind.element,
        ui.row(warmup.element, total.element),
        ui.row(width.element, peak.element),
        lines.element,
        ui.row(step.element, toPeak),
        readOuts,
        words,
        ui.h("div", { class: "bw-scroll lr-scroll" }, line),
      );
      w.foot();
    });
  },
};
