// A step of training on any number of GPUs: what it holds, what it sends, and how long it takes.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const GPUS_PER_MACHINE = 8;
const SHAPES = new Map([[65, [12, 512]], [213, [12, 1024]], [1000, [20, 2048]], [7000, [32, 4096]],
  [70000, [80, 8192]]]); // millions of parameters: layers, d_model
const STAGES = new Map([["DDP", 0], ["ZeRO 1", 1], ["ZeRO 2", 2], ["FSDP", 3]]);
const FORWARD = 2, BACKWARD = 4; // FLOPs of a parameter and token
const KEPT = 16; // numbers of d_model that a layer keeps of a token
const ROWS = [["tokens", "Tokens on each GPU"], ["needed", "Tokens that would hide the links"],
  ["held", "Parameters, gradients, Adam"], ["activations", "Activations of the layers"],
  ["sent", "Each GPU sends in a step"], ["compute", "Computing"],
  ["communication", "Communication"], ["exposed", "of it not hidden"], ["total", "A step"],
  ["efficiency", "Efficiency"]];

/** The step on `gpus` ranks: the formulas of measure.costs. */
export function plan(state, gpus = state.gpus) {
  const parameters = 1e6 * state.parameters;
  const [layers, dModel] = SHAPES.get(state.parameters);
  const stage = STAGES.get(state.sharing);
  const each = state.mixed ? 2 : 4; // bytes of what is sent and of an activation
  const bandwidth = 1e9 * (gpus > GPUS_PER_MACHINE
    ? Math.min(state.inside, state.between) : state.inside);

  const tokens = 1000 * state.thousands / (state.growing ? 1 : gpus);
  const flops = { forward: FORWARD, backward: BACKWARD + (state.recompute ? FORWARD : 0) };
  const computing = (of) => of * parameters * tokens / (state.speed * 1e12);
  const compute = computing(flops.forward + flops.backward);

  // How often the ring is passed: DDP all-reduces gradients; ZeRO 1 and 2 scatter their sum and
  // gather the new parameters; FSDP gathers the parameters in both passes
  const passes = { forward: stage > 0 ? 1 : 0, backward: stage === 1 || stage === 2 ? 1 : 2 };
  const ring = (gpus - 1) / gpus * each * parameters; // bytes of one pass
  const busy = (count) => count * (ring / bandwidth + (gpus - 1) * state.latency * 1e-6);
  let exposed = 0, needed = 0;
  for (const name of ["forward", "backward"]) {
    // With recomputing, the layers' second forward pass is part of the backward pass
    const hides = state.overlap ? computing(flops[name]) : 0;
    exposed += Math.max(busy(passes[name]) - hides, 0);
    needed = Math.max(needed,
      passes[name] * each * state.speed * 1e12 / (bandwidth * flops[name]));
  }
  const [own, gradients, adam] = state.mixed ? [2, 2, 12] : [4, 4, 8];
  const part = (first) => (stage >= first ? gpus : 1);
  const total = compute + exposed;
  return {
    tokens,
    needed,
    held: parameters * (own / part(3) + gradients / part(2) + adam / part(1)),
    activations: tokens * dModel * (state.recompute ? layers + KEPT : KEPT * layers) * each,
    sent: (passes.forward + passes.backward) * ring,
    compute,
    communication: busy(passes.forward + passes.backward),
    exposed,
    total,
    efficiency: compute / total,
  };
}

/** Three digits and a unit. */
function brief(value, units) {
  const found = units.find(([size]) => value >= size) ?? units.at(-1);
  return `${Number((value / found[0]).toPrecision(3))}\u202f${found[1]}`;
}
const bytes = (value) => brief(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"]]);
const seconds = (value) => brief(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
const percent = (value) => `${Math.round(100 * value)}\u202f%`;
const whole = (value) => Math.round(value).toLocaleString("en");
const parameters = (millions) => (millions < 1000 ? `${millions}\u202fM` : `${millions / 1000}\u202fB`);
const tokens = (thousands) => (thousands < 1000 ? `${thousands}k` : `${thousands / 1000}M`);
export const shown = (step) => ({ tokens: whole(step.tokens), needed: whole(step.needed),
  held: bytes(step.held), activations: bytes(step.activations), sent: bytes(step.sent),
  compute: seconds(step.compute), communication: seconds(step.communication),
  exposed: seconds(step.exposed), total: seconds(step.total), efficiency: percent(step.efficiency) });

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Plan a run",
      lead: "Choose a model, its tokens, the links and a number of GPUs, eight in each machine. The "
        + "curve shows the fraction of a step in which a GPU computes.",
    }, (w) => {
      w.state();
      const slider = (key, label, format) => controls.slider(w, key, { label, format }).element;
      const toggle = (key, label) => controls.toggle(w, key, { label }).element;
      const speed = (value) => `${value}\u202fGB/s`;
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
        ui.row(slider("gpus", "GPUs"), slider("parameters", "Parameters", parameters)),
        ui.row(slider("thousands", "Tokens", tokens),
          slider("speed", "A GPU computes", (value) => `${value}\u202fTFLOP/s`)),
        ui.row(slider("inside", "Link inside a machine", speed),
          slider("between", "Link between machines", speed)),
        ui.row(slider("latency", "Latency", (value) => `${value}\u202fµs`),
          controls.choice(w, "sharing", { label: "Sharding",
            options: [...STAGES.keys()].map((name) => [name, name]) }).element),
        ui.row(toggle("growing", "Each GPU gets this many tokens"),
          toggle("overlap", "Send while computing"),
          toggle("recompute", "Recompute activations"), toggle("mixed", "bfloat16")),
        lines.element,
        table,
      );
      w.foot();
    });
  },
};
