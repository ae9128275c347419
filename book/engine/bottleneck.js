// The laboratory "Bottleneck": recurrent models copy digits, and curves over the length of a list show
// where a model with one vector fails. Beside it, if the chapter wants it, trains one with attention.
import * as chart from "../widgets/js/chart.js";
import * as controls from "../widgets/js/controls.js";
import * as ui from "../widgets/js/ui.js";
import * as labDraw from "./lab_draw.js";
import * as labModels from "./lab_models.js";
import * as labResults from "./lab_results.js";
import * as labTake from "./lab_take.js";
import * as labWorker from "./lab_worker.js";

const MOST = 8; // models that are kept
const OWN = "736914605281"; // the reader's digits until they type others: as many as the longest list
const [END, SHOWN] = ["<eos>", "end"]; // what the task calls the end, and what the reader sees
const MOST_DIGITS = 16;
const ROOM = { true: 1.45, false: 1.3 }; // of the lengths' axis, for the texts behind the curves

const { isOver } = labModels;
const { percent } = labResults;
const { h } = ui;

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const shownEnd = (label) => (label === END ? SHOWN : label);
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** A model's line of digits, each marked where it is wrong, and a verdict. */
function answerLine(name, input, { output, right }) {
  const marks = output.map((digit, i) => digit === input[i]);
  const wrong = Math.max(output.length, input.length) - marks.filter(Boolean).length;
  return h("div", { class: "neck-answer" },
    h("span", { class: "neck-who", text: name }),
    h("span", { class: right ? "lab-verdict lab-good" : "lab-verdict",
      text: right ? "✓ right" : `✗ ${wrong} wrong` }),
    output.length ? labResults.tokens(output, marks) : h("span", { text: "(no digit)" }));
}

