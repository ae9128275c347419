// The laboratory "Take a part out": the whole model, and beside it one without some of its parts.
import * as labCurves from "../../engine/lab_curves.js";
import * as labDraw from "../../engine/lab_draw.js";
import * as labMaps from "../../engine/lab_maps.js";
import * as labModels from "../../engine/lab_models.js";
import * as labResults from "../../engine/lab_results.js";
import * as labTake from "../../engine/lab_take.js";
import * as labWorker from "../../engine/lab_worker.js";
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const MOST = 10; // models that are kept
const MEASURE = "Numbers right";
const NEXT = "next words right after the right ones"; // as the task names it
const FIRST = "73691"; // the number that is written unless the reader asks for another
const MEAN = "mean";
const WHOLE = "the whole model";

const { alike, isOver } = labModels;
const { h } = ui;

/** Texts as a list in a sentence. */
const listed = (texts) => (texts.length < 2 ? texts.join("")
  : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`);

/** A list of [value, text] to choose from, which is no state of the widget. */
function select(label, change) {
  const input = h("select", { class: "bw-select", id: ui.freshId(), change });
  const element = h("div", { class: "bw-field" },
    h("div", { class: "bw-field-head" },
      h("label", { class: "bw-label", for: input.id, text: label })), input);
  let held = "";
  return { input, element, update(options) {
    const now = options.join("|");
    if (now === held) return;
    held = now;
    const before = input.value;
    input.replaceChildren(...options.map(([value, text]) => h("option", { value, text })));
    input.value = options.some(([value]) => value === before) ? before : options.at(-1)?.[0] ?? "";
  } };
}

/** The words of an answer; some models end at once. */
const wordsOf = ({ output }) => (output.length ? output : ["(no word)"]);

/** One head of a map as rows of numbers, or the mean of its heads. */
const rowsOf = (map, head) => (head === MEAN ? labMaps.meanOf(map)
  : labMaps.headOf(map, Math.min(Number(head), map.heads) - 1));

/** One of the two models: its figures, the reader's number as it writes it, and an attention map. */
function side(place) {
  const name = h("p", { class: "take-name" });
  const figures = h("p", { class: "take-figures" });
  const said = h("p", { class: "take-said" });
  const map = chart.heatMap({ caption: `Attention of the ${place ? "other" : "first"} model`,
    rowTitle: "each word or digit", columnTitle: "what it looks at", most: 16 });
  const none = h("p", { class: "bw-note" });
  const percent = labResults.percent;
  let drawn = "";
  return {
    element: h("div", { class: "take-side" }, name, figures, said, map.element, none),
    update(model, wanted, head) {
      const { title, probes, answer } = model;
      const probe = probes.at(-1);
      name.replaceChildren(chart.swatch(place), h("span", { text: title }));
      figures.textContent = probe ? `Numbers right: ${percent(probe.accuracy)}. `
        + `Next words right: ${percent(probe.numbers[NEXT])}.` : "";
      said.replaceChildren(...(answer ? [
        h("span", { class: "take-asked", text: `${answer.text}: ` }),
        labResults.tokens(wordsOf(answer)), " ",
        h("span", { class: answer.right ? "lab-verdict lab-good" : "lab-verdict",
          text: answer.right ? "✓ right" : "✗ wrong" })] : []));
      const found = probe?.maps.find((one) => one.name === wanted);
      map.element.hidden = !found;
      none.hidden = Boolean(found) || !probe;
      none.textContent = "This attention is taken out, so there is no map.";
      const now = [model.id, probe?.step, answer?.text, answer?.step, wanted, head].join();
      if (found && now !== drawn) {
        map.update(rowsOf(found, head), { rows: found.rows, columns: found.columns });
      }
      drawn = now;
    },
  };
}

function build(w) {
  const parts = w.data("parts").map(([name, label, words]) => ({ name, label, words }));
  w.state();

  const visit = labModels.models(w, { task: "parts", asked: () => asked, changed: () => later(),
    ended: () => ended() });
  const models = visit.all; // of this visit, in the order in which they began
  let rows = []; // a line for each
  let shown = null; // the one beside the whole model, or the whole model itself
  let [asked, problem] = [FIRST, ""];
  const { now: update, later, never } = labDraw.drawing(draw);

  const outOf = (settings) => parts.filter(({ name }) => !settings[name]);
  const titleOf = ({ file, ...settings }) => {
    const out = outOf(settings).map(({ words }) => words);
    return `${out.length ? `without ${listed(out)}` : WHOLE}${file ? `, ${file}` : ""}`;
  };
  const wholeFor = ({ file, ...settings }) => ({ ...settings,
    ...Object.fromEntries(parts.map(({ name }) => [name, true])) });

  /** The whole model with the seed of what is shown, and what is shown if that is another one. */
  function pair() {
    const whole = visit.find(wholeFor(shown.settings));
    return [whole, shown].filter((one, i, all) => one && all.indexOf(one) === i);
  }

  // --- training ----------------------------------------------------------------------------------

  function begin(settings) { shown = visit.begin(settings, titleOf(settings)); }

  /** The whole model is trained once for a seed; it and the other one take turns, or have a core each. */
  function train() {
    const settings = w.snapshot();
    const whole = wholeFor(settings);
    const other = outOf(settings).length > 0;
    const kept = other && visit.find(whole);
    visit.stop(kept);
    for (const model of models.filter((one) => alike(one.settings, settings)
      || (one === kept && ["stopped", "failed"].includes(one.state)))) visit.drop(model);
    announce();
    problem = "";
    if (!models.includes(kept)) begin(whole);
    if (other) begin(settings);
    if (models.length > MOST) visit.drop(models.find((one) => !pair().includes(one)));
    w.say(`Training begins: ${shown.title}.`);
    update();
  }

  function adopt(found, engine, file) {
    shown = visit.adopt(found, engine, file);
    shown.title = titleOf(shown.settings);
    if (models.length > MOST) visit.drop(models.find((one) => !pair().includes(one)));
    update();
    return `${capital(shown.title)}: the model of the file, after step ${shown.step}.`;
  }

  const take = labTake.take(w, { task: "parts", adopt, question: () => asked,
    models: () => (shown ? visit.ready(pair()) : []) });

  function ended() {
    if (models.every(isOver)) w.say(statusLine());
    later();
  }

  // --- the reader's own number -------------------------------------------------------------------

  const note = h("p", { class: "bw-note", id: ui.freshId() });
  const line = h("input", { type: "text", class: "bw-input", id: ui.freshId(), maxlength: 8,
    inputmode: "numeric", autocomplete: "off", enterkeyhint: "go", "aria-describedby": note.id,
    value: FIRST,
    keydown(event) { if (event.key === "Enter" && !event.isComposing) ask(); } });

  function ask() {
    const text = line.value.trim();
    const bad = /^\d{1,5}$/.test(text) ? "" : "✗ A whole number of one to five digits";
    note.textContent = bad;
    note.classList.toggle("bw-problem", Boolean(bad));
    line.toggleAttribute("aria-invalid", false);
    if (bad) {
      line.setAttribute("aria-invalid", "true");
      return;
    }
    asked = text;
    visit.ask();
  }

  // --- what is shown -----------------------------------------------------------------------------

  const start = ui.button("Train", train, { primary: true });
  const stop = ui.button("Stop", () => {
    if (models.every(isOver)) return;
    visit.stop();
    ended();
    update();
  });
  const back = ui.button("Put all back", () => w.set(wholeFor(w.snapshot())));
  const status = h("p", { class: "lab-status" });
  const bar = h("div", { class: "lab-progress", "aria-hidden": "true" });
  const curves = labCurves.curves(MEASURE, 132);
  const empty = { losses: [], probes: [], steps: 600, number: 1, name: WHOLE }; // before the first run
  const which = select("Attention", () => update());
  const head = select("Head", () => update());
  const sides = [side(0), side(1)];
  const nothing = h("p", { class: "take-side bw-note",
    text: "Take a part out above and train: the model without it will stand here." });
  const list = h("ol", { class: "take-models", "aria-label": "Models of this visit" });
  const kept = ui.part("Models of this visit", list);
  const results = h("div", { class: "take-results", hidden: true },
    h("div", { class: "take-choose" }, which.element, head.element),
    h("div", { class: "take-sides" }, sides.map(({ element }) => element), nothing),
    h("p", { class: "bw-note", text: "Numbers: those in the test, written word after word. Next words: "
      + "each of them after the right words before it, as in training." }), kept);
  let [busy, again] = [false, false]; // while the maps are drawn, bit by bit; whether once more

  const mean = (losses) => losses.slice(-10).reduce((sum, [, loss]) => sum + loss, 0)
    / Math.min(10, losses.length);

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  /** How the model that is shown is doing, and the whole one beside it. */
  function statusLine() {
    if (!shown) return "Nothing is trained yet. Take a part out, then press Train.";
    const { title, state, step, steps, losses, probes, path, ms } = shown;
    const failed = pair().find((one) => one.state === "failed");
    if (failed) return `✗ ${capital(failed.title)}: ${failed.problem}`;
    const where = { wasm: "WebAssembly", plain: "plain JavaScript, as this browser has no "
      + "WebAssembly for it or refuses it: slower, with the same result" }[path];
    const how = !pair().every(isOver) ? "" : { done: ", done", stopped: ", stopped" }[state] ?? "";
    return [problem, `${capital(title)}${how}: ${[`step ${step} of ${steps}`,
      losses.length && `loss ${mean(losses).toPrecision(2)}`,
      probes.length && `numbers right ${labResults.percent(probes.at(-1).accuracy)}`]
      .filter(Boolean).join(", ")}.`,
    ms > 0 && `${(ms / 1000).toFixed(1)} s${where ? `, ${where}` : ""}.`,
    state !== "opened" && !alike(w.snapshot(), shown.settings) && "The switches have changed since; Train begins anew."]
      .filter(Boolean).join(" ");
  }

  /** A line for a model of this visit, which shows it again. */
  function lineOf(model) {
    const show = ui.button(model.title, () => {
      shown = model;
      update();
    }, { quiet: true });
    const [share, wrote] = [h("span", { class: "take-share" }), h("span", { class: "take-wrote" })];
    const node = h("li", {}, show,
      h("span", { class: "take-seed", text: `seed ${model.settings.seed}` }), share, wrote);
    return { model, node, update() {
      const { state, probes, answer } = model;
      show.setAttribute("aria-pressed", model === shown);
      share.textContent = state === "failed" ? "✗ failed"
        : labResults.percent(probes.at(-1)?.accuracy);
      wrote.textContent = answer ? `${answer.text}: ${wordsOf(answer).join(" ")}` : "";
    } };
  }

  function drawModels() {
    kept.hidden = models.length < 2;
    if (rows.length !== models.length || rows.some(({ model }, i) => model !== models[i])) {
      rows = models.map((model) => rows.find((row) => row.model === model) ?? lineOf(model));
      list.replaceChildren(...rows.map(({ node }) => node));
    }
    for (const row of rows) row.update();
  }

  function drawShown() {
    const two = pair();
    const maps = two.flatMap(({ probes }) => probes.at(-1)?.maps ?? []);
    which.update([...new Set(maps.map(({ name }) => name))].map((name) =>
      [name, name.replace(", layer 1", "")]));
    const heads = Math.max(1, ...maps.map((map) => map.heads));
    head.update([...Array.from({ length: heads }, (_, k) => [String(k + 1), `head ${k + 1}`]),
      [MEAN, "mean of the heads"]]);
    sides[1].element.hidden = two.length < 2;
    nothing.hidden = two.length > 1;
    again = busy;
    if (busy) return;
    busy = true;
    results.setAttribute("aria-busy", "true");
    labResults.inFrames([...two.map((one, i) => () =>
      sides[i].update(one, which.input.value, head.input.value)), () => {
      busy = false;
      results.setAttribute("aria-busy", again);
      if (again && shown) later();
    }]);
  }

  function draw() {
    const settings = w.snapshot();
    back.setAttribute("aria-disabled", outOf(settings).length === 0);
    stop.setAttribute("aria-disabled", models.every(isOver));
    status.textContent = statusLine();
    status.classList.toggle("lab-failed", shown?.state === "failed");
    const two = shown ? pair() : [];
    bar.style.setProperty("--share", String(two.length
      ? two.reduce((sum, { step, steps }) => sum + step / steps, 0) / two.length : 0));
    results.hidden = !shown;
    const lines = shown ? two.map((one, i) =>
      Object.assign(one, { number: i + 1, name: one.title })) : [empty];
    curves.update(lines, lines.at(-1), null);
    if (shown) {
      drawShown();
      drawModels();
    }
    take.update();
  }

  // --- the frame ---------------------------------------------------------------------------------

  w.add(
    h("div", { class: "take-top" },
      h("div", { class: "lab-run" },
        h("fieldset", { class: "take-parts" },
          h("legend", { class: "bw-label", text: "Parts of the model; switch off what to take out" }),
          parts.map(({ name, label }) => controls.toggle(w, name, { label }).element)),
        h("div", { class: "bw-buttons" }, start, stop, back),
        bar, status,
        h("div", { class: "take-asks" },
          h("div", { class: "take-own" },
            h("label", { class: "bw-label", for: line.id, text: "Your own number" }),
            h("div", { class: "lab-line" }, line, ui.button("Ask", ask)), note),
          labResults.seed(w))),
      curves.element),
    results);
  w.foot([take.toggle]);
  w.add(take.part);
  w.draw(update);

  function forget() {
    visit.forget();
    never();
    [shown, problem] = [null, ""];
  }
  const announce = labWorker.joinPage(w, { seen: later, forget, others() {
    if (models.every(isOver)) return;
    visit.stop();
    problem = "Another laboratory of this page has begun a run.";
    later();
  } });
  w.onReset(() => {
    forget();
    line.value = asked = FIRST;
    update();
  });
}

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: "Train it here: take a part out",
      lead: model.get("lead") }, build);
  },
};
