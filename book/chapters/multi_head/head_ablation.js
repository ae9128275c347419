// Heads of a trained translator as switches; what it translates, and how often rightly, without.
import * as chart from "../../widgets/js/chart.js";
import * as composer from "../../widgets/js/composer.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";
import * as ablation from "./ablation.js";

const END = "<eos>";
const MOST = 26; // rows or columns of a map as a table

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Head ablation",
      lead: "Switch heads of the trained translator off. The page translates without them, with the "
        + "model itself, and counts how many held-out sentences it still gets right.",
    }, (w) => {
      const [engine, layers, nHeads, means, recorded] = ["engine", "layers", "n_heads", "means",
        "recorded"].map((name) => w.data(name));
      const pairs = w.data("sentences").map((pair) => pair.map((text) => text.split(" ")));
      const count = pairs.length; // the reader's own sentence has the next number
      const heads = layers.flatMap(({ code }) =>
        Array.from({ length: nHeads }, (_, h) => `${code}.${h + 1}`));
      const layerOf = (head) => layers.find(({ code }) => head.startsWith(`${code}.`));
      const nameOf = (head) => {
        const { kind, number } = layerOf(head);
        return `${kind}, layer ${number}, head ${head.split(".")[1]}`;
      };
      w.state({
        off: ui.readable((text) => ablation.parse(text, heads)),
        sentence: ui.integer(0, count),
        own: ui.text(composer.LONGEST),
      });
      const percent = (share) => `${Math.round(100 * share)} %`;
      const tenths = (share) => `${(100 * share).toFixed(1)} %`;
      const heading = (n) => (n === 0 ? "All heads on" : n === 1 ? "1 head off" : `${n} heads off`);
      const write = (off) => heads.filter((head) => off.has(head)).join("_");
      const offNow = () => ablation.parse(w.get("off"), heads);

      // What was computed: for a set of heads and a mode the scores of all sentences
      const scores = new Map();
      const keyOf = (off, mode) => (off ? `${mode}:${off}` : "");
      const scored = (off, mode) => scores.get(keyOf(off, mode)) ?? [];
      const totalOf = (off, mode) => {
        const found = scored(off, mode);
        return found.length === count ? ablation.total(found) : null;
      };
      const editOf = (off, mode) => ablation.editor(ablation.parse(off, heads), layers, nHeads,
        mode === "mean" ? means : null);
      const own = composer.own(w, { engine, number: count,
        work: (net, words) => ({ words, said: translated(net, words, w.get("off")) }) });
      const translated = (net, words, off) =>
        ablation.translate(net, words, engine.max_length, editOf(off, w.get("mode")));

      // The work: first the sentences under what is switched, then without, then each head alone
      let sweeping = false;
      let begun = null; // the sentence at work: the key of its heads, and the pieces that are left
      function wanted() {
        const { off, mode } = w.snapshot();
        const jobs = [[off, mode], ["", mode], ...(sweeping ? heads.map((head) => [head, mode]) : [])];
        return jobs.find(([set, kind]) => scored(set, kind).length < count);
      }
      function nextWork() {
        const net = own.model();
        const job = net && wanted();
        if (!job) return null;
        const key = keyOf(...job);
        if (!scores.has(key)) scores.set(key, []);
        const found = scores.get(key);
        if (begun?.key !== key) { // what was begun under other switches is dropped
          begun = { key, pieces: ablation.score(net, pairs[found.length], engine.max_length,
            editOf(...job)) };
        }
        return () => {
          const { done, value } = begun.pieces.next();
          if (!done) return;
          found.push(value);
          begun = null;
        };
      }
      const worker = ablation.worker(nextWork, (done) => {
        if (done && sweeping) {
          sweeping = false;
          announceSweep();
        }
        w.redraw();
      });
      w.onClose(() => worker.stop());

      // Controls
      const mode = controls.choice(w, "mode", {
        label: "Ablation: what a head that is off outputs",
        options: [["zero", "zero"], ["mean", "its mean"]],
      });
      let watched = ""; // of the heads that are off, the one whose map is shown
      function turn(codes, on) {
        const off = offNow();
        if (!on) [watched] = codes;
        for (const code of codes) {
          if (on) off.delete(code);
          else off.add(code);
        }
        w.set({ off: write(off) });
      }
      const switches = new Map(heads.map((head) => {
        const state = ui.h("span", { class: "ha-state", "aria-hidden": "true" });
        const alone = ui.h("span", { class: "ha-alone", "aria-hidden": "true" });
        const node = ui.h("button", { type: "button", role: "switch", class: "ha-head",
          "data-head": head, click: () => turn([head], offNow().has(head)) },
        ui.h("span", { class: "ha-name", "aria-hidden": "true", text: head.split(".")[1] }),
        state, alone);
        return [head, { node, state, alone }];
      }));
      const whole = new Map(layers.map((layer) => {
        const of = heads.filter((head) => layerOf(head) === layer);
        const node = ui.button("", () => turn(of, of.every((head) => offNow().has(head))),
          { quiet: true });
        return [layer, { node, of }];
      }));
      const rowOf = (layer) => ui.h("div", { class: "ha-layer", role: "group",
        "aria-label": `${layer.kind}, layer ${layer.number}` },
      ui.h("span", { class: "ha-number", text: `Layer ${layer.number}` }), whole.get(layer).node,
      whole.get(layer).of.map((head) => switches.get(head).node));
      const kinds = [...new Set(layers.map(({ kind }) => kind))];
      const board = ui.h("div", { class: "ha-board", "--heads": nHeads,
        keydown: walkHeads }, kinds.map((kind) =>
        ui.h("div", { class: "ha-kind" }, ui.h("p", { class: "ha-title", text: kind }),
          layers.filter((layer) => layer.kind === kind).map(rowOf))));
      /** The arrow keys lead from head to head, as the Tab key does too. */
      function walkHeads(event) {
        const at = heads.indexOf(event.target.dataset.head);
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -nHeads, ArrowDown: nHeads }[event.key];
        const head = at < 0 || !step ? undefined : heads[at + step];
        if (!head) return;
        event.preventDefault();
        switches.get(head).node.focus();
      }

      /** The head among those that are on whose loss alone cost most, or least, when recorded. */
      function ranked(sign) {
        const single = recorded[w.get("mode")].single;
        const on = heads.filter((head) => !offNow().has(head));
        return on.sort((a, b) => sign * (single[a] - single[b]))[0];
      }
      const allOn = ui.button("All on", () => w.set({ off: "" }));
      const most = ui.button("Most important head off", () => turn([ranked(1)], false));
      const least = ui.button("Least important head off", () => turn([ranked(-1)], false));
      const measure = ui.button("Measure every head alone", async () => {
        if (sweeping) sweeping = false;
        else if (await ready()) sweeping = true;
        w.redraw();
      });
      const problem = ui.h("p", { class: "bw-note bw-problem", "aria-live": "polite" });
      const start = ui.button(`Load the model (${own.size})`, () => ready(),
        { primary: true });
      const loader = ui.h("div", { class: "ha-load" },
        ui.h("p", { text: "The switches take effect once the model is here." }), start, problem);
      async function ready() {
        problem.textContent = "";
        return own.load((text) => { problem.textContent = `✗ ${text}.`; });
      }

      // A sentence
      const sentence = controls.select(w, "sentence", {
        label: "Sentence",
        options: pairs.map(([source], i) => [i, `${i + 1}. ${source.join(" ")}`]),
      });
      const ownOption = ui.h("option", { value: count });
      const lines = ui.h("dl", { class: "ha-lines" });
      /** A translation's tokens, those marked that differ from the right one. */
      const spelled = (compared) => compared.flatMap(([word, differs], i) => [i > 0 && " ", differs
        ? ui.h("mark", {}, ui.hidden("wrong: "), word) : word]);
      function line(name, words, right, same = "right") {
        const { tokens, missing } = right ? ablation.compare(words, right)
          : { tokens: words.map((word) => [word, false]), missing: [] };
        const wrong = tokens.filter(([, differs]) => differs).length;
        const note = [wrong && `${wrong} wrong`, missing.length && `${missing.length} missing`]
          .filter(Boolean).join(", ");
        return ui.h("div", { class: wrong || missing.length ? "ha-line ha-wrong" : "ha-line" },
          ui.h("dt", { class: "bw-label", text: name }),
          ui.h("dd", {}, spelled(tokens),
            note && ui.h("span", { class: "ha-note", text: ` ✗ ${note}` }),
            right && !note && ui.h("span", { class: "ha-right", text: ` ✓ ${same}` })));
      }
      const plain = (said) => (said.at(-1) === END ? said.slice(0, -1) : [...said, "…"]);
      /** The translation with all heads, and without those that are off. */
      function translations(state) {
        const net = own.model();
        const words = state.sentence < count ? pairs[state.sentence][0]
          : own.sentence(state)?.words;
        if (!net || !words) return null;
        const say = (off) => plain(translated(net, words, off));
        return { words, before: say(""), after: state.off ? say(state.off) : null };
      }

      // The map of a head that is off, as it attends while all are on
      const map = chart.heatMap({ caption: "Attention of the head that is off", most: MOST });
      const mapTitle = ui.h("p", { class: "bw-label" });
      const mapChoice = ui.h("select", { class: "bw-select", "aria-label": "Head whose map is shown",
        change() {
          watched = mapChoice.value;
          w.redraw();
        } });
      const mapPart = ui.h("div", { class: "ha-map", hidden: true }, mapTitle, mapChoice, map.element);
      function drawMap(words, off) {
        const all = heads.filter((head) => off.has(head));
        if (!off.has(watched)) watched = all.at(-1) ?? "";
        mapPart.hidden = !words || !own.model() || !watched;
        if (mapPart.hidden) return;
        mapTitle.textContent = `${nameOf(watched)}: what it attends to while all heads are on`;
        mapChoice.hidden = all.length === 1;
        mapChoice.replaceChildren(...all.map((head) =>
          ui.h("option", { value: head, text: nameOf(head) })));
        mapChoice.value = watched;
        const { rows, columns, weights } = ablation.attentionMap(own.model(), words,
          engine.max_length, layerOf(watched), Number(watched.split(".")[1]) - 1);
        map.update(weights, { rows, columns });
      }

      let shown = ""; // the state whose translations stand there
      let unheard = ""; // what is to be read out of them, once the accuracy is there too
      function drawSentence(state, n) {
        const key = JSON.stringify([state, watched, Boolean(own.model()), own.missing()]);
        if (state.own || state.sentence === count) {
          ownOption.textContent = `your own: ${state.own || "no translation"}`;
          sentence.input.append(ownOption);
        } else {
          ownOption.remove();
        }
        sentence.input.value = state.sentence;
        if (key === shown) return;
        shown = key;
        const found = translations(state);
        const source = found?.words ?? pairs[state.sentence]?.[0];
        drawMap(source, ablation.parse(state.off, heads));
        unheard = found ? `Translation: ${(found.after ?? found.before).join(" ")}.` : "";
        if (!source) {
          lines.replaceChildren(ui.h("div", { class: "ha-line" },
            ui.h("dd", { text: own.missing() ?? "" })));
          return;
        }
        const right = pairs[state.sentence]?.[1];
        const after = found?.after && line(heading(n), found.after, right ?? found.before,
          right ? "right" : "unchanged");
        lines.replaceChildren(line("Source", source),
          ...(found ? [line("All heads on", found.before, right), after] : []).filter(Boolean),
          ...(after?.matches(".ha-wrong") && right ? [line("Right", right)] : []));
      }

      // Accuracy
      const exact = chart.bars({ label: "Sentences translated exactly", format: percent });
      const tokens = chart.bars({ label: "Next word right", format: tenths });
      const progress = ui.h("p", { class: "bw-note ha-progress" });
      const failures = ui.h("ul", { class: "ha-failures" });
      const listTitle = ui.h("summary");
      const list = ui.h("details", { class: "ha-list", hidden: true }, listTitle, failures);
      let listed = null; // the scores whose failures stand in the list
      function drawFailures(found) {
        const wrong = found.flatMap((one, i) => (one.exact ? [] : [i]));
        list.hidden = found.length < count || !wrong.length;
        if (list.hidden || listed === found) return;
        listed = found;
        listTitle.textContent = `The ${wrong.length} wrong translation${wrong.length > 1 ? "s" : ""}`;
        failures.replaceChildren(...wrong.map((i) => ui.h("li", {},
          ui.button(`Sentence ${i + 1}`, () => w.set({ sentence: i }), { quiet: true }),
          ui.h("span", { class: "ha-source", text: pairs[i][0].join(" ") }),
          ui.h("span", {}, spelled(ablation.compare(plain(found[i].said), pairs[i][1]).tokens)))));
      }
      function drawAccuracy({ off, mode: kind }, n) {
        const sets = off ? ["", off] : [""];
        const rows = sets.map((set) => ({ name: set ? heading(n) : "all heads on",
          found: scored(set, kind), current: set === off }));
        const bars = (share, format) => rows.map(({ name, found, current }) => {
          const sum = ablation.total(found);
          return { name, current, value: found.length ? share(sum) : null, note: found.length < count
            ? `${found.length} of ${count} done` : format(sum) };
        });
        exact.update(bars((sum) => sum.exact / sum.sentences, (sum) => `${sum.exact} of ${count}`));
        tokens.update(bars((sum) => sum.tokens, () => ""));
        drawFailures(scored(off, kind));
        const alone = heads.filter((head) => totalOf(head, kind));
        progress.textContent = sweeping
          ? `Measuring each head alone: ${alone.length} of ${heads.length} done.`
          : alone.length ? "In the switches: the sentences still exact with that head alone off."
            : "";
      }

      function drawBoard({ mode: kind }, off) {
        for (const [head, { node, state, alone }] of switches) {
          const on = !off.has(head);
          const found = totalOf(head, kind);
          node.setAttribute("aria-checked", on);
          state.textContent = on ? "on" : "off";
          alone.hidden = !found;
          node.setAttribute("aria-label", nameOf(head)
            + (found ? `; with it alone off ${found.exact} of ${count} exact` : ""));
          node.title = node.getAttribute("aria-label");
          if (!found) continue;
          alone.textContent = percent(found.exact / count);
          chart.shade(alone, 1 - found.exact / count);
        }
        for (const [layer, { node, of }] of whole) {
          const none = of.every((head) => off.has(head));
          node.textContent = none ? "all on" : "all off";
          node.setAttribute("aria-label",
            `${layer.kind}, layer ${layer.number}: all heads ${none ? "on" : "off"}`);
        }
        allOn.disabled = !off.size;
        most.disabled = least.disabled = off.size === heads.length;
        measure.textContent = sweeping ? "Stop measuring" : "Measure every head alone";
      }

      function announceSweep() {
        const kind = w.get("mode");
        const [worst] = [...heads].sort((a, b) => totalOf(a, kind).exact - totalOf(b, kind).exact);
        w.say(`Every head measured. The most important: ${nameOf(worst)}. With it alone off `
          + `${totalOf(worst, kind).exact} of ${count} sentences are exact.`);
      }
      /** Reads the result out once it is complete. */
      function announce({ off, mode: kind }, n) {
        const [found, all] = [totalOf(off, kind), totalOf("", kind)];
        if (!unheard || !found || !all) return;
        w.say(`${heading(n)}: ${found.exact} of ${count} sentences exact, ${tenths(found.tokens)} `
          + `of the tokens right${n ? `; with all heads on ${all.exact}` : ""}. ${unheard}`);
        unheard = "";
      }

      const accuracy = ui.h("div", { class: "ha-accuracy" },
        ui.h("div", { class: "bw-columns" },
          ui.part(`Exact, of ${count} held-out sentences`, exact.element),
          ui.part("Next word right, given the correct words so far", tokens.element)),
        list, ui.h("div", { class: "bw-buttons ha-measure" }, measure, progress));
      const ownPart = ui.h("details", { class: "ha-own" },
        ui.h("summary", { text: "A sentence of your own" }), own.element);
      ownPart.open = Boolean(w.get("own"));

      w.onReset(() => { sweeping = false; });
      w.draw((state) => {
        const off = ablation.parse(state.off, heads);
        const net = own.model();
        drawBoard(state, off);
        drawSentence(state, off.size);
        loader.hidden = Boolean(net);
        accuracy.hidden = !net;
        if (!net) return;
        drawAccuracy(state, off.size);
        announce(state, off.size);
        if (wanted()) worker.wake();
      });
      w.add(
        mode.element,
        board,
        ui.h("div", { class: "bw-buttons" }, allOn, most, least),
        loader,
        ui.h("div", {}, sentence.element, ownPart, lines, mapPart),
        accuracy,
      );
      w.foot();
    });
  },
};
