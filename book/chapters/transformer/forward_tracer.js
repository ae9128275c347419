// Walks through a forward pass: for each step its formula, shapes, maps, and what it does.
import * as chart from "../../widgets/js/chart.js";
import * as composer from "../../widgets/js/composer.js";
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";
import * as vocabulary from "../../widgets/js/vocabulary.js";
import * as arithmetic from "./arithmetic.js";
import * as tracing from "./tracing.js";

const SHORT = { embed: "embed", self: "self", cross: "cross", feed: "feed", norm: "norm",
  project: "project" };
const isAttention = (kind) => kind === "self" || kind === "cross";

/** Which of the usual variants the model is. */
export const variant = ({ pre_norm: preNorm, positions, tied }) =>
  `This model: ${preNorm ? "pre" : "post"}-norm, ${positions} positions, `
  + `${tied ? "a projection tied to the embedding" : "a projection of its own"}.`;

/** What a step computes, as a formula: x is its own stream, M the memory. */
export function formula({ kind, side }, preNorm, positions = "sinusoidal") {
  if (kind === "embed") {
    const isAdded = positions === "sinusoidal" || positions === "learned";
    return `E[token] √d_model${isAdded ? " + position" : ""}`;
  }
  if (kind === "norm") return side === "source" ? "M = LN(x)" : "LN(x)";
  if (kind === "project") return "softmax(x W)";
  const [open, close] = preNorm ? ["LN(", ")"] : ["", ""];
  const x = `${open}x${close}`;
  const masked = side === "source" ? "" : ", causal";
  const inside = { self: `Attention(Q, K, V from ${x}${masked})`,
    cross: `Attention(Q from ${x}, K, V from M)`, feed: `FFN(${x})` }[kind];
  return preNorm ? `x + ${inside}` : `LN(x + ${inside})`;
}

