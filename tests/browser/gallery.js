// Every shared part once: what the widgets of the book are made of, for the tests and for the eye.
import * as chart from "../../book/widgets/js/chart.js";
import * as controls from "../../book/widgets/js/controls.js";
import * as math from "../../book/widgets/js/math.js";
import * as ui from "../../book/widgets/js/ui.js";

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: "Gallery", lead: "Every shared part once." }, (w) => {
      w.state({
        size: ui.integer(1, 8),
        kind: ui.oneOf("plain", "causal"),
        numbers: ui.oneOf(false, true),
        row: ui.text(80),
      });
      const size = controls.slider(w, "size", { label: "Size" });
      const kind = controls.choice(w, "kind", {
        label: "Mask", options: [["plain", "None"], ["causal", "Causal"]] });
      const pick = controls.select(w, "kind", {
        label: "Mask again", options: [["plain", "None"], ["causal", "Causal"]] });
      const numbers = controls.toggle(w, "numbers", { label: "Second line" });
      const row = controls.text(w, "row", {
        label: "Scores", hint: "Numbers with commas between them.",
        parse(text) {
          const bad = text.split(",").find((part) => !part.trim() || !Number.isFinite(+part));
          if (bad !== undefined) throw new Error(`expected numbers, got "${bad.trim()}"`);
          return text;
        },
      });
      const map = chart.heatMap({ caption: "Weights", numbers: true });
      const bars = chart.bars({ label: "Weights of the scores" });
      const lines = chart.lines({
        title: "Sine and cosine", x: { label: "position", min: 0, max: 50 },
        y: { label: "value", min: -1, max: 1 } });
      const sum = ui.h("p", { class: "sum" });
      w.draw((state) => {
        if (state.size === 7) throw new Error("seven is not to be drawn");
        const n = state.size;
        const names = Array.from({ length: n }, (_, i) => `t${i}`);
        map.update(
          names.map((_, i) => math.softmax(names.map((__, j) => i - j),
            names.map((__, j) => state.kind === "plain" || j <= i))
            .map((value, j) => (state.kind === "plain" || j <= i ? value : null))),
          { rows: names, columns: names });
        map.outline(n - 1, 0);
        const weights = math.softmax(state.row.split(",").map(Number));
        bars.update(weights.map((value, i) => ({ name: `key ${i}`, value, current: i === 0 })));
        sum.textContent = String(weights.length);
        const waves = [{ name: "sine", f: Math.sin }, { name: "cosine", f: Math.cos },
          { name: "half", f: (x) => Math.sin(x) / 2 }, { name: "flat", f: () => 0.25 }];
        lines.update(waves.slice(0, state.numbers ? 4 : 1).map(({ name, f }) => ({
          name, points: Array.from({ length: 26 }, (_, i) => [2 * i, f(i / 4)]) })));
        lines.mark(2 * n);
      });
      w.add(ui.row(size.element, kind.element, pick.element), ui.row(row.element, numbers.element),
        ui.h("div", { class: "bw-columns" }, ui.part("Map", map.element),
          ui.part("Bars", bars.element, sum)),
        lines.element);
      w.foot();
    });
  },
};
