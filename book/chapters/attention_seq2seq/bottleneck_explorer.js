// Two models over the length of the source: how often each is right, and what each writes.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

// Costs of an edit. In place of another token costs a trace more, so that of several ways with the
// fewest edits the one with the most right tokens wins.
const EDIT = 1000;
const SWAP = 1001;

/**
 * How an output differs from the reference, in the fewest edits: a list of { word, kind } in
 * reading order, with the kinds "right", "wrong" (in place of another token, or extra) and
 * "missing" (a token of the reference).
 */
export function compare(output, reference) {
  const [n, m] = [output.length, reference.length];
  const cost = Array.from({ length: n + 1 }, (_, i) =>
    Array.from({ length: m + 1 }, (__, j) => EDIT * (i === n ? m - j : j === m ? n - i : 0)));
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      cost[i][j] = Math.min(
        cost[i + 1][j + 1] + (output[i] === reference[j] ? 0 : SWAP),
        cost[i + 1][j] + EDIT,
        cost[i][j + 1] + EDIT,
      );
    }
  }
  const edits = [];
  for (let i = 0, j = 0; i < n || j < m;) {
    const same = i < n && j < m && output[i] === reference[j];
    if (i < n && j < m && cost[i][j] === cost[i + 1][j + 1] + (same ? 0 : SWAP)) {
      edits.push({ word: output[i], kind: same ? "right" : "wrong" });
      i += 1;
      j += 1;
    } else if (i < n && cost[i][j] === cost[i + 1][j] + EDIT) {
      edits.push({ word: output[i], kind: "wrong" });
      i += 1;
    } else {
      edits.push({ word: reference[j], kind: "missing" });
      j += 1;
    }
  }
  return edits;
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Bottleneck explorer",
      lead: "Both models were trained on the same sentences; they differ in what the decoder may see. "
        + "Lengthen the source and watch what is lost.",
    }, (w) => {
      const bins = w.data("bins");
      const names = w.data("names");
      const most = Math.max(...bins.map(({ examples }) => examples.length));
      w.state({ bin: ui.integer(0, bins.length - 1), example: ui.integer(0, most - 1) });
      const percent = (share) => `${Math.round(100 * share)} %`;
      const now = () => {
        const bin = bins[w.get("bin")];
        const at = w.get("example") % bin.examples.length;
        return { bin, at, example: bin.examples[at] };
      };

      const slider = controls.slider(w, "bin", {
        label: "Length of the source",
        format: (i) => `${bins[i].label} tokens`,
      });
      const curve = chart.lines({
        title: "Exactly right translations by length of the source",
        x: { label: "tokens in the source", min: 0, max: bins.length - 1,
          ticks: bins.map(({ label }, i) => [i, label.replace(" to ", "–")]) },
        y: { label: "Exactly right, of held-out sentences", min: 0, max: 1,
          ticks: [0, 0.25, 0.5, 0.75, 1].map((share) => [share, percent(share)]) },
        description: names.map((name, k) => `${name}: `
          + bins.map(({ label, accuracy }) => `${label} tokens ${percent(accuracy[k])}`).join(", "))
          .join(". "),
      });
      curve.update(names.map((name, k) => ({
        name, points: bins.map(({ accuracy }, i) => [i, accuracy[k]]) })));

      const source = ui.h("p", { class: "be-sentence" });
      const reference = ui.h("p", { class: "be-sentence" });
      const another = ui.button("Another sentence", () =>
        w.set({ example: (now().at + 1) % now().bin.examples.length }));
      const count = ui.h("span", { class: "be-count" });
      const cards = names.map((name, k) => {
        const share = ui.h("p", { class: "be-share" });
        const verdict = ui.h("p", { class: "be-verdict" });
        const words = ui.h("p", { class: "bw-words be-words" });
        const element = ui.h("div", { class: "be-card", role: "group", "aria-label": name },
          ui.h("p", { class: "be-name" }, chart.swatch(k), name), share, words, verdict);
        return { element, share, verdict, words };
      });

      function edit({ word, kind }) {
        const marks = { wrong: "wrong: ", missing: "missing: " };
        return ui.h("span", { class: `bw-word be-${kind}` },
          marks[kind] && ui.hidden(marks[kind]), ui.h("span", { text: word }), " ");
      }

      w.draw(() => {
        const { bin, at, example } = now();
        curve.mark(w.get("bin"));
        source.textContent = example.source.join(" ");
        reference.textContent = example.reference.join(" ");
        count.textContent = `${at + 1} of ${bin.examples.length}`;
        another.disabled = bin.examples.length === 1;
        cards.forEach(({ share, verdict, words }, k) => {
          const edits = compare(example.outputs[k], example.reference);
          const of = (kind) => edits.filter((e) => e.kind === kind).length;
          share.replaceChildren(ui.h("strong", { text: percent(bin.accuracy[k]) }),
            ` of ${bin.count} such sentences exactly right`);
          words.replaceChildren(...edits.map(edit));
          const faults = [of("wrong") && `${of("wrong")} wrong`,
            of("missing") && `${of("missing")} missing`].filter(Boolean);
          verdict.textContent = faults.length ? `✗ ${faults.join(", ")}` : "✓ exactly right";
          verdict.classList.toggle("be-failed", faults.length > 0);
        });
        w.say(`${bin.label} tokens: ${names.map((name, k) =>
          `${name} ${percent(bin.accuracy[k])}`).join(", ")}`);
      });

      w.add(
        slider.element,
        curve.element,
        ui.h("div", { class: "be-example" },
          ui.h("div", { class: "be-texts" },
            ui.part("Source", source), ui.part("Reference", reference)),
          ui.h("div", { class: "be-next" }, another, count)),
        ui.h("div", { class: "bw-columns be-cards" }, cards.map(({ element }) => element)),
        ui.h("p", { class: "be-key" },
          ui.h("span", {}, edit({ word: "token", kind: "wrong" }), "wrong or extra"),
          ui.h("span", {}, edit({ word: "token", kind: "missing" }), "left out")),
      );
      w.foot();
    });
  },
};
