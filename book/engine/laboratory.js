import * as controls from "../widgets/js/controls.js";
import * as demand from "../widgets/js/demand.js";
import * as ui from "../widgets/js/ui.js";
import * as labCompose from "./lab_compose.js";
import * as labCurves from "./lab_curves.js";
import * as labDraw from "./lab_draw.js";
import * as labList from "./lab_list.js";
import * as labPanel from "./lab_panel.js";
import * as labPick from "./lab_pick.js";
import * as labResults from "./lab_results.js";
import * as labRuns from "./lab_runs.js";
import * as labTake from "./lab_take.js";
import * as labWorker from "./lab_worker.js";

const MOST_ENTRIES = 8; // of this visit, for comparison; those that the browser keeps are more
const SEVERAL = 5; // seeds that one press trains
const SPOKEN = 10_000; // milliseconds between two lines for screen readers while a run goes on
const COMPARED = 50; // steps whose losses are compared with torch's
const PATIENCE = 120_000; // milliseconds that torch may take
const REPLAYED = 400; // steps at most that torch takes again
const ANSWERS = 6; // that stand below the reader's own input
const ASKED = "asked"; // the worker's own run, not one that is looked at
const CHART = 150; // pixels: the height of a curve

/** The largest relative difference between two lists of losses, over their first steps. */
function difference(ours, others) {
  const pairs = others.slice(0, COMPARED).map((other, i) => [ours[i][1], other]);
  return Math.max(...pairs.map(([a, b]) => Math.abs(a - b) / Math.max(Math.abs(b), 1e-12)));
}

/** A control for a setting, by what its options are. */
function control(w, { name, label, options, words }) {
  const pairs = options.map((value, i) => [String(value), words[i]]);
  const narrow = words.join("").length <= 26 && options.length <= 6;
  return (narrow ? controls.choice : controls.select)(w, name, { label, options: pairs }).element;
}

/** What a run sends to torch: numbers in two buffers, and where each list of them stands. */
function packed({ design, options, parameters, batches }) {
  const lists = batches.map((batch) => Object.entries(batch).filter(([, value]) =>
    ArrayBuffer.isView(value)));
  const joined = (kind, all) => {
    const whole = new kind(all.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const one of all) {
      whole.set(one, at);
      at += one.length;
    }
    return whole.buffer;
  };
  return {
    content: { design, options,
      parameters: parameters.map(({ name, shape }) => ({ name, shape: [...shape] })),
      batches: batches.map((batch, k) => ({ rows: batch.rows,
        lists: lists[k].map(([name, { length }]) => [name, length]) })) },
    buffers: [joined(Float32Array, parameters.map(({ data }) => data)),
      joined(Int32Array, lists.flat().map(([, values]) => values))],
  };
}

