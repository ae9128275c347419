// Steps through the tokens that a decoder wrote: where it looked, and among what it chose.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as ui from "../../widgets/js/ui.js";

const PACE = 900; // milliseconds for a token while playing

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Alignment player",
      lead: "Step through a translation. For each token that it writes, the decoder looks at the "
        + "source anew: the stronger a source token's colour, the more weight it has.",
    }, (w) => {
      const sentences = w.data("sentences");
      const longest = Math.max(...sentences.map(({ output }) => output.length));
      w.state({
        sentence: ui.integer(0, sentences.length - 1),
        step: ui.integer(0, longest - 1),
      });
      // A step past the end of a shorter sentence is its last token.
      const now = () => {
        const one = sentences[w.get("sentence")];
        return { one, step: Math.min(w.get("step"), one.output.length - 1) };
      };
      const percent = (value) =>
        (value > 0 && value < 0.005 ? "< 1 %" : `${Math.round(100 * value)} %`);
      const word = (text, ...more) => ui.h("span", { class: "bw-word", text }, ...more);

      // Controls
      const select = controls.select(w, "sentence", {
        label: "Sentence",
        options: sentences.map(({ source }, i) =>
          [i, source.filter((token) => !/^<.*>$/.test(token)).join(" ")]),
      });
      select.input.addEventListener("change", () => { stop(); w.set({ step: 0 }); });
      const slider = controls.slider(w, "step", {
        label: "Token",
        format: (step) => `${step + 1} of ${now().one.output.length}`,
      });
      let timer = null;
      const play = ui.button("Play", () => (timer ? stop() : start()), { primary: true });
      const back = ui.button("Previous", () => { stop(); go(now().step - 1); });
      const next = ui.button("Next", () => { stop(); go(now().step + 1); });
      const go = (step) => w.set({ step });
      function stop() {
        clearInterval(timer);
        timer = null;
        play.textContent = "Play";
      }
      function start() {
        if (now().step === now().one.output.length - 1) go(0);
        play.textContent = "Pause";
        timer = setInterval(() => {
          go(now().step + 1);
          if (now().step >= now().one.output.length - 1) stop();
        }, PACE);
      }
      slider.input.addEventListener("input", stop);
      w.onClose(stop);

      // What is shown
      const source = ui.h("ol", { class: "bw-words ap-source" });
      const output = ui.h("ol", { class: "bw-words ap-output" });
      const verdict = ui.h("p", { class: "ap-verdict" });
      const reading = ui.h("p", { class: "ap-reading" });
      const bars = chart.bars({ label: "Candidates for this token", format: percent });
      const map = chart.heatMap({
        caption: "Weights of every output token over the source tokens",
        rowTitle: "output tokens (queries)", columnTitle: "source tokens (keys)",
        onPick: (row) => { stop(); go(row); },
      });

      let shown = null;
      w.draw(() => {
        const { one, step } = now();
        const weights = one.weights[step];
        const written = one.output[step];
        slider.limits(0, one.output.length - 1);
        back.disabled = step === 0;
        next.disabled = step === one.output.length - 1;

        source.replaceChildren(...one.source.map((text, i) => chart.shade(
          ui.h("li", { class: "bw-shaded ap-key" },
            ui.h("span", { class: "ap-token", text }),
            ui.h("span", { class: "ap-weight" },
              weights[i] < 0.005 ? ui.hidden(percent(weights[i])) : percent(weights[i]))),
          weights[i])));
        output.replaceChildren(...one.output.map((text, i) => ui.h("li", {
          class: `bw-word ${i < step ? "" : i === step ? "ap-now" : "ap-later"}`,
          "aria-current": i === step && "step",
          "aria-hidden": i > step && "true",
        }, i > step ? "·" : text)));
        const right = one.output.join(" ") === one.reference.join(" ");
        verdict.textContent = right ? "✓ The whole output equals the reference."
          : `✗ The reference reads: ${one.reference.join(" ")}`;
        const best = math.argmax(weights);
        reading.replaceChildren("To write ", word(written), " the decoder looks most at ",
          word(one.source[best]), ` (${percent(weights[best])} of the weight).`);
        bars.update(one.candidates[step].map(([name, value]) => ({
          name, value, current: name === written, note: name === written && "chosen" })));
        if (shown !== one) map.update(one.weights, { rows: one.output, columns: one.source });
        shown = one;
        map.outline(step);
        w.say(`Token ${step + 1}, ${written}: looks most at ${one.source[best]}, `
          + `${percent(weights[best])}`);
      });

      w.add(
        select.element,
        ui.row(ui.h("div", { class: "bw-buttons" }, back, play, next), slider.element),
        ui.h("div", { class: "ap-stage" },
          ui.part("Source, shaded by weight", source),
          ui.part("Output so far", output)),
        ui.h("div", { class: "bw-columns ap-columns" },
          ui.part("The decoder chose among", bars.element, reading, verdict),
          ui.part("All tokens of this sentence", map.element)),
      );
      w.foot();
    });
  },
};
