// A block of the reader's choice: what each choice costs and saves at a published model's sizes.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const BYTES = 2; // of a number in the cache
const CHOICES = ["norm", "activation", "positions", "kv_heads", "bias", "window", "experts", "tied"];

/** What the formulas need: the sizes of the model, and what the choices make of them. */
export function configOf(state, models, sizes) {
  const model = models[state.model];
  const heads = { all: model.n_heads, groups: model.groups, one: 1 };
  return { ...model, ...state, kvHeads: heads[state.kv_heads], dk: model.d_model / model.n_heads,
    window: state.window ? sizes.window : Infinity, experts: state.experts ? sizes.experts : 0,
    active: state.experts ? sizes.active : 1 };
}

/** Parameters, those active for a token, bytes of cache, FLOPs per token: chapters.modern_block.costs. */
export function costs(c) {
  const { d_model: d, n_layers: layers } = c;
  const gated = c.activation === "swiglu";
  const projections = 2 * d * c.dk * (c.n_heads + c.kvHeads);
  const matrices = (gated ? 3 : 2) * d * c.d_ff;
  const attention = projections + (c.bias ? c.dk * (c.n_heads + 2 * c.kvHeads) + d : 0);
  const network = matrices + (c.bias ? (gated ? 2 : 1) * c.d_ff + d : 0);
  const rest = c.vocab * d * (c.tied ? 1 : 2) + (c.positions === "learned" ? c.max_length * d : 0)
    + layers * (attention + d * c.experts) + (2 * layers + 1) * d * (c.norm === "layer" ? 2 : 1);
  const keys = Math.min(c.context, c.window);
  return {
    parameters: rest + layers * (c.experts || 1) * network,
    active: rest + layers * c.active * network,
    cache: 2 * layers * c.kvHeads * c.dk * keys * BYTES,
    flops: 2 * layers * (projections + 2 * keys * c.n_heads * c.dk + c.active * matrices
      + d * c.experts) + 2 * c.vocab * d,
  };
}

/** A whole number, its thousands apart; and a short one: 6.74 billion, 512 MiB. */
const count = (value) => value.toLocaleString("en-GB").replaceAll(",", "\u202f");
function scaled(value, base, names) {
  const short = (power) => Number((value / base ** power).toPrecision(base === 1000 ? 3 : 4));
  let power = 0;
  while (power < names.length - 1 && short(power) >= base) power += 1;
  return `${count(short(power))}\u00a0${names[power]}`;
}
export const brief = (value) => (value < 1e6 ? count(value)
  : scaled(value / 1e6, 1000, ["million", "billion", "trillion"]));
export const bytes = (value) => scaled(value, 1024, ["bytes", "KiB", "MiB", "GiB", "TiB"]);

/** How much more or less a number has become: a factor from 2 on, else a percentage. */
export function ratio(before, after) {
  const times = Math.max(after / before, before / after);
  if (times >= 2) return `${after > before ? "×" : "÷"}\u00a0${count(Number(times.toPrecision(3)))}`;
  return `${after > before ? "+" : "−"}${Number(
    ((100 * Math.abs(after - before)) / before).toPrecision(2))}%`;
}

