// Recorded runs of a translator: one curve among those that differ from it in one setting.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const MARKS = { "~": "wrong", "^": "missing" }; // before a word, as bottleneck_runs.py sets them
const AXES = {
  d_hidden: { name: "state dimension", list: "dimensions", text: (value) => `dimension ${value}` },
  steps: { name: "training steps", list: "counts", text: (value) => `${count(value)} steps` },
  lr: { name: "learning rate", list: "rates", text: (value) => `rate ${value}` },
};

/** A whole number, its thousands apart. */
const count = (value) => value.toLocaleString("en-GB");

/** The recorded run with these settings, or undefined. */
const find = (runs, wanted) => runs.find((run) =>
  ["d_hidden", "steps", "lr"].every((key) => run[key] === wanted[key]));

/** Per length, the least, the mean and the largest share over a run's seeds. */
function shares(run, lengths) {
  return lengths.map(({ count: all }, i) => {
    const found = run.right.map((row) => row[i] / all);
    const mean = found.reduce((sum, share) => sum + share, 0) / found.length;
    return { low: Math.min(...found), mean, high: Math.max(...found) };
  });
}

/** By the number of items in the list, the mean share of items that are wholly right. */
function itemShares(run, { count: all }) {
  return run.items[0].map((_, i) =>
    run.items.reduce((sum, row) => sum + row[i], 0) / run.items.length / all);
}

