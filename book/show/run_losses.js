// The losses of one run or two, over their updates.
import * as chart from "../widgets/js/chart.js";
import * as controls from "../widgets/js/controls.js";
import * as ui from "../widgets/js/ui.js";

const count = (value) => value.toLocaleString("en-GB");
const bestOf = ({ best: [step, loss] }) => `loss ${loss.toFixed(3)} after update ${count(step)}`;

/** The lines of one run. */
const single = (run) => [
  { name: "training", points: run.training },
  { name: "validation", points: run.validation },
  { name: `the best: ${bestOf(run)}`, points: [run.best] },
];
/** The validation of several, each with its best. */
const together = (runs) => [
  ...runs.map((run) => ({ name: `${run.name}, validation`, points: run.validation })),
  ...runs.map((run) => ({ name: `${run.name}, the best: ${bestOf(run)}`, points: [run.best] })),
];

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Losses over the updates",
      lead: "The parameters with the lowest validation loss are kept. Training losses may stand "
        + "higher: dropout is on, and label smoothing counts.",
    }, (w) => {
      const runs = w.data("runs");
      const all = runs.length > 1 ? runs.length : 0; // the number of all together
      w.state({ shown: ui.integer(0, all) });
      const lines = chart.lines({ title: "Losses over the updates", height: 300,
        x: { label: "update", min: 0, max: 1 }, y: { label: "loss", min: 0, max: 1 } });
      if (all) {
        w.add(controls.choice(w, "shown", { label: "Run",
          options: [...runs.map(({ name }, i) => [i, name]), [all, "all"]] }).element);
      }
      w.draw(({ shown }) => {
        const one = all && shown === all ? null : runs[shown];
        const series = one ? single(one) : together(runs);
        const points = series.flatMap((line) => line.points);
        const losses = points.map(([, loss]) => loss);
        const described = one ? `${one.name}: ${bestOf(one)}.`
          : runs.map((run) => `${run.name}: ${bestOf(run)}.`).join(" ");
        lines.update(series, { description: described, at: one ? one.best[0] : null,
          x: { label: "update", min: 0, max: Math.max(...points.map(([step]) => step)) },
          y: { label: "loss", min: 0, max: Math.max(...losses) } });
        w.say(described);
      });
      w.add(lines.element);
      w.foot();
    });
  },
};