export const listed = (words) => (words.length < 2 ? words.join("")
  : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

/** What has become less, more, or stayed, from one block to another, as the end of a sentence. */
export function effect(before, after, subject) {
  const experts = before.active < before.parameters || after.active < after.parameters;
  /** @type {[string, string, (value: number) => string][]} */
  const measures = [
    ["parameters", "the parameters", (value) => `${brief(value)} parameters`],
    ...(experts ? [/** @type {[string, string, (value: number) => string]} */ (
      ["active", "the active parameters", (value) => `${brief(value)} active parameters`])] : []),
    ["cache", "the cache", (value) => `${bytes(value)} of cache`],
    ["flops", "the FLOPs", (value) => `${brief(value)} FLOPs per token`],
  ];
  const named = (sign) => measures.filter(([key]) => Math.sign(after[key] - before[key]) === sign)
    .map(([key, , text]) =>
      `${text(Math.abs(after[key] - before[key]))} (${ratio(before[key], after[key])})`);
  const [less, more] = [named(-1), named(1)];
  if (!less.length && !more.length) return `${subject} changes none of these figures.`;
  const clauses = [less.length && `saves ${listed(less)}`, more.length && `adds ${listed(more)}`];
  const same = measures.filter(([key]) => after[key] === before[key]).map(([, name]) => name);
  const stay = same.length && `; ${listed(same)} ${same.length > 1 || !same[0].endsWith("cache")
    ? "stay" : "stays"} the same`;
  return `${subject} ${clauses.filter(Boolean).join(", and ")}${stay || ""}.`;
}

/** What a choice means, in a sentence. */
function meaning(key, c) {
  const whole = count(c.n_heads);
  return {
    norm: { layer: "LayerNorm learns a scale and a bias for each entry",
      rms: "RMSNorm learns a scale for each entry and no bias" }[c.norm],
    activation: { relu: "With ReLU, a feed-forward network has two matrices",
      gelu: "With GELU, a feed-forward network has two matrices, as with ReLU",
      swiglu: "With SwiGLU, a feed-forward network has three matrices" }[c.activation],
    positions: { sinusoidal: "Sinusoidal positions have no parameters",
      learned: `Learned positions are one vector for each of ${count(c.max_length)} positions`,
      rotary: "Rotary positions have no parameters" }[c.positions],
    kv_heads: { all: `Each of the ${whole} query heads has its own keys and values`,
      groups: `${whole} query heads share ${c.kvHeads} heads of keys and values`,
      one: `All ${whole} query heads share one head of keys and values` }[c.kv_heads],
    bias: c.bias ? "Each matrix of attention and feed-forward has a bias beside it"
      : "No matrix of attention and feed-forward has a bias beside it",
    window: c.window < Infinity
      ? `A token attends to the last ${count(c.window)} positions at most`
      : "A token attends to all positions before it",
    experts: c.experts
      ? `Each block has ${c.experts} feed-forward networks, of which a token passes ${c.active}`
      : "Each block has one feed-forward network, which every token passes",
    tied: c.tied ? "The embedding is the output projection too"
      : "The output projection has a matrix of its own",
    context: `The context is ${count(c.context)} tokens`,
  }[key];
}

/** What the last change bought; of several at once, or none, what all choices buy since 2017. */
export function bought(before, now, paper, models, sizes) {
  const at = (state) => configOf(state, models, sizes);
  const keys = Object.keys(now).filter((key) => before[key] !== now[key]);
  if (keys.length === 1 && keys[0] !== "model") {
    return `${meaning(keys[0], at(now))}. ${effect(costs(at(before)), costs(at(now)), "This")}`;
  }
  if (CHOICES.every((key) => now[key] === paper[key])) {
    return `These are the choices of 2017 at the sizes of ${now.model}.`;
  }
  return effect(costs(at({ ...now, ...paper })), costs(at(now)),
    `At the sizes of ${now.model}, this block, compared with the choices of 2017,`);
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Block explorer",
      lead: "Take the sizes of a published model and change one choice at a time. The bars compare "
        + "your block with the choices of 2017 at the same sizes.",
    }, (w) => {
      const [models, paper, sizes] = [w.data("models"), w.data("paper"), w.data("sizes")];
      w.state();
      const published = () => w.set(models[w.get("model")].choices);
      const pick = controls.select(w, "model", { label: "Sizes of",
        options: Object.keys(models).map((name) => [name, name]) });
      pick.input.addEventListener("change", published); // another model comes with its choices
      const facts = ui.h("p", { class: "bw-note" });
      const norm = controls.choice(w, "norm", { label: "Norm",
        options: [["layer", "LayerNorm"], ["rms", "RMSNorm"]] });
      const activation = controls.choice(w, "activation", { label: "Feed-forward",
        options: [["relu", "ReLU"], ["gelu", "GELU"], ["swiglu", "SwiGLU"]] });
      const positions = controls.choice(w, "positions", { label: "Positions",
        options: [["sinusoidal", "Sinusoidal"], ["learned", "Learned"], ["rotary", "Rotary"]] });
      const heads = controls.choice(w, "kv_heads", { label: "Key-value heads",
        options: [["all", "All"], ["groups", "Groups"], ["one", "1"]] });
      const toggles = [
        ["bias", "Biases"],
        ["tied", "Tied embedding"],
        ["window", `Window of ${count(sizes.window)}`],
        ["experts", `${sizes.experts} experts, ${sizes.active} active`],
      ].map(([key, label]) => controls.toggle(w, key, { label }).element);
      const context = controls.slider(w, "context", { label: "Context, in tokens", format: count });
      const trouble = ui.h("p", { class: "bw-note bw-problem" });

      const figures = [
        { key: "parameters", label: "Parameters", format: brief, unit: "" },
        { key: "cache", label: "Key-value cache of one text, 16-bit numbers", format: bytes,
          unit: "\u00a0bytes" },
        { key: "flops", label: "FLOPs per token", format: brief, unit: "" },
      ].map(({ key, label, format, unit }) => {
        const whole = ui.h("span", { class: "bw-value" });
        const bars = chart.bars({ label, format });
        const element = ui.h("div", { class: "bw-part" },
          ui.h("div", { class: "bw-field-head" },
            ui.h("span", { class: "bw-label", text: label }), whole), bars.element);
        return { key, whole, unit, bars, element };
      });
      const sentence = ui.h("p", {});

      let [before, text] = [null, ""];
      const begin = () => {
        before = w.snapshot();
        text = bought(before, before, paper, models, sizes);
      };
      begin();
      w.onReset(begin);
      w.draw((state) => {
        const c = configOf(state, models, sizes);
        const [here, then] = [costs(c), costs(configOf({ ...state, ...paper }, models, sizes))];
        facts.textContent = `d_model ${count(c.d_model)}, ${c.n_layers} layers, ${c.n_heads} heads, `
          + `d_ff ${count(c.d_ff)}, ${count(c.vocab)} tokens in the vocabulary. Trained with a `
          + `context of ${count(c.max_length)}.`;
        const beyond = c.positions === "learned" && c.context > c.max_length;
        trouble.hidden = !beyond;
        trouble.textContent = beyond ? `✗ There are ${count(c.max_length)} learned positions, and `
          + "none for the rest of this context." : "";
        for (const { key, whole, unit, bars } of figures) {
          whole.textContent = `${count(here[key])}${unit}`;
          const active = key === "parameters" && c.experts > 0
            && [{ name: "active for a token", value: here.active, current: true }];
          bars.update([{ name: "this block", value: here[key], current: true }, ...(active || []),
            { name: "2017 choices", value: then[key] }], Math.max(here[key], then[key]));
        }
        if (Object.keys(state).some((key) => state[key] !== before[key])) {
          text = bought(before, state, paper, models, sizes);
          before = state;
        }
        sentence.textContent = text;
        w.say(text);
      });

      w.add(
        ui.h("div", {}, pick.element, facts),
        ui.h("div", { class: "bw-buttons" }, ui.button("As published", published),
          ui.button("As in 2017", () => w.set(paper))),
        ui.row(norm.element, activation.element),
        ui.row(positions.element, heads.element),
        ui.row(...toggles),
        ui.h("div", {}, context.element, trouble),
        ui.part("What it buys", sentence),
        ...figures.map(({ element }) => element),
      );
      w.foot();
    });
  },
};
