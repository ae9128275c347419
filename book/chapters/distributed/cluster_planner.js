// A step of training on any number of GPUs: what it holds, what it sends, and how long it takes.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const STATE_BYTES = 16; // of each parameter: itself, its gradient and Adam's two moments
const ROWS = [["held", "Each GPU holds"], ["sent", "Each GPU sends in a step"],
  ["compute", "Computing"], ["communication", "Communication"], ["exposed", "of it not hidden"],
  ["total", "A step"], ["efficiency", "Efficiency"]];

/** The step on `gpus` ranks: the formulas of chapters.distributed.communication. */
export function plan(state, gpus = state.gpus) {
  const { parameters, bandwidth, latency, overlap, fsdp } = state;
  const passes = fsdp ? 3 : 2; // round the ring
  const sent = passes * (gpus - 1) / gpus * 4 * parameters * 1e6;
  const compute = state.compute / 1000 / (state.same_batch ? gpus : 1);
  const communication = sent / (bandwidth * 1e9) + passes * (gpus - 1) * latency * 1e-6;
  const exposed = Math.max(communication - overlap / 100 * compute, 0);
  const total = compute + exposed;
  const held = STATE_BYTES * parameters * 1e6 / (fsdp ? gpus : 1);
  return { held, sent, compute, communication, exposed, total, efficiency: compute / total };
}

/** Three digits and a unit. */
function brief(value, units) {
  const found = units.find(([size]) => value >= size) ?? units.at(-1);
  return `${Number((value / found[0]).toPrecision(3))}\u202f${found[1]}`;
}
const bytes = (value) => brief(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"]]);
const seconds = (value) => brief(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
const percent = (value) => `${Math.round(100 * value)}\u202f%`;
export const shown = (step) => ({ held: bytes(step.held), sent: bytes(step.sent),
  compute: seconds(step.compute), communication: seconds(step.communication),
  exposed: seconds(step.exposed), total: seconds(step.total), efficiency: percent(step.efficiency) });

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Plan a run",
      lead: "Choose a model, a link and a number of GPUs. The curve shows the fraction of a step in "
        + "which a GPU computes.",
    }, (w) => {
      w.state();
      const slider = (key, label, format) => controls.slider(w, key, { label, format }).element;
      const lines = chart.lines({ title: "Efficiency by number of GPUs", height: 240,
        x: { label: "GPUs", min: 0, max: 1 }, y: { label: "efficiency", min: 0, max: 1 } });
      const body = ui.h("tbody", {});
      const table = ui.h("table", { class: "cp-table" },
        ui.h("caption", { class: "bw-hidden", text: "A step of this plan" }), body);

      w.draw((state) => {
        const curve = w.domain("gpus").map((n) => [Math.log2(n), plan(state, n).efficiency]);
        const ticks = curve.filter((_, i) => i % 2 === 0).map(([x]) => [x, String(2 ** x)]);
        const texts = shown(plan(state));
        lines.update([{ name: "efficiency", points: curve }], {
          x: { label: "GPUs", min: 0, max: curve.at(-1)[0], ticks },
          y: { label: "efficiency", min: 0, max: 1.05,
            ticks: [0, 0.25, 0.5, 0.75, 1].map((y) => [y, percent(y)]) },
          description: curve.map(([x, y]) => `${2 ** x} GPUs ${percent(y)}`).join(", "),
        });
        lines.mark(Math.log2(state.gpus));
        body.replaceChildren(...ROWS.map(([key, name]) => ui.h("tr", {},
          ui.h("th", { scope: "row", text: name }), ui.h("td", { text: texts[key] }))));
        w.say(`${state.gpus} GPUs: a step ${texts.total}, efficiency ${texts.efficiency}`);
      });

      w.add(
        ui.row(slider("gpus", "GPUs"),
          slider("parameters", "Parameters", (value) => `${value}\u202fM`)),
        ui.row(slider("compute", "One GPU computes the batch in",
          (value) => seconds(value / 1000)),
        slider("bandwidth", "Bandwidth", (value) => `${value}\u202fGB/s`)),
        ui.row(slider("latency", "Latency", (value) => `${value}\u202fµs`),
          slider("overlap", "Overlap", (value) => `${value}\u202f%`)),
        ui.row(controls.toggle(w, "same_batch", { label: "All GPUs divide one batch" }).element,
          controls.toggle(w, "fsdp", { label: "FSDP" }).element),
        lines.element,
        table,
      );
      w.foot();
    });
  },
};