/** A stored translation as a list of { word, kind }; an empty text stands for the reference. */
function wordsOf(text, reference) {
  if (text === "") return reference.map((word) => ({ word, kind: "right" }));
  return text.split(" ").map((word) => {
    const kind = MARKS[word[0]];
    return kind ? { word: word.slice(1), kind } : { word, kind: "right" };
  });
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Bottleneck, run by run",
      lead: "Each curve is one recorded setting, averaged over its seeds. Change it, and see up to "
        + "which length of the source it translates.",
    }, (w) => {
      const [lengths, sentences, runs, items] = ["lengths", "sentences", "runs", "items"]
        .map((key) => w.data(key));
      const most = Math.max(...sentences.map((pairs) => pairs.length));
      w.state({ length: ui.integer(0, lengths.length - 1), example: ui.integer(0, most - 1) });
      const percent = (share) => `${Math.round(100 * share)} %`;

      const dimension = controls.slider(w, "d_hidden", { label: "State dimension" });
      const steps = controls.slider(w, "steps", { label: "Training steps", format: count });
      const rate = controls.slider(w, "lr", { label: "Learning rate" });
      const along = controls.choice(w, "along", { label: "Pale curves: other values of",
        options: Object.entries(AXES).map(([key, { name }]) => [key, name]) });
      const length = controls.slider(w, "length", { label: "Length of the source",
        format: (i) => `${lengths[i].label} tokens` });

      const curve = chart.lines({
        title: "Sentences translated exactly, by length of the source",
        x: { label: "tokens in the source, up to", min: 0, max: lengths.length - 1,
          ticks: lengths.map(({ label }, i) => [i, label.split(" to ")[1]]) },
        y: { label: "Translated exactly; a thick stroke spans the seeds", min: 0, max: 1,
          ticks: [0, 0.25, 0.5, 0.75, 1].map((share) => [share, percent(share)]) },
      });
      const beyond = lengths.findIndex(({ trained }) => !trained);
      const edge = beyond < 0 ? null : { x: beyond - 0.5, text: "longer than in training" };
      const bars = chart.bars({ label: "The same length in the runs compared", format: percent });
      const barsTitle = ui.h("p", { class: "bw-label" });
      const itemsTitle = `The same ${items.count} items, each first in a list`;
      const itemBars = chart.bars({ label: itemsTitle, format: percent });
      const absent = ui.h("p", { class: "br-absent", hidden: true });

      const source = ui.h("p", { class: "br-sentence" });
      const reference = ui.h("p", { class: "br-sentence" });
      const words = ui.h("p", { class: "bw-words br-words" });
      const verdict = ui.h("p", { class: "br-verdict" });
      const number = ui.h("span", { class: "br-count" });
      const another = ui.button("Another sentence", () => {
        const { length: at, example } = w.snapshot();
        w.set({ example: (example + 1) % sentences[at].length });
      });

      function edit({ word, kind }) {
        const said = { wrong: "wrong: ", missing: "missing: " }[kind];
        return ui.h("span", { class: `bw-word br-${kind}` },
          said && ui.hidden(said), ui.h("span", { text: word }), " ");
      }

      function drawExample(state, run) {
        const pairs = sentences[state.length];
        const at = state.example % pairs.length;
        const [read, wanted] = pairs[at];
        source.textContent = read.join(" ");
        reference.textContent = wanted.join(" ");
        number.textContent = `${at + 1} of ${pairs.length}`;
        another.disabled = pairs.length === 1;
        const written = run?.written[state.length];
        const edits = written ? wordsOf(written[at], wanted) : [];
        const of = (kind) => edits.filter((e) => e.kind === kind).length;
        const faults = [of("wrong") && `${of("wrong")} wrong`,
          of("missing") && `${of("missing")} missing`].filter(Boolean);
        words.replaceChildren(...edits.map(edit));
        verdict.textContent = !written ? "Its translations are not recorded."
          : faults.length ? `✗ ${faults.join(", ")}` : "✓ exactly right";
        verdict.classList.toggle("br-failed", !written || faults.length > 0);
      }

      w.draw((state) => {
        const run = find(runs, state);
        const { name, list, text } = AXES[state.along];
        const family = w.data(list).map((value) => ({ value,
          run: find(runs, { ...state, [state.along]: value }) })).filter((one) => one.run);
        const others = family.filter(({ value }) => value !== state[state.along]);
        const line = (one) => shares(one, lengths).map(({ mean }, i) => [i, mean]);
        const label = Object.entries(AXES).map(([key, axis]) => axis.text(state[key])).join(", ");
        const found = run ? shares(run, lengths) : [];
        curve.update(run ? [{ name: label, points: line(run),
          spread: run.right.length > 1 ? found.map(({ low, high }, i) => [i, low, high]) : [] }] : [], {
          pale: others.map((one) => line(one.run)),
          edge,
          description: family.map(({ value, run: one }) => `${text(value)}: ${
            line(one).map(([i, mean]) => `${lengths[i].label} tokens ${percent(mean)}`).join(", ")}`)
            .join(". "),
        });
        curve.mark(state.length);
        const here = lengths[state.length];
        barsTitle.textContent = `At ${here.label} tokens, by ${name}`;
        bars.update(family.map(({ value, run: one }) => {
          const { low, mean, high } = shares(one, lengths)[state.length];
          const seeds = one.right.length;
          return { name: text(value), value: mean, current: value === state[state.along],
            note: seeds > 1 ? `${seeds} seeds: ${Math.round(100 * low)}–${percent(high)}` : "" };
        }));
        itemBars.update(!run ? [] : itemShares(run, items).map((value, i) => ({
          name: i === 0 ? "alone" : `of ${i + 1}`, value,
          note: i + 1 > items.trained ? "not in training" : "" })));
        absent.hidden = Boolean(run);
        absent.textContent = run ? ""
          : `No run is recorded for ${label}. Choose other steps or another rate.`;
        drawExample(state, run);
        w.say(run ? `${label}: ${percent(found[state.length].mean)} at ${here.label} tokens`
          : absent.textContent);
      });

      w.add(
        ui.row(dimension.element, steps.element, rate.element),
        curve.element,
        absent,
        ui.row(length.element, along.element),
        ui.h("div", { class: "bw-columns" },
          ui.h("div", { class: "br-bars" },
            ui.h("div", { class: "bw-part" }, barsTitle, bars.element),
            ui.part(itemsTitle, itemBars.element,
              ui.h("p", { class: "br-note", text: "Wholly right, when the decoder is fed the right "
                + "words before." }))),
          ui.h("div", { class: "br-example" },
            ui.part("Source", source), ui.part("Reference", reference),
            ui.part("What this run wrote, on its first seed", words, verdict),
            ui.h("div", { class: "br-next" }, another, number))),
        ui.h("p", { class: "br-key" },
          ui.h("span", {}, edit({ word: "token", kind: "wrong" }), "wrong or extra"),
          ui.h("span", {}, edit({ word: "token", kind: "missing" }), "left out")),
      );
      w.foot();
    });
  },
};