/** The tensors of a step with their shapes, for one sentence (no batch axis). */
function shapes({ kind, side }, sizes, { source, target }) {
  const { d_model: d, n_heads: h, d_ff: ff } = sizes;
  const time = side === "source" ? source : target;
  const keys = kind === "cross" ? source : time;
  const vocab = side === "source" ? sizes.source_vocab : sizes.target_vocab;
  const rows = {
    embed: [["tokens", [time]], ["matrix E", [vocab, d]]],
    self: [["x", [time, d]]],
    cross: [["x", [time, d]], ["memory M", [source, d]]],
    feed: [["x", [time, d]], ["inner layer", [time, ff]]],
    norm: [["x", [time, d]]],
    project: [["x", [time, d]]],
  }[kind];
  if (isAttention(kind)) {
    rows.push(["queries", [h, time, d / h]], ["keys, and values alike", [h, keys, d / h]],
      ["maps", [h, time, keys]]);
  }
  return [...rows, ["out", kind === "project" ? [time, vocab] : [time, d]]];
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Forward-pass tracer",
      lead: "Walk a sentence through a trained Transformer, step by step. See the shapes, the maps "
        + "of every head, and what the model would predict if it stopped there.",
    }, (w) => {
      const [sizes, stages, sentences, engine] = ["sizes", "stages", "sentences", "engine"]
        .map((name) => w.data(name));
      const first = stages.findIndex(({ side }) => side === "target");
      const count = sentences.length; // the reader's own sentence has the next number
      const longest = Math.max(engine.max_length ?? 0,
        ...sentences.flatMap((s) => [s.source.length, s.read.length]));
      w.state({
        sentence: ui.integer(0, engine.id ? count : count - 1),
        stage: ui.integer(0, stages.length - 1),
        head: ui.integer(0, sizes.n_heads - 1),
        position: ui.integer(0, longest - 1),
        own: ui.text(composer.LONGEST),
      });
      const options = { stages, longest: engine.max_length,
        k: sentences[0].guesses.at(-1)[0].length };
      /** How long the translation of a source of so many tokens may become. */
      const most = (tokens) => (engine.extra === undefined ? engine.max_length
        : Math.ceil(tokens / engine.round) * engine.round + engine.extra);
      const own = composer.own(w, { engine, number: count,
        work(net, words) {
          const numbers = net.encode(words);
          return tracing.trace(net, words, { ...options, numbers, longest: most(numbers.length) });
        } });
      const retraced = new Map();
      /** A stored sentence as the model in the page computes it, so that it has its vectors too. */
      function retrace(one) {
        const [net, source] = [own.model(), one.source.slice(0, -1)];
        if (!net || !source.every((text) => net.source.includes(text))) return one;
        if (!retraced.has(one)) {
          retraced.set(one, tracing.trace(net, source, { ...options, say: one.said,
            numbers: source.map((text) => net.source.indexOf(text)) }));
        }
        return retraced.get(one);
      }
      const now = () => {
        const number = w.get("sentence");
        const one = number < count ? retrace(sentences[number]) : own.sentence(w.snapshot());
        if (!one) return null; // the reader's own sentence is not there, or not yet
        const stage = stages[w.get("stage")];
        const tokens = stage.side === "source" ? one.source : one.read;
        // A position past the end of a shorter sentence is its last one.
        return { one, stage, tokens, at: Math.min(w.get("position"), tokens.length - 1) };
      };
      const percent = (share) => (share > 0 && share < 5 ? "< 1 %" : `${Math.round(share / 10)} %`);
      const word = (text) => ui.h("span", { class: "bw-word ft-word", text });

      // Controls
      const sentence = controls.select(w, "sentence", {
        label: "Sentence",
        options: sentences.map(({ source }, i) => [i, source.slice(0, -1).join(" ")]),
      });
      const ownOption = ui.h("option", { value: count });
      const step = controls.slider(w, "stage", {
        label: "Step",
        format: (at) => `${at + 1} of ${stages.length}`,
      });
      const back = ui.button("Previous", () => w.set({ stage: w.get("stage") - 1 }));
      const next = ui.button("Next", () => w.set({ stage: w.get("stage") + 1 }), { primary: true });
      const head = controls.choice(w, "head", {
        label: "Head",
        options: Array.from({ length: sizes.n_heads }, (_, i) => [i, String(i + 1)]),
      });
      const position = controls.slider(w, "position", {
        label: "Position",
        format: () => {
          const { tokens, at } = now() ?? { tokens: [""], at: 0 };
          return tokens[at];
        },
      });

      // What is shown
      const chips = stages.map(({ kind, title }, i) => ui.h("li", {
        class: `ft-chip ft-${kind}`, title, text: SHORT[kind], click: () => w.set({ stage: i }) }));
      const lane = (name, list) => ui.h("div", { class: "ft-lane" },
        ui.h("span", { class: "bw-label", text: name }),
        ui.h("ol", { class: "ft-chips", "aria-label": `Steps of the ${name.toLowerCase()}` }, list));
      const title = ui.h("p", { class: "ft-title" });
      const text = ui.h("p", { class: "ft-formula" });
      const table = ui.h("ul", { class: "ft-shapes", "aria-label": "Shapes" });
      let column = null; // the key of the chosen cell; its query is the position
      let picked = false; // just now
      const map = chart.heatMap({
        caption: "Weights of the chosen head", rowTitle: "queries", columnTitle: "keys",
        digits: 3,
        onPick(row, key) {
          [column, picked] = [key, true];
          w.set({ position: row });
          w.redraw();
        },
      });
      const behind = arithmetic.panel(own);
      w.onReset(() => { column = null; });
      const said = ui.h("p", { class: "ft-said" });
      /** What the model predicts, token by token, with its probability where that is below 90 %. */
      function writing(one) {
        const shares = one.guesses.at(-1).map((row) => row[0][1]);
        const tokens = one.said.flatMap((text, i) => [" ", ui.h("span",
          { class: text === "<eos>" ? "ft-token ft-end" : "ft-token", "--i": i, text },
          shares[i] < 900 && ui.h("small", { text: ` ${percent(shares[i])}` }))]);
        const written = vocabulary.joined(one.said);
        const inPieces = engine.lower !== undefined
          && written !== one.said.filter((text) => text !== "<eos>").join(" ");
        return [ui.h("span", { class: "bw-label", text: "The translation:" }), ...tokens,
          one.said.at(-1) !== "<eos>" && " … and no end yet",
          shares.some((share) => share < 900)
            && ui.h("span", { class: "ft-sure", text: " (how sure it is, where below 90 %)" }),
          inPieces && ui.h("span", { class: "ft-words", text: `In words: ${written}` }),
        ].filter(Boolean);
      }
      const reading = ui.h("p", { class: "ft-reading" });
      const maps = ui.part("The attention map of this head", head.element, map.element, reading,
        behind.element);
      let top = 1; // the longest vector of the sentence, so that steps can be compared
      const stream = chart.bars({ label: "Length of each position's vector", max: 1,
        format: (share) => (share * top).toFixed(1) });
      const lengths = ui.part("Length of each vector after this step (+ of what it adds)",
        stream.element);
      const guessed = chart.bars({ label: "Likeliest next tokens", max: 1000, format: percent });
      const asked = ui.h("p", { class: "ft-asked" });
      const guesses = ui.part("Next token", asked, guessed.element);

      const answer = ui.h("div", { class: "ft-answer" }); // all that is shown of a sentence
      let shown = [];
      function drawMap(state, { one, stage, tokens, at }) {
        maps.hidden = !isAttention(stage.kind);
        if (maps.hidden) return "";
        const keys = stage.kind === "cross" ? one.source : tokens;
        const weights = one.maps[stage.name][state.head];
        const causal = stage.kind === "self" && stage.side === "target";
        const drawn = [one, state.stage, state.head];
        if (drawn.some((value, i) => value !== shown[i])) {
          const shares = weights.map((row, i) =>
            row.map((v, j) => (causal && j > i ? null : v / 1000)));
          map.update(shares, { rows: tokens, columns: keys });
          shown = drawn;
        }
        const j = column === null ? null : Math.min(column, keys.length - 1);
        map.outline(at, j ?? undefined);
        const told = behind.show(engine.id ? { stage, config: own.model()?.config, queries: tokens, keys,
          vectors: one.vectors?.[stage.name], heads: sizes.n_heads, head: state.head, i: at, j,
          open: causal ? at + 1 : keys.length } : null);
        const best = math.argmax(weights[at]);
        reading.replaceChildren(word(tokens[at]), " looks most at ", word(keys[best]),
          ` (${percent(weights[at][best])} of the weight).`);
        return picked ? told : `head ${state.head + 1}, ${reading.textContent}`;
      }
      function drawGuesses({ one, stage, at }, number) {
        guesses.hidden = stage.side === "source";
        if (guesses.hidden) return "";
        const row = tracing.guessed(one, number - first, at);
        const said = one.said[at];
        asked.replaceChildren(stage.kind === "project" ? "After " : "If it stopped here, after ",
          word(one.read[at]), stage.kind === "project" ? " the model predicts:" : " it would predict:");
        guessed.update(row.map(([name, value]) => ({ name, value, current: name === said,
          note: name === said && "said in the end" })));
        return `${asked.textContent} ${row[0][0]}, ${percent(row[0][1])}`;
      }
      let written; // the sentence, or what stands in its place
      function drawSaid(one, state) {
        const text = one ?? own.missing();
        if (text !== written) {
          said.classList.toggle("ft-fresh", state.sentence === count);
          said.replaceChildren(...(one ? writing(one) : [text ?? ""]));
          written = text;
        }
        if (state.own || !one) {
          ownOption.textContent = `your own: ${state.own || "no translation"}`;
          sentence.input.append(ownOption);
        } else {
          ownOption.remove();
        }
        sentence.input.value = state.sentence;
        return own.news();
      }
      w.draw((state) => {
        const seen = now();
        const news = drawSaid(seen?.one, state);
        answer.hidden = !seen;
        if (!seen) {
          w.say(own.missing() ?? "");
          return;
        }
        const { one, stage, tokens, at } = seen;
        position.limits(0, tokens.length - 1);
        back.disabled = state.stage === 0;
        next.disabled = state.stage === stages.length - 1;
        chips.forEach((chip, i) => {
          if (i === state.stage) chip.setAttribute("aria-current", "step");
          else chip.removeAttribute("aria-current");
        });
        title.textContent = stage.title;
        text.textContent = formula(stage, sizes.pre_norm, sizes.positions);
        const times = { source: one.source.length, target: one.read.length };
        table.replaceChildren(...shapes(stage, sizes, times).map(([name, shape]) => ui.h("li", {},
          `${name} `, ui.h("span", { class: "ft-shape", text: `(${shape.join(", ")})` }))));
        const changes = one.changes[state.stage];
        lengths.hidden = stage.kind === "project";
        top = Math.max(...one.lengths.flatMap((row, i) => (stages[i].kind === "project" ? [] : row)));
        stream.update(lengths.hidden ? [] : one.lengths[state.stage].map((value, i) => ({
          name: tokens[i], value: value / top, current: i === at,
          note: changes.length > 0 && `+ ${changes[i].toFixed(1)}` })));
        const [seenMap, guess] = [drawMap(state, seen), drawGuesses(seen, state.stage)];
        w.say(picked ? seenMap : `${news}${stage.title}. ${seenMap} ${guess}`);
        picked = false;
      });

      answer.append(
        ui.h("div", { class: "ft-lanes" },
          lane("Encoder", chips.slice(0, first)), lane("Decoder", chips.slice(first))),
        ui.row(ui.h("div", { class: "bw-buttons" }, back, next), step.element, position.element),
        ui.h("div", { class: "ft-step" }, title, text, table),
        maps,
        ui.h("div", { class: "bw-columns" }, lengths, guesses),
      );
      w.add(
        ui.h("p", { class: "ft-variant", text: variant(sizes) }),
        ...[own.element].filter(Boolean),
        ui.h("div", { class: "ft-sentence" }, sentence.element, said),
        answer,
      );
      w.foot();
    });
  },
};