function build(w) {
  const both = w.data("attention");
  const counts = w.data("counts");
  w.state();

  let shown = null; // the settings that are shown, without `attention`
  let problem = "";
  const { now: update, later, never } = labDraw.drawing(draw);
  let own = ""; // digits of the reader's own

  const settingsNow = () => {
    const { count, ...settings } = w.snapshot();
    return settings;
  };
  const asked = () => own || OWN.slice(0, shown?.longest ?? w.get("longest"));
  const visit = labModels.models(w, { task: "copying", asked, changed: () => later(),
    ended: () => ended() });
  const partners = (settings) => (both ? [false, true] : [false])
    .map((attention) => visit.find({ ...settings, attention })).filter(Boolean);
  const kind = ({ attention }) => (attention ? "attention" : "one vector");
  const titleOf = (settings) => [both && kind(settings), `state ${settings.state}`, settings.file]
    .filter(Boolean).join(", ");

  // --- training ----------------------------------------------------------------------------------

  function train() {
    visit.stop();
    const settings = settingsNow();
    for (const old of partners(settings)) visit.drop(old);
    announce();
    [problem, shown] = ["", settings];
    for (const attention of both ? [false, true] : [false]) {
      visit.begin({ ...settings, attention }, titleOf({ ...settings, attention }));
    }
    while (visit.all.length > MOST) visit.drop(visit.all[0]);
    w.say("Training begins.");
    update();
  }

  function adopt(found, engine, file) {
    if (found.settings.attention && !both) throw new Error("It has attention: chapter 2 opens it.");
    const model = visit.adopt(found, engine, file);
    while (visit.all.length > MOST) visit.drop(visit.all[0]);
    const { attention, ...settings } = model.settings;
    [model.title, shown] = [titleOf(model.settings), settings];
    update();
    return `${capital(model.title)}: the model of the file, after step ${model.step}.`;
  }

  const take = labTake.take(w, { task: "copying", adopt, question: asked,
    models: () => (shown ? visit.ready(partners(shown)) : []) });

  function ended() {
    if (visit.all.every(isOver)) w.say(statusLine());
    later();
  }

  // --- the reader's own digits ---------------------------------------------------------------------

  const note = h("p", { class: "bw-note", id: ui.freshId() });
  const line = h("input", { type: "text", class: "bw-input", id: ui.freshId(), maxlength: 40,
    inputmode: "numeric", autocomplete: "off", enterkeyhint: "go", "aria-describedby": note.id,
    keydown(event) { if (event.key === "Enter" && !event.isComposing) ask(); } });

  function ask() {
    const text = line.value.replace(/[\s,]/g, "");
    const bad = /^\d+$/.test(text) && text.length <= MOST_DIGITS ? ""
      : `✗ One to ${MOST_DIGITS} digits`;
    note.textContent = bad;
    note.classList.toggle("bw-problem", Boolean(bad));
    line.toggleAttribute("aria-invalid", false);
    if (bad) {
      line.setAttribute("aria-invalid", "true");
      return;
    }
    own = text;
    visit.ask();
  }

  // --- what is shown -------------------------------------------------------------------------------

  const start = ui.button("Train", train, { primary: true });
  const stop = ui.button("Stop", () => {
    if (visit.all.every(isOver)) return;
    visit.stop();
    ended();
    update();
  });
  const status = h("p", { class: "lab-status" });
  const bar = h("div", { class: "lab-progress", "aria-hidden": "true" });
  const curve = chart.lines({ title: "Accuracy by the length of the list", height: 230,
    x: { label: "digits in the list", min: 2, max: 12 }, y: { label: "", min: 0, max: 1 } });
  const answers = h("div", { class: "neck-answers", role: "group", "aria-label": "Answers" });
  const map = chart.heatMap({ caption: "Attention map: where the model with attention looks",
    rowTitle: "each digit written", columnTitle: "what it looks at", most: MOST_DIGITS + 4 });
  const table = h("table", { class: "neck-table" });
  const results = h("div", { class: "neck-results", hidden: true },
    h("div", { class: "neck-own" }, h("div", { class: "neck-ask" },
      h("label", { class: "bw-label", for: line.id, text: "Your own digits" }),
      h("div", { class: "lab-line" }, line, ui.button("Ask", ask)), note, answers),
    both && h("div", { class: "neck-map" }, map.element)),
    h("div", { class: "bw-scroll", tabindex: 0, role: "group", "aria-label": "Models of this visit" },
      table));
  let [form, cells, held] = ["", [], ""];

  const mean = (losses) => losses.slice(-10).reduce((sum, [, loss]) => sum + loss, 0)
    / Math.min(10, losses.length);

  /** How the models that are shown are doing. */
  function statusLine() {
    if (!shown) return "Nothing is trained yet. Press Train.";
    const now = partners(shown);
    const failed = now.find(({ state }) => state === "failed");
    if (failed) return `✗ ${capital(failed.title)}: ${failed.problem}`;
    const { path } = now[0];
    const ms = now.reduce((sum, one) => sum + one.ms, 0);
    const where = { wasm: "WebAssembly", plain: "plain JavaScript, as this browser has no "
      + "WebAssembly for it or refuses it: slower, with the same result" }[path];
    return [problem, ...now.map(({ title, state, step, steps, losses }) =>
      `${capital(title)}${{ done: ", done", stopped: ", stopped" }[state] ?? ""}: ${
        [`step ${step} of ${steps}`, losses.length && `loss ${mean(losses).toPrecision(2)}`]
          .filter(Boolean).join(", ")}.`),
    ms > 0 && `${(ms / 1000).toFixed(1)} s${where ? `, ${where}` : ""}.`,
    !shown.file && !labModels.alike(settingsNow(), shown) && "The settings have changed since; Train begins anew."]
      .filter(Boolean).join(" ");
  }

  const pointsOf = ({ probes }, count) =>
    (probes.at(-1)?.lengths ?? []).map((one) => [one.length, one[count]]);

  /** Curves: of the models that are shown where there are two kinds, or of all, newest last. */
  function drawCurves() {
    const count = w.get("count");
    const strong = both ? (shown ? partners(shown) : []) : visit.all;
    const longest = Math.max(...strong.map(({ settings }) => settings.longest),
      strong.length ? 0 : w.get("longest"));
    const seeds = new Set(strong.map(({ settings }) => settings.seed)).size > 1;
    const nameOf = ({ settings }) => (both ? kind(settings)
      : [`state ${settings.state}`, seeds && `seed ${settings.seed}`, settings.file].filter(Boolean)
        .join(", "));
    curve.update(strong.map((model) => (
      { name: both ? undefined : nameOf(model), end: nameOf(model), points: pointsOf(model, count) })), {
      x: { label: "digits in the list", min: 2, max: 2 + (longest - 2) * ROOM[both],
        ticks: range(1, longest / 2).map((k) => [2 * k, String(2 * k)]) },
      y: { label: { lists: "Whole lists right", digits: "Digits right" }[count], min: 0, max: 1 },
      pale: both ? visit.all.filter((one) => !strong.includes(one))
        .map((one) => pointsOf(one, count)) : [],
      description: strong.map((model) => `${capital(model.title)}: ${
        pointsOf(model, count).map(([x, y]) => `${x} digits ${percent(y)}`).join(", ")}.`).join(" "),
    });
  }

  /** A row for each model of this visit, whose name shows it again; a column for each length. */
  function drawTable() {
    const count = w.get("count");
    const lengths = range(2, Math.max(...visit.all.map(({ settings }) => settings.longest)));
    const now = `${visit.all.map(({ id }) => id)}|${lengths.length}`;
    if (now !== form) {
      form = now;
      cells = visit.all.map((model) => ({ model, shares: lengths.map(() => h("td")),
        name: ui.button(`${capital(model.title)}, seed ${model.settings.seed}`, () => {
          const { attention, ...settings } = model.settings;
          shown = settings;
          if (!own) visit.ask();
          update();
        }, { quiet: true }) }));
      table.replaceChildren(h("caption"), h("thead", {}, h("tr", {},
        h("th", { scope: "col", text: "digits in the list" }),
        lengths.map((length) => h("th", { scope: "col", text: length })))),
      h("tbody", {}, cells.map(({ name, shares }) =>
        h("tr", {}, h("th", { scope: "row" }, name), shares))));
    }
    const what = counts.find(([value]) => value === count)[1];
    table.firstChild.textContent = `Models of this visit: ${what} right, in percent`;
    for (const { model, shares, name } of cells) {
      const { attention, ...settings } = model.settings;
      name.setAttribute("aria-pressed", labModels.alike(settings, shown));
      const points = new Map(pointsOf(model, count));
      shares.forEach((cell, i) => {
        const share = points.get(lengths[i]);
        const text = share === undefined ? "" : String(Math.round(100 * share));
        if (cell.textContent !== text) cell.textContent = text;
      });
    }
  }

  function drawAnswers() {
    const now = partners(shown);
    const key = now.map(({ id, answer, probes }) =>
      [id, answer?.text, answer?.step, probes.at(-1)?.step].join()).join(";");
    if (key === held) return;
    held = key;
    const input = now.find(({ answer }) => answer)?.answer.input;
    const longer = input && input.length > shown.longest;
    answers.replaceChildren(...(input ? [
      h("div", { class: "neck-answer" }, h("span", { class: "neck-who", text: "the list" }),
        labResults.tokens(input)),
      ...now.filter(({ answer }) => answer).map((one) =>
        answerLine(both ? kind(one.settings) : "the model", one.answer.input, one.answer)),
      longer && h("p", { class: "bw-note", text: `Longer than any list in training: those had at most ${
        shown.longest} digits.` })] : []).filter(Boolean));
    const found = now.at(-1)?.probes.at(-1)?.maps[0];
    map.element.hidden = !found;
    if (!found) return;
    const { queries, keys, data, rows, columns } = found;
    map.update(range(0, queries - 1).map((i) => Array.from(data.slice(i * keys, (i + 1) * keys))),
      { rows: rows.map(shownEnd), columns: columns.map(shownEnd) });
  }

  function draw() {
    stop.setAttribute("aria-disabled", visit.all.every(isOver));
    const now = shown ? partners(shown) : [];
    status.textContent = statusLine();
    status.classList.toggle("lab-failed", now.some(({ state }) => state === "failed"));
    bar.style.setProperty("--share", String(now.length
      ? now.reduce((sum, { step, steps }) => sum + step / steps, 0) / now.length : 0));
    results.hidden = !shown;
    if (document.activeElement !== line && !own) line.value = asked();
    drawCurves();
    if (shown) {
      drawTable();
      drawAnswers();
    }
    take.update();
  }

  // --- the frame -----------------------------------------------------------------------------------

  const numbers = (key) => w.domain(key).map((value) => [value, String(value)]);
  w.add(
    h("div", { class: "neck-top" },
      h("div", { class: "lab-run" },
        h("div", { class: "neck-side" },
          controls.choice(w, "state", { label: "State dimension", options: numbers("state") }).element,
          controls.choice(w, "longest", { label: "Longest list", options: numbers("longest") }).element),
        h("div", { class: "neck-side" },
          controls.choice(w, "count", { label: "Count", options: counts }).element,
          labResults.seed(w)),
        h("div", { class: "bw-buttons" }, start, stop),
        bar, status),
      curve.element),
    results);
  w.foot([take.toggle]);
  w.add(take.part);
  w.draw(update);

  function forget() {
    visit.forget();
    never();
    [shown, problem, form, held, own] = [null, "", "", "", ""];
  }
  const announce = labWorker.joinPage(w, { seen: later, forget, others() {
    if (visit.all.every(isOver)) return;
    visit.stop();
    problem = "Another laboratory of this page has begun a run.";
    later();
  } });
  w.onReset(() => {
    forget();
    update();
  });
}

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: model.get("title"), lead: model.get("lead") }, build);
  },
};
