// Which of a laboratory's runs is looked at, and after which of its recorded steps.
import * as controls from "../widgets/js/controls.js";
import { freshId, h } from "../widgets/js/ui.js";
import * as labRuns from "./lab_runs.js";

/**
 * The run and the step that are looked at: chosen(run, place), of place null for the newest; told(probe)
 * says how a step does.
 */
export function pick(chosen, told) {
  let [known, shown] = [[], null];
  const select = h("select", { class: "bw-select", id: freshId(), change: () =>
    chosen(known.find(({ id }) => String(id) === select.value), null) });
  const when = h("span", { class: "bw-value", "aria-hidden": "true" });
  const slider = controls.steady(h("input", { type: "range", class: "bw-slider", min: 0, max: 0,
    id: freshId(), "aria-label": "Look back through the run",
    input: () => chosen(shown, slider.valueAsNumber) }));
  const label = (text, input, ...more) => h("div", { class: "bw-field-head" },
    h("label", { class: "bw-label", for: input.id, text }), more);
  let form = "";
  return {
    element: h("div", { class: "lab-pick" },
      h("div", { class: "bw-field" }, label("Look at", select), select),
      h("div", { class: "bw-field" }, label("Look back", slider, when), slider)),
    update(runs, run, place) {
      [known, shown] = [runs, run];
      const now = runs.map((one) => `${one.id} ${labRuns.nameOf(one)}`).join("|");
      if (now !== form) {
        form = now;
        select.replaceChildren(...runs.map((one) =>
          h("option", { value: one.id, text: labRuns.nameOf(one) })));
      }
      select.value = String(run.id);
      const last = run.probes.length - 1;
      Object.assign(slider, { max: Math.max(0, last), value: Math.max(0, place) });
      slider.style.setProperty("--filled", last > 0 ? place / last : 1);
      const probe = run.probes[place];
      const text = probe ? `step ${probe.step}: ${told(probe)}` : "no step yet";
      when.textContent = text;
      slider.setAttribute("aria-valuetext",
        probe ? `${labRuns.nameOf(run).replace("R", "r")}, ${text}` : text);
    },
  };
}