function build(w) {
  const { h, button, part } = ui;
  const [task, about] = [w.data("task"), w.data("about")];
  const names = about.settings.map(({ name }) => name);
  const labels = new Map([...about.settings.map((one) => [one.name, one]),
    ["seed", { label: "Seed" }]]);
  w.state();

  /** The settings as they stand above, with the seed. */
  const chosen = () => Object.fromEntries([...labels.keys()].map((name) => [name, w.get(name)]));
  const word = (name, value) => {
    const { options, words } = labels.get(name);
    return options ? words[options.indexOf(value)] : String(value);
  };
  const wordsOf = ({ runs }) => [...labels].map(([name, { label }]) => {
    const [first, last] = [runs[0], runs.at(-1)].map(({ settings }) => word(name, settings[name]));
    return [label, first === last ? first : `${first} to ${last}`];
  });
  const fits = labRuns.fitting(w, [...labels.keys()]);
  const keeper = labRuns.keeper(task, fits);

  let entries = []; // what the reader has begun, and what the browser keeps
  let run = null; // the one that the worker has
  let shown = null; // the one whose maps and examples are shown
  let [held, drawing] = [null, false]; // the probe that is drawn, and whether it still is
  let at = null; // the place of the probe that is shown, or null: the newest
  let [engine, made, problem, pending] = [null, 0, "", null];
  let [question, looking, wrong] = ["", "", ""]; // whose answers are shown; of which step they are
  let forgot = false; // asked for now; what is wrong with a question; whether models had to go
  let spoken = 0;
  const { now: update, later, never } = labDraw.drawing(draw);

  const runs = () => entries.flatMap((entry) => entry.runs);
  const begun = () => runs().filter(({ state }) => state !== "waiting");

  // --- the run -----------------------------------------------------------------------------------

  const send = (type, content) => engine?.worker.postMessage({ type, ...content });
  const busy = () => run !== null && ["loading", "running"].includes(run.state);

  /** What trains goes no further; its worker sends where it stands, then ends. */
  function halt() {
    if (run && !labRuns.isOver(run)) run.state = "stopped";
    if (run) run.entry.runs = run.entry.runs.filter(({ state }) => state !== "waiting");
    engine?.leave();
    engine = null;
  }

  /** A new entry with a run for each of these settings; one of too many goes. */
  function add(all, more) {
    const entry = labRuns.makeEntry(1 + Math.max(0, ...entries.map(({ number }) => number)), all, more);
    const visit = entries.filter(({ key }) => !key);
    const oldest = visit.length === MOST_ENTRIES && visit.find((one) => one !== run?.entry);
    entries = [...entries.filter((one) => one !== oldest), entry];
    return entry;
  }

  /** A press of the reader: a run with each of these seeds, one after the other. */
  function begin(seeds, more = {}) {
    halt();
    if (!more.until && w.get("step")) w.set({ step: 0 }); // that of a link is over
    const settings = chosen();
    const entry = add(seeds.map((seed) => ({ ...settings, seed })));
    tell(`Run ${entry.number} begins: ${wordsOf(entry).map((pair) => pair.join(" ")).join(", ")}.`);
    train(entry.runs[0], more);
    rebuild();
  }

  /**
   * Trains a run in a worker of its own, from its first step. It may stop before its end, or wait
   * after its first step.
   */
  async function train(mine, { paused = false, until = null } = {}) {
    engine?.leave();
    engine = null;
    announce();
    made += 1;
    Object.assign(mine, { id: made, state: paused ? "paused" : "loading", step: 0, ms: 0,
      losses: [], probes: [], answers: [], path: "", torch: null, compared: "", problem: "" });
    [run, shown, at, problem, pending, wrong] = [mine, mine, null, "", null, ""];
    question = line.value.trim();
    later();
    const fail = (message) => {
      if (run !== mine) return;
      [mine.state, mine.problem] = ["failed", message];
      tell(message);
    };
    try {
      const found = await labWorker.start(w, hear, fail);
      if (run !== mine || labRuns.isOver(mine)) {
        found.close();
        return;
      }
      engine = found;
      const { seed, ...settings } = mine.settings;
      send("start", { id: mine.id, task, settings, seed, until, models: true, wasm: found.wasm,
        text: question, // with or without Ask
        paused: mine.state !== "loading" });
      if (paused) send("step");
    } catch (error) {
      fail(error.message);
    }
  }

  /** The next seed of an entry, or the end of it. */
  function goOn({ entry }) {
    list.save(entry);
    const next = entry.runs.find(({ state }) => state === "waiting");
    if (!next) return false;
    const [looked, place] = [shown, at];
    const follows = shown === run && at === null;
    train(next);
    if (!follows) [shown, at] = [looked, place];
    return true;
  }

  const heard = {
    ready(mine, { path, steps, parameters, note: told }) {
      Object.assign(mine, { path, steps, parameters, note: told });
      if (mine.state === "loading") mine.state = "running";
    },
    progress(mine, { step, losses, ms }) {
      mine.losses.push(...losses);
      Object.assign(mine, { ms, step: step ?? mine.step });
      if (labRuns.isOver(mine)) list.save(mine.entry); // stopped
    },
    probe(mine, { type, id, ...probe }) {
      if (looking === ASKED) looking = "";
      if (mine.probes.at(-1)?.step === probe.step) mine.probes.pop();
      mine.probes.push(probe);
      if (labRuns.bound(runs())) forgot = true;
    },
    answer: (mine, { type, id, ...found }) => hearAnswer(mine, found),
    looked(mine, { step, text, answer, ...found }) {
      looking = "";
      const place = mine.probes.findIndex((probe) => probe.step === step);
      if (text) hearAnswer(mine, { step, text, ...answer });
      if (place >= 0 && found.maps) {
        mine.probes.splice(place, 1, { ...mine.probes[place], ...found, text });
      }
    },
    done(mine) {
      mine.state = "done";
      if (!goOn(mine)) tell(`Run ${mine.number} is done. ${summary(mine)}`);
    },
    halted(mine) {
      mine.state = "paused";
      tell(`${labRuns.nameOf(mine)} stands at the step of the link. ${summary(mine)}`);
    },
    failed(mine, { name, message }) {
      [mine.state, mine.problem] = ["failed", message + (name === "Diverged" ? advice(mine) : "")];
      if (!goOn(mine)) tell(mine.problem);
    },
    recorded: (mine, record) => askTorch(record),
  };

  /** A question that the model does not take stays that of the line, and the one before is kept. */
  function hearAnswer(mine, found) {
    wrong = found.error ?? "";
    if (looking === ASKED) looking = "";
    if (wrong) {
      question = mine.probes.at(-1)?.text ?? "";
      return;
    }
    mine.answers = [...mine.answers.filter(({ text, step }) =>
      text === question && step !== found.step), found].sort((a, b) => a.step - b.step);
  }

  /** The highest rate on offer with which every seed that was tried learned the task. */
  function advice({ settings: { lr } }) {
    const { advised } = about;
    return lr > advised ? ` Choose ${advised}: with it, where the other settings suit the task, all `
      + "seeds from 0 to 9 learned it." : " Choose a lower one.";
  }

  function hear(message) {
    const mine = runs().find(({ id }) => id === message.id);
    if (!mine || !Object.hasOwn(heard, message.type)) return;
    heard[message.type](mine, message);
    if (busy() && performance.now() - spoken > SPOKEN && run.step) tell(summary(run));
    later();
  }

  function tell(text) {
    spoken = performance.now();
    w.say(text);
    later();
  }

  function pause(why = "") {
    if (!busy()) return;
    send("pause");
    run.state = "paused";
    problem = why;
    tell(`${why} Run ${run.number} is paused.`.trim());
  }

  function go() {
    if (run?.state !== "paused") return;
    announce();
    problem = "";
    run.state = run.path ? "running" : "loading";
    send("go");
    tell(`Run ${run.number} goes on.`);
  }

  const mean = (losses) => losses.slice(-10).reduce((sum, [, loss]) => sum + loss, 0)
    / Math.min(10, losses.length);

  /** Step, loss and accuracy of a run, in a sentence. */
  function summary({ step, steps, losses, probes }) {
    return [`Step ${step} of ${steps}`, losses.length && `loss ${mean(losses).toPrecision(3)}`,
      probes.length && `${about.measure.toLowerCase()} ${labResults.percent(
        probes.at(-1).accuracy)}`].filter(Boolean).join(", ") + ".";
  }

  // --- what is shown -----------------------------------------------------------------------------

  const start = button("Train", () => begin([w.get("seed")]), { primary: true });
  const toggle = button("Pause", () => {
    if (run?.state === "paused") go();
    else pause();
    update();
  });
  const single = button("One step", () => {
    if (run?.state === "paused") send("step");
    else if (!busy()) begin([w.get("seed")], { paused: true });
  });
  const stop = button("Stop", () => {
    if (!run || labRuns.isOver(run)) return;
    send("pause");
    run.state = "stopped";
    run.entry.runs = run.entry.runs.filter(({ state }) => state !== "waiting");
    rebuild();
    tell(`Run ${run.number} is stopped. ${summary(run)}`);
    update();
  });
  const several = button(`Train ${SEVERAL} seeds`, () => {
    const first = Math.min(w.get("seed"), w.domain("seed").most - SEVERAL + 1);
    begin(Array.from({ length: SEVERAL }, (_, k) => first + k));
  });
  const status = h("p", { class: "lab-status" });
  const bar = h("div", { class: "lab-progress", "aria-hidden": "true" });

  function show(one, place) {
    [shown, at] = [one, place === one.probes.length - 1 ? null : place];
    update();
  }

  const on = {
    show: (entry) => show(entry.runs.find(({ state }) => state !== "waiting"), null),
    use: (entry) => w.set(entry.runs[0].settings),
    again(entry) {
      halt();
      const [first, ...others] = entry.runs;
      const until = !others.length && first.state === "stopped" ? first.step : null;
      for (const one of entry.runs) one.state = "waiting";
      train(first, { until });
      rebuild();
      start.focus();
    },
    named: () => update(),
    link(entry) {
      if (!w.el.dataset.widget) return null;
      const one = shown?.entry === entry ? shown : entry.runs[0];
      const step = one === shown && at !== null ? one.probes[at].step : one.step;
      return w.link({ ...one.settings, step });
    },
    remove(entry) {
      entries = entries.filter((other) => other !== entry);
      if (entry === run?.entry) {
        engine?.close();
        [run, engine, pending] = [null, null, null];
      }
      if (entry === shown?.entry) [shown, at] = [begun().at(-1) ?? null, null];
      rebuild();
    },
  };
  const curves = labCurves.curves(about.measure, CHART, show);
  const list = labList.list(w, { words: wordsOf, measure: about.measure, told: labPanel.reached,
    keeper, on, home: start });
  const pick = labPick.pick(show, ({ accuracy }) => labResults.percent(accuracy));
  const maps = labPanel.maps(() => {
    held = null;
    update();
  });
  const examples = labPanel.examples();
  const numbers = labPanel.numbers();

  // The reader's own input: it is answered now, and after every hundred steps
  const note = h("p", { class: "bw-note", id: ui.freshId(), text: about.asks[1] });
  const line = h("input", { type: "text", class: "bw-input", id: ui.freshId(), maxlength: 160,
    autocomplete: "off", autocapitalize: "none", spellcheck: "false", enterkeyhint: "go",
    "aria-describedby": note.id, value: about.asks[2] ?? "", input: () => composer?.update(null),
    keydown(event) { if (event.key === "Enter" && !event.isComposing) ask(); } });
  const answers = h("ol", { class: "lab-answers", "aria-label": "Answers, the latest first" });

  /** The model that is shown answers: the newest, or that of a step that is looked back at. */
  function ask() {
    wrong = "";
    question = line.value.trim();
    const newest = shown === run && at === null;
    if (newest && run?.path) looking = ASKED;
    send(newest ? "ask" : "question", { text: question });
    update();
  }

  /** Asks for the maps and the answer of the model that is shown, where they are not there yet. */
  function look(probe) {
    const live = shown === run && at === null && busy();
    const knows = !question || shown.answers.some(({ text, step }) =>
      text === question && step === probe.step);
    if (!own || !engine || live || looking === ASKED || !probe.model || wrong) return;
    const now = [shown.id, probe.step, question].join();
    if ((probe.text === question && knows) || looking === now) return;
    looking = now;
    const { seed, ...settings } = shown.settings;
    send("look", { id: shown.id, step: probe.step, task, settings, seed, wasm: engine.wasm,
      model: probe.model, text: question });
  }

  const composer = about.composed ? labCompose.composer(line, { roles: names.includes("wanted"),
    changed: ask, say: (text) => w.say(text) }) : null;
  const own = about.asks.length ? h("div", { class: "lab-own" },
    h("label", { class: "bw-label", for: line.id, text: about.asks[0] }),
    h("div", { class: "lab-line" }, line, button("Ask", ask)), note, composer?.element) : null;

  // With a kernel: the same run by torch
  const torchButton = button("Run it with torch", () => {
    if (!run?.losses.length || !engine || pending) return;
    pause();
    [pending, shown, at] = [run, run, null];
    later();
    send("record", { steps: Math.min(run.losses.length, REPLAYED) });
  });
  const torchNote = h("p", { class: "bw-note", "aria-live": "polite" });
  const torch = h("div", { class: "lab-torch" }, torchButton, torchNote);
  async function askTorch(record) {
    const mine = pending;
    try {
      const { content, buffers } = packed(record);
      const { answer } = await demand.ask(w.model, { wanted: "torch", ...content }, "torch",
        { buffers, patience: PATIENCE });
      if (answer.problem) throw new Error(answer.problem);
      mine.torch = answer.torch.map((loss, i) => [mine.losses[i][0], loss]);
      mine.compared = `torch took the same ${answer.torch.length} steps from the same parameters. `
        + `Over the first ${Math.min(COMPARED, answer.torch.length)}, the losses differ by at most `
        + `${difference(mine.losses, answer.torch).toExponential(1)} of their size.`;
    } catch (error) {
      mine.compared = `✗ torch could not take the same steps: ${error.message}`;
    }
    if (pending === mine) pending = null;
    later();
  }

  const whose = h("p", { class: "bw-note" }); // which input the maps are of
  const mapOf = h("p", { class: "bw-label" });
  const mapping = h("div", { class: "bw-part lab-mapping" },
    h("div", { class: "lab-map-head" }, mapOf, maps.place), whose, maps.element);
  const heading = h("p", { class: "bw-label" });
  const stage = h("div", { class: "lab-stage lab-empty" }, own, pick.element,
    h("div", { class: "lab-accuracy" }, curves.accuracy), mapping,
    h("div", { class: "lab-loss" }, curves.loss), own && answers);
  const results = h("div", { class: "lab-results", hidden: true }, list.trouble, list.element, torch,
    h("div", { class: "lab-both" }, h("div", { class: "bw-part" }, heading, examples.element),
      part("Measured", numbers.element)));
  const measured = numbers.element.parentElement;

  function rebuild() {
    list.rebuild(entries);
    update();
  }

  /** A model out of a file is one more run, which has no curve; the reader can ask it as any other. */
  function adopt({ settings, model, probe, ...about }, opened, name) {
    const found = fits(settings);
    if (!found) throw new Error("This laboratory does not offer its settings.");
    const entry = add([found], { name });
    const [one] = entry.runs;
    made += 1;
    Object.assign(one, about, { id: made, state: "opened", step: probe.step,
      probes: [{ ...probe, model, text: "" }] });
    if (engine) opened.close();
    else {
      engine = opened;
      engine.worker.onmessage = ({ data }) => hear(data);
    }
    [shown, at, wrong, question] = [one, null, "", line.value.trim()];
    rebuild();
    return `${labRuns.nameOf(one)}: the model of the file, after step ${one.step}.`;
  }

  const take = labTake.take(w, { task, adopt, question: () => (own ? line.value.trim() : ""), models() {
    const probe = shown?.probes[at ?? shown.probes.length - 1];
    return probe?.model ? [{ name: labRuns.nameOf(shown).replace("R", "r"), settings: shown.settings,
      step: probe.step, model: probe.model }] : [];
  } });

  const off = (node, is) => node.setAttribute("aria-disabled", is);

  function draw() {
    const going = run !== null && !labRuns.isOver(run);
    toggle.textContent = run?.state === "paused" ? "Go on" : "Pause";
    off(toggle, !going);
    off(single, busy());
    off(stop, !going);
    status.classList.toggle("lab-failed", run?.state === "failed");
    status.textContent = statusLine();
    bar.style.setProperty("--share", run ? run.step / run.steps : 0);
    results.hidden = shown === null;
    stage.classList.toggle("lab-empty", shown === null);
    if (own) drawNote();
    if (shown) drawShown();
    else composer?.update(null);
    take.update();
  }

  /** Run 3, or of several seeds: Run 3, seed 2 (3 of 5). */
  function named(one) {
    const { entry: { runs: all } } = one;
    return `Run ${one.number}${all.length > 1
      ? `, seed ${one.settings.seed} (${all.indexOf(one) + 1} of ${all.length})` : ""}`;
  }

  function statusLine() {
    if (!run) return "Nothing is trained yet. Choose the settings, then press Train.";
    const { state, path, ms, step, problem: why } = run;
    if (state === "failed") return `✗ ${named(run)}: ${why}`;
    if (state === "loading") return "The engine is being loaded…";
    const where = { wasm: "WebAssembly", plain: "plain JavaScript, as this browser has no "
      + "WebAssembly for it or refuses it: slower, with the same result" }[path];
    const seeds = run.entry.runs.map(({ settings: { seed } }) => seed);
    const changed = names.some((name) => w.get(name) !== run.settings[name])
      || !seeds.includes(w.get("seed"));
    return [problem, `${named(run)}${{ running: "", paused: ", paused", done: ", done",
      stopped: ", stopped" }[state]}: ${summary(run)}`,
    step > 0 && `${(ms / step).toFixed(1)} ms per step${where ? `, ${where}` : ""}.`,
    run.note, changed && "The settings above have changed since; Train begins a run with them."]
      .filter(Boolean).join(" ");
  }

  function drawShown() {
    const last = shown.probes.length - 1;
    const place = Math.min(at ?? last, last);
    const probe = shown.probes[place];
    pick.update(begun(), shown, place);
    list.update(shown.entry);
    curves.update(entries, shown.entry, probe?.step ?? null);
    torch.hidden = !w.model.send || Boolean(w.el.dataset.widget);
    torchButton.textContent = pending ? "torch runs…" : "Run it with torch";
    off(torchButton, Boolean(pending) || !run?.losses.length);
    torchNote.textContent = shown.compared ?? "";
    if (own) drawAnswers(probe);
    if (probe) look(probe);
    if (probe && probe !== held && !drawing) drawProbe(shown, probe);
    results.setAttribute("aria-busy", drawing || looking !== "");
  }

  /** Which input the maps of a probe are of, and why they are not of the newest one. */
  function whoseMaps(probe) {
    if (!probe.maps) return "Of a kept run the browser keeps the curves. Train again, and it has its "
      + "models again, which are the same.";
    const gone = probe.text !== question && !probe.model && forgot;
    return [probe.own ? "Of your own input." : "Of the first example below.", gone
      && "All models together took more than 64 MB, so this one is not kept: train its run again to "
      + "ask it."].filter(Boolean).join(" ");
  }

  /** Maps, examples and numbers, bit by bit; then the probe that has come meanwhile, if any. */
  function drawProbe(one, probe) {
    [held, drawing] = [probe, true];
    const { maps: found = [], examples: all = [] } = probe;
    mapOf.textContent = `Attention maps of ${labRuns.nameOf(one).replace("R", "r")}, `
      + `step ${probe.step}`;
    whose.textContent = whoseMaps(probe);
    maps.element.hidden = found.length === 0;
    if (!found.length) maps.place.hidden = true;
    heading.textContent = all.every(({ input }) => !input.length)
      ? "What the model writes" : "Answers to inputs that it was not trained on";
    heading.parentElement.hidden = all.length === 0;
    labResults.inFrames([...maps.jobs(found), () => {
      examples.update(all);
      numbers.update(probe.numbers);
      measured.hidden = numbers.element.hidden;
      drawing = false;
      later();
    }]);
  }

  function drawNote() {
    note.classList.toggle("bw-problem", Boolean(wrong));
    note.textContent = wrong ? `✗ ${wrong}` : about.asks[1];
    if (wrong) line.setAttribute("aria-invalid", "true");
    else line.removeAttribute("aria-invalid");
  }

  /** What the run that is shown has answered, up to the step that is shown. */
  function drawAnswers(probe) {
    const end = at === null ? Infinity : probe.step;
    const all = shown.answers.filter(({ text, step }) => text === question && step <= end)
      .slice(-ANSWERS).reverse();
    answers.hidden = all.length === 0;
    composer?.update(all[0]?.each ? all[0] : null);
    answers.replaceChildren(...all.map(({ step, output, lines, right }) =>
      h("li", {}, h("span", { class: "lab-after",
        text: `${labRuns.nameOf(shown).replace("R", "r")}, step ${step}` }),
      lines ? labPanel.below(lines) : labResults.tokens(output),
      right !== null && right !== undefined && h("span",
        { class: right ? "lab-verdict lab-good" : "lab-verdict", text: right ? "✓ right"
          : "✗ wrong" }))));
  }

  // --- the frame ---------------------------------------------------------------------------------

  w.add(
    h("div", { class: "bw-part" }, h("p", { class: "bw-label", text: "Settings to compare" }),
      h("div", { class: "bw-buttons" }, about.presets.map(([label, changes]) =>
        button(label, () => w.set(changes))))),
    h("div", { class: "lab-controls" }, about.settings.map((one) => control(w, one)),
      labResults.seed(w)),
    h("div", { class: "lab-run" }, h("div", { class: "bw-buttons" }, start, toggle, single,
      stop, several), bar, status),
    stage, results);
  w.foot([take.toggle]);
  w.add(take.part);

  function forget() {
    engine?.close();
    never();
    [entries, run, shown, at, held] = [[], null, null, null, null];
    [engine, problem, pending] = [null, "", null];
    [question, looking, wrong, forgot] = ["", "", "", false];
  }
  const announce = labWorker.joinPage(w, {
    others: () => pause("Another laboratory of this page has begun a run."), seen: later, forget });
  function recall() {
    entries = keeper.read();
    entries.forEach((entry, i) => {
      entry.number = i + 1;
      for (const one of entry.runs) [one.number, one.id] = [i + 1, made += 1];
    });
    shown = entries.at(-1)?.runs[0] ?? null;
    list.trouble.textContent = "";
    rebuild();
  }
  w.onReset(() => {
    forget();
    line.value = about.asks[2] ?? "";
    composer?.reset();
    recall();
  });
  recall();
  w.draw(update);
  if (w.get("step")) begin([w.get("seed")], { until: w.get("step") });
}

export default {
  render({ model, el }) {
    const { title, lead } = model.get("about") ?? {};
    return ui.widget({ model, el, title: `Train it here: ${title}`, lead }, build);
  },
};
