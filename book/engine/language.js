// The laboratory "Language": a language model of characters or byte pairs trains on a text, and then writes.
// The worker draws the texts; what a row of logits gives at a temperature, the page computes itself.
import * as chart from "../widgets/js/chart.js";
import * as controls from "../widgets/js/controls.js";
import * as demand from "../widgets/js/demand.js";
import * as ui from "../widgets/js/ui.js";
import * as labDraw from "./lab_draw.js";
import * as labList from "./lab_list.js";
import * as labMaps from "./lab_maps.js";
import * as labPick from "./lab_pick.js";
import * as labResults from "./lab_results.js";
import * as labRuns from "./lab_runs.js";
import * as labTake from "./lab_take.js";
import * as labWorker from "./lab_worker.js";
import { probabilities } from "./sampling.js";

const HALF_MINUTE = 30_000;
const TASK = "writing";
const MOST_RUNS = 4; // of a visit, for comparison; and as many that the browser keeps
const KEPT = ["text", "merges", "dropout", "seed"]; // the settings of a run
const [OWN, LONGEST, MOST] = ["own", 30, 120_000]; // characters of a prefix, and of a text
const [BARS, CELLS] = [8, 20]; // likeliest pieces; rows of a map that is a table
const SAMPLE = 6; // lines of a sample while it learns
const RISEN = 1.02; // of its least: a held-out loss that has risen
const OWN_LINES = 3; // of the run that is shown: two losses and the count
const EARLY = 0.04; // of a run: what the curves need not show whole
const STATES = { copied: "copied", kept: "kept back", new: "new" };
const SAID = { copied: "it stands in the training text", kept: "it stands in the text, but in the "
  + "tenth that the model was not shown", new: "it stands nowhere in the text" };

const { h } = ui;

const pieceName = (piece) => ({ "\n": "end of line", " ": "space" })[piece] ?? piece.replace(" ", "␣");
const oneLine = (text) => text.replace(/\n/g, " ⏎ ");
const kindOf = (merges) => (merges ? `byte pairs, ${merges} merges` : "characters");
const round = (loss) => loss.toFixed(2);

/** The best of the n-grams: [n, its loss]. */
const bestCount = ({ counted }) => counted.reduce((best, loss, i) =>
  (loss < best[1] ? [i + 1, loss] : best), [0, Infinity]);

const least = (probes) => probes.reduce((a, b) => (b.held < a.held ? b : a));

/** What the curves say, as far as they go. */
function verdict(probes) {
  const last = probes.at(-1);
  const [n, counted] = bestCount(last);
  const best = least(probes);
  const beaten = best.held < counted;
  const against = `the best count, of ${n - 1 || "no"} characters before the next one, ${round(counted)}`;
  if (last.held > RISEN * best.held) {
    return `The held-out loss was least after step ${best.step}, ${round(best.held)}, and has risen `
      + `to ${round(last.held)} since, while the training loss fell: the model overfits. `
      + `It ${beaten ? "beat" : "never beat"} ${against}.`;
  }
  return `Held-out loss ${round(last.held)}; ${last.held < counted ? "it beats" : "that is not below"} ${
    against}.`;
}

/** What a kept run needs beside its curves to write again: its text and its newest model. */
const more = {
  write({ runs: [{ learned, samples, probes }] }) {
    const { model, sizes, counted } = probes.findLast((probe) => probe.model);
    const bytes = new Uint8Array(model.buffer, model.byteOffset, model.byteLength);
    const letters = Array.from(bytes, (byte) => String.fromCharCode(byte));
    return { learned, samples, sizes, counted, model: btoa(letters.join("")) };
  },
  /** Throws where the page could not go on with what is written. */
  read({ runs: [run] }, { learned, samples, sizes, counted, model }) {
    const bytes = Uint8Array.from(atob(model), (c) => c.charCodeAt(0));
    const isText = (text) => typeof text === "string";
    const isFine = isText(learned) && learned.length <= 2 * MOST && run.probes.length > 0
      && counted.length > 0 && [...counted, ...["taught", "held", "kinds", "long"].map((name) =>
      sizes[name])].every(Number.isFinite)
      && samples.every(({ step, texts }) => Number.isInteger(step) && texts.every(isText));
    if (!isFine) throw new Error("no run");
    Object.assign(run, { learned, samples });
    for (const probe of run.probes) Object.assign(probe, { sizes, counted });
    run.probes.at(-1).model = new Float32Array(bytes.buffer);
  },
};

/** What only this laboratory loads: from a file beside the page's scripts, or from the kernel. */
async function loaded({ model, el }, file, read, wanted) {
  if (el.dataset.widget) {
    return read() ?? demand.fromPage(file, read,
      "A text or the task did not load. Try again when you are online.");
  }
  if (!model.send) throw new Error("There is no kernel to ask for the text. Run this cell.");
  return (await demand.ask(model, wanted, "text")).answer.text;
}

/** A text that comes with the book. */
const textOf = (w, name) => loaded(w, `texts/${name}.js`, () => window.bookTexts?.[name],
  { wanted: "text", name });

/** The task of the worker. */
const taskOf = (w) => loaded(w, "writing.js", () => window.bookWriting, { wanted: "writing" });

function build(w) {
  const texts = w.data("texts");
  w.state({ prefix: ui.text(LONGEST) });

  const fits = labRuns.fitting(w, KEPT);
  const keeper = labRuns.keeper(TASK, fits, { most: MOST_RUNS, measures: ["taught", "held"], more });

  let runs = []; // of this visit, at most MOST_RUNS, and those that the browser keeps
  let [run, engine] = [null, null]; // what trains or has trained, and the worker
  let [shown, at] = [null, null]; // the run that is looked at, and the place of a probe; null: the newest
  let [answer, refused] = [null, ""]; // what that has written, or why it has not
  let [made, problem] = [0, ""];
  let [picked, place] = [0, 0]; // which text, and which of the pieces that were drawn
  const { now: update, later, never } = labDraw.drawing(draw);
  let again = 0; // how often it wrote
  let [sent, looking, answered] = [null, false, ""]; // the wish on its way, whether to a recorded model
  let forgot = false; // whether models had to go
  let waking = null; // stands for the worker that is on its way for a kept model

  const wishNow = () => JSON.stringify({ prefix: w.get("prefix"), seed: again,
    temperature: w.get("temperature"), k: w.get("top_k"), p: w.get("top_p") });
  const how = () => ({ temperature: w.get("temperature"), k: w.get("top_k"), p: w.get("top_p") });
  const tell = (type, content = {}) => engine?.worker.postMessage({ type, ...content });
  const isGoing = () => run?.state === "running" || run?.state === "loading";
  const isNewest = () => shown === run && at === null; // the worker's own model
  const lookedAt = () => shown?.probes[at ?? shown.probes.length - 1];
  const settingsOf = ({ learned, settings: { merges, dropout } }) => ({ text: learned, merges, dropout });

  // --- training ----------------------------------------------------------------------------------

  function fail(one, message) {
    if (one !== run) return;
    [one.state, one.problem, sent, looking] = ["failed", message, null, false];
    if (!one.probes.length) leave(one); // there is nothing to look at
    list.save(one.entry);
    w.say(message);
    later();
  }

  const heard = {
    ready(mine, { path, steps }) {
      Object.assign(mine, { path, steps });
      if (mine.state === "loading") mine.state = "running";
    },
    progress(mine, { step, ms }) {
      Object.assign(mine, { ms, step: step ?? mine.step });
      if (ms >= mine.allowed && mine.state === "running") stopNow("Half a minute is over.");
      else if (labRuns.isOver(mine)) list.save(mine.entry); // stopped
    },
    probe(mine, { type, id, maps, own, text, ...probe }) {
      if (mine.probes.at(-1)?.step === probe.step) mine.probes.pop();
      mine.probes.push(probe);
      if (labRuns.bound(runs)) forgot = true;
    },
    answer(mine, { type, id, text, step, ...found }) {
      if (step !== null && found.texts && mine.samples.at(-1)?.step !== step) { // or it stopped there
        mine.samples.push({ step, texts: found.texts.slice(0, SAMPLE).map(({ said }) => said) });
      }
      if (mine === run && !looking) sent = null;
      if (mine === run && isNewest()) take(found, text, null);
    },
    looked(mine, { step, text, answer: found }) {
      [sent, looking] = [null, false];
      if (mine === shown && !isNewest() && lookedAt()?.step === step) take(found, text, step);
    },
    done(mine) {
      mine.state = "done";
      list.save(mine.entry);
      w.say(`Training is done. ${verdict(mine.probes)}`);
    },
    failed(mine, { message }) { fail(mine, message); },
  };

  function hear(message) {
    const mine = runs.find(({ id }) => id === message.id);
    if (!mine || !Object.hasOwn(heard, message.type)) return;
    heard[message.type](mine, message);
    ask();
    later();
  }

  /** What the model that is looked at has written. */
  function take(found, text, step) {
    answered = keyOf(text, step);
    [answer, refused] = found.error ? [answer, found.error] : [found, ""];
  }

  /** The runs have changed, and perhaps the one that is looked at: a run, or null. */
  function have(all, one) {
    runs = all;
    if (one !== shown) [shown, at, refused, picked, place] = [one, null, "", 0, 0];
    list.rebuild(runs.map(({ entry }) => entry));
    if (shown) return;
    [answer, heldAnswer, heldLog, stage.hidden] = [null, null, "", true];
    curve.update([], blank);
  }

  function leave(one) {
    const others = runs.filter((other) => other !== one);
    have(others, one === shown ? others.at(-1) ?? null : shown);
  }

  /** A run of these settings; of too many of this visit the oldest goes. */
  function add(settings, learned, name) {
    made += 1;
    const number = 1 + Math.max(0, ...runs.map((other) => other.number));
    const [one] = labRuns.makeEntry(number, [settings], { name }).runs;
    Object.assign(one, { id: made, learned, samples: [], allowed: HALF_MINUTE });
    const visit = runs.filter(({ entry }) => !entry.key);
    const oldest = visit.length >= MOST_RUNS && visit.find((other) => other !== run);
    have([...runs.filter((other) => other !== oldest), one], one);
    return one;
  }

  /** Trains with these settings; on a text that is learnt again, or the one that they name. */
  async function train(settings, learned = "", name = kindOf(settings.merges)) {
    if (isGoing()) run.state = "stopped";
    engine?.leave();
    announce();
    const { text, seed } = settings;
    const one = add(settings, learned, name);
    one.state = "loading";
    [run, engine, waking, problem, sent, looking] = [one, null, null, "", wishNow(), false];
    w.say("Training begins.");
    update();
    try {
      one.learned ||= text === OWN ? own.value : await textOf(w, text);
      const script = await taskOf(w);
      const found = await labWorker.start(w, hear, (message) => fail(one, message), script);
      if (one !== run) {
        found.close();
        return;
      }
      engine = found;
      tell("start", { id: one.id, task: TASK, settings: settingsOf(one), seed, models: true,
        wasm: engine.wasm, text: sent, paused: one.state !== "loading" });
    } catch (error) {
      fail(one, error.message);
    }
  }

  function stopNow(reason) {
    tell("pause");
    [run.state, problem] = ["stopped", reason];
    w.say(reason);
    update();
  }

  function stopOrGo() {
    if (isGoing()) stopNow("");
    else if (run?.state === "stopped" && engine) {
      announce();
      run.allowed = run.ms + HALF_MINUTE;
      [run.state, problem] = ["running", ""];
      tell("go");
      update();
    }
  }

  const keyOf = (text, step) => `${shown.id} ${step ?? "now"} ${text}`;

  /** The model that is looked at writes as the controls now stand; one wish at a time. */
  function ask() {
    const probe = isNewest() ? null : lookedAt();
    const [text, step] = [wishNow(), probe?.step ?? null];
    if (!shown || sent !== null || answered === keyOf(text, step)) return;
    if (!engine) {
      if (probe?.model && !isGoing()) wake();
      return;
    }
    if (!probe) {
      if (!run.path) return; // it has not begun
      tell("write", { text });
    } else if (probe.model) {
      looking = true;
      tell("look", { id: shown.id, step, task: TASK, settings: settingsOf(shown),
        seed: shown.settings.seed, wasm: engine.wasm, model: probe.model, text });
    } else {
      return;
    }
    sent = text;
  }

  /** A worker that trains nothing, for a model that was kept. */
  async function wake() {
    if (waking) return;
    const mine = {};
    waking = mine;
    try {
      const found = await labWorker.start(w, hear, fault, await taskOf(w));
      if (waking === mine) engine = found;
      else found.close();
    } catch ({ message }) {
      if (waking === mine) fault(message);
    }
    if (waking !== mine) return;
    waking = null;
    ask();
  }

  /** Why no model writes: said once for a wish. */
  function fault(message) {
    [refused, answered] = [message, keyOf(wishNow(), lookedAt().step)];
    later();
  }

  function show(one, which) {
    [shown, at] = [one, which === one.probes.length - 1 ? null : which];
    refused = "";
    ask();
    update();
  }

  // --- the settings --------------------------------------------------------------------------------

  const own = h("textarea", { class: "bw-input lm-paste", id: ui.freshId(), rows: 6, maxlength: MOST,
    spellcheck: "false", autocomplete: "off",
    placeholder: "A list with a name on each line, a poem, a chapter: 400 characters or more." });
  const paste = h("div", { class: "bw-field", hidden: true },
    h("label", { class: "bw-label", for: own.id, text: "Your own text" }), own);
  const about = h("p", { class: "bw-note lm-about" });
  const start = ui.button("Train", () => train(fits(w.snapshot())), { primary: true });
  const stop = ui.button("Stop", stopOrGo);
  const status = h("p", { class: "lab-status" });
  const bar = h("div", { class: "lab-progress", "aria-hidden": "true" });
  const blank = { x: { label: "step", min: 0, max: 1 }, y: { label: "Loss", min: 0, max: 1 },
    description: "" };
  let others = []; // the runs on the same text whose curve stands beside that of the one that is shown
  const curve = chart.lines({ title: "Loss on the training text and on the held-out text", height: 190,
    points: false, ...blank, onPick(i, x) {
      const one = others[i - OWN_LINES] ?? shown;
      const far = ({ step }) => Math.abs(step - x);
      show(one, one.probes.reduce((best, probe, k) => (far(probe) < far(one.probes[best]) ? k : best), 0));
    } });

  // --- what it writes ------------------------------------------------------------------------------

  const written = h("ul", { class: "lm-texts", "aria-label": "What the model writes" });
  const explained = h("p", { class: "bw-note" });
  const refusal = h("p", { class: "bw-note bw-problem", role: "status" });
  const mover = controls.steady(h("input", { type: "range", class: "bw-slider", id: ui.freshId(), min: 0,
    max: 0, value: 0, input() { choose(picked, mover.valueAsNumber); } }));
  const moved = h("span", { class: "bw-value", "aria-hidden": "true" });
  const moves = h("label", { class: "bw-label", for: mover.id });
  const next = chart.bars({ label: "Probabilities of the next piece",
    format: (value) => `${(100 * value).toFixed(1)}%` });
  const view = h("select", { class: "bw-select", id: ui.freshId(), change: () => drawMap() });
  const map = chart.heatMap({ caption: "Attention map", rowTitle: "each piece read",
    columnTitle: "what it attends to", most: CELLS });
  const pick = labPick.pick(show, ({ held }) => `held-out loss ${round(held)}`);
  const list = labList.list(w, { keeper, home: start, files: true, measure: "Loss per character",
    words: ({ runs: [{ settings: { text, merges, dropout, seed } }] }) => [
      ["Text", texts.find(([name]) => name === text)?.[1] ?? "another text"],
      ["Pieces", kindOf(merges)], ["Dropout", dropout || "none"], ["Seed", seed]],
    /** Its losses, and where they stand if it did not reach its end. */
    told: ({ runs: [one] }) => (one.probes.length ? [`held-out loss ${round(one.probes.at(-1).held)}; least ${
      round(least(one.probes).held)}, after step ${least(one.probes).step}`, labResults.broken(one)]
      .filter(Boolean).join(", ") : ""),
    whole: ({ probes }) => probes.length < 2 || probes.filter(({ model }) => model).length > 1,
    on: {
      named: () => update(),
      show: ({ runs: [one] }) => show(one, null),
      again: ({ label, runs: [{ settings, learned }] }) => train(settings, learned, label),
      use({ runs: [{ settings, learned }] }) {
        if (settings.text === OWN) own.value = learned;
        w.set(settings);
      },
      link: () => null, // no link holds a text
      remove({ runs: [one] }) {
        if (one === run) {
          tell("pause");
          run = null;
        }
        leave(one);
        update();
        ask();
      },
    } });
  const log = h("ol", { class: "lm-log", tabindex: 0, "aria-label": "Samples while it learned" });
  let parts = []; // the nodes of each text's pieces
  let [heldAnswer, heldLog] = [null, ""];

  function choose(which, piece) {
    [picked, place] = [which, piece];
    markPlace();
    drawBars();
    drawMap();
  }

  const chosen = () => answer?.texts[picked] ?? null;
  const textAt = (ids) => ids.map((id) => answer.pieces[id]).join("");

  /** The pieces of a text as nodes that a pointer picks, with its copies marked. */
  const nodesOf = ({ row, copies, chances }, which) => row.map((id, i) =>
    h("span", { text: answer.pieces[id].replace("\n", "⏎\n"), class: [i < answer.start && "lm-given",
      copies.some(([from, to]) => i >= from && i < to) && "lm-copied"].filter(Boolean).join(" "),
    click: i >= answer.start
      && (() => choose(which, Math.min(i - answer.start, chances.length - 1))) }));

  function drawTexts() {
    if (answer === heldAnswer) return;
    heldAnswer = answer;
    picked = Math.min(picked, answer.texts.length - 1);
    place = Math.min(place, chosen().chances.length - 1);
    parts = answer.texts.map(nodesOf);
    const isList = answer.texts[0].state !== "text";
    written.classList.toggle("lm-cut", answer.pieces.some((piece) => [...piece].length > 1));
    written.replaceChildren(...answer.texts.map((one, i) => h("li", { class: `lm-${one.state}` },
      isList ? h("button", { type: "button", class: "lm-line", title: SAID[one.state], click(event) {
        if (event.detail === 0 || event.target === event.currentTarget) choose(i, 0); // no letter
      } }, parts[i], ui.hidden(`, ${STATES[one.state]}`)) : h("p", { class: "lm-prose" }, parts[i]),
      isList && h("span", { class: "lm-state", "aria-hidden": "true", text: STATES[one.state] }))));
    const copied = answer.texts.filter(({ state }) => state === "copied").length;
    explained.textContent = isList
      ? `${copied} of ${answer.texts.length} copied: such a line stands in the training text. `
        + "“Kept back” stands in the tenth that the model never saw; “new” stands nowhere in the text."
      : "Underlined: at least 20 characters in a row that stand like this in the training text.";
    markPlace();
  }

  function markPlace() {
    const one = chosen();
    if (!one) return;
    const { start: first } = answer;
    parts.forEach((nodes, i) => nodes.forEach((node, k) =>
      node.classList.toggle("lm-at", i === picked && k === first + place)));
    [...written.querySelectorAll(".lm-line")].forEach((line, i) =>
      line.setAttribute("aria-pressed", String(i === picked)));
    mover.max = String(one.chances.length - 1);
    mover.value = String(place);
    const spoken = `${place + 1} of ${one.chances.length}`;
    moved.textContent = spoken;
    mover.setAttribute("aria-valuetext", `${spoken}: ${pieceName(answer.pieces[drawnAt(one)])}`);
    const span = one.chances.length - 1;
    mover.style.setProperty("--filled", String(span ? place / span : 0));
  }

  const after = h("p", { class: "bw-label lm-after" });
  const drawnAt = ({ row }) => row[answer.start + place] ?? 0; // behind its last piece the line ended

  function drawBars() {
    const one = chosen();
    if (!one) return;
    const { pieces, start: first } = answer;
    const chances = probabilities(one.chances[place], how());
    const came = drawnAt(one);
    const all = chances.map((_, i) => i).sort((a, b) => chances[b] - chances[a]);
    const rank = all.indexOf(came);
    const order = rank < BARS ? all.slice(0, BARS) : [...all.slice(0, BARS - 1), came];
    const before = textAt(one.row.slice(Math.max(0, first + place - 24), first + place));
    after.textContent = before ? `After “${oneLine(before)}”` : "At the start";
    next.update(order.map((i) => ({ name: pieceName(pieces[i]), value: chances[i],
      note: i === came ? "was drawn" : undefined, current: i === came })));
  }

  function drawMap() {
    const maps = answer?.maps[picked];
    if (!maps) return;
    if (!view.options.length) {
      view.append(...maps.flatMap(({ name, heads }, n) => [
        h("option", { value: `${n},-1`, text: `${name}, mean of ${heads} heads` }),
        ...Array.from({ length: heads }, (_, k) =>
          h("option", { value: `${n},${k}`, text: `${name}, head ${k + 1}` }))]));
      view.value = `${maps.length - 1},-1`;
    }
    const [layer, head] = view.value.split(",").map(Number);
    const one = maps[layer];
    const rows = head < 0 ? labMaps.meanOf(one) : labMaps.headOf(one, head);
    const labels = one.rows.map((piece, i) => (i === 0 && piece === "\n" ? "⊢"
      : piece === "\n" ? "⏎" : piece.replace(" ", "␣")));
    const longest = Math.max(...labels.map((label) => [...label].length));
    map.element.style.setProperty("--names", `${(longest + 1) / 2}rem`);
    map.element.classList.toggle("lm-long", longest > 1);
    map.update(rows.map((row, i) => row.map((weight, j) => (j > i ? null : weight))),
      { rows: labels, columns: labels });
    const cut = chosen().row.length + 1 - labels.length;
    const row = answer.start + place - cut;
    map.outline(row >= 0 && row < labels.length ? row : null);
  }

  function drawLog() {
    const { id, samples } = shown;
    if (heldLog === `${id} ${samples.length}`) return;
    heldLog = `${id} ${samples.length}`;
    const separator = samples[0]?.texts.length > 1 ? " · " : "";
    log.replaceChildren(...[...samples].reverse().map(({ step, texts: lines }) => h("li", {},
      h("span", { class: "lm-step", text: step ? `step ${step}` : "untrained" }),
      h("span", { text: lines.map((line) => oneLine(line).slice(0, 90)).join(separator) }))));
  }

  // --- drawing -------------------------------------------------------------------------------------

  function drawCurve() {
    const { probes } = shown;
    if (!probes.length) return;
    others = runs.filter((one) => one !== shown && one.learned === shown.learned && one.probes.length);
    const [n, counted] = bestCount(probes[0]);
    const steps = Math.max(...[shown, ...others].map((one) => one.steps));
    const heights = [...probes.flatMap(({ step, taught, held }) => [[step, taught], [step, held]]),
      ...others.flatMap((one) => one.probes.map(({ step, held }) => [step, held]))];
    const late = heights.filter(([step]) => step >= EARLY * steps);
    const high = Math.max(counted, ...(late.length ? late : heights).map(([, loss]) => loss));
    const low = Math.min(counted, ...heights.map(([, loss]) => loss));
    const y = { label: "Loss per character", min: Math.floor(5 * low) / 5,
      max: Math.ceil(5 * high) / 5 + 0.05 };
    const line = (one, key) => one.probes.map((probe) => [probe.step, Math.min(y.max, probe[key])]);
    const probe = lookedAt();
    const name = (one) => labRuns.titleOf({ ...one.entry, label: "" }).toLowerCase();
    curve.update([
      { name: "training", points: line(shown, "taught"), end: null },
      { name: "held out", points: line(shown, "held"), end: null },
      { name: `best count (${n}-gram)`, points: [[0, counted], [steps, counted]], end: null },
      ...others.map((one) => ({ name: `${name(one)}, held out`, points: line(one, "held"), end: null })),
    ], { x: { label: "step", min: 0, max: steps }, y, at: at === null ? null : probe.step,
      description: `After step ${probe.step}: training loss ${round(probe.taught)}, held-out loss ${
        round(probe.held)}, best count ${round(counted)}.` });
  }

  function statusLine() {
    if (!run) return "Nothing is trained yet. Press Train.";
    if (run.state === "failed") return `✗ ${run.problem}`;
    const sizes = run.probes.at(-1)?.sizes;
    const unit = sizes?.listed ? "lines" : "characters";
    const where = { wasm: "WebAssembly", plain: "plain JavaScript, as this browser has no "
      + "WebAssembly for it or refuses it: slower, with the same result" }[run.path];
    return [problem,
      `${{ done: "Done: s", stopped: "Stopped: s" }[run.state] ?? "S"}tep ${run.step} of ${run.steps}.`,
      sizes && `${sizes.taught} ${unit} to learn from, ${sizes.held} kept back.`,
      run.settings.merges > 0 && sizes && `${sizes.kinds} pieces; one is ${
        sizes.long.toFixed(1)} characters long on average.`,
      run.ms > 0 && `${(run.ms / 1000).toFixed(1)} s${where ? `, ${where}` : ""}.`,
      Object.entries(run.settings).some(([name, value]) => w.get(name) !== value)
        && "The settings have changed since; Train begins anew."].filter(Boolean).join(" ");
  }

  /** Why a model does not write, if it cannot. */
  const gone = () => (isNewest() || !lookedAt() || lookedAt().model ? ""
    : forgot ? "All models together took more than 64 MB, so this one is not kept. Choose another step."
      : "Of a kept run the browser keeps the curves and the newest model. Train again, and it has them all.");

  const judged = h("p", { class: "lm-verdict" });

  function draw() {
    const { text } = w.snapshot();
    paste.hidden = text !== OWN;
    const source = texts.find(([name]) => name === text)?.[2];
    about.textContent = `${source ? `${source.charAt(0).toUpperCase()}${source.slice(1)}. ` : ""}Nothing `
      + "leaves this page: the text is read, and the model is trained, in your browser.";
    stop.textContent = run?.state === "stopped" ? "Go on" : "Stop";
    stop.setAttribute("aria-disabled", String(!isGoing() && !(run?.state === "stopped" && engine)));
    status.textContent = statusLine();
    status.classList.toggle("lab-failed", run?.state === "failed");
    bar.style.setProperty("--share", String(run ? run.step / run.steps : 0));
    stage.hidden &&= !shown?.probes.length;
    results.hidden = !answer && (!shown || shown === run); // between two runs the old texts stay
    for (const one of [mapping, behind]) one.hidden = !answer;
    if (!answer) explained.textContent = "Press Write, and the kept model goes on.";
    writes.textContent = answer ? "Write again" : "Write";
    judged.textContent = shown?.probes.length > 1 ? verdict(shown.probes) : "";
    moves.textContent = shown?.settings.merges ? "Piece that was drawn" : "Character that was drawn";
    refusal.textContent = refused || gone() ? `✗ ${refused || gone()}` : "";
    refusal.hidden = !refusal.textContent;
    if (shown) {
      drawCurve();
      drawLog();
      list.update(shown.entry);
      pick.update(runs, shown, at ?? shown.probes.length - 1);
    }
    if (answer) labResults.inFrames([drawTexts, drawBars, drawMap]);
    takeAway.update();
  }

  // --- a model as a file ---------------------------------------------------------------------------

  /** A model out of a file is one more run, which does not train; it can be asked as any other. */
  function adopt({ settings, model, probe, ...about }, opened, name) {
    const { text } = settings;
    const known = texts.find(([one]) => window.bookTexts?.[one] === text)?.[0];
    const offered = fits({ ...settings, text: known ?? OWN });
    if (!offered) throw new Error("This laboratory does not offer its settings.");
    const one = add(offered, text, name);
    Object.assign(one, about, { state: "opened", step: probe.step, probes: [{ ...probe, model }] });
    if (engine) opened.close();
    else {
      engine = opened;
      engine.worker.onmessage = ({ data }) => hear(data);
    }
    ask();
    update();
    return `${labRuns.nameOf(one)}: the model of the file, after step ${one.step}.`;
  }

  const takeAway = labTake.take(w, { task: TASK, adopt, question: () => w.get("prefix"),
    scripts: () => taskOf(w), note: " The file holds the text that it was trained on, too.", models() {
      const probe = lookedAt();
      return probe?.model ? [{ name: labRuns.nameOf(shown).replace("R", "r"), step: probe.step,
        model: probe.model, settings: { ...settingsOf(shown), seed: shown.settings.seed } }] : [];
    } });

  // --- the frame -----------------------------------------------------------------------------------

  const { element: prefix, input: line } = controls.text(w, "prefix", {
    label: "Begin with", parse(given) {
      if ([...given].length > LONGEST) throw new Error(`expected at most ${LONGEST} characters`);
      return given;
    } });
  line.setAttribute("maxlength", String(LONGEST));
  line.setAttribute("autocapitalize", "off");
  const decimals = (value) => Number(value).toFixed(2);
  const mapping = h("div", { class: "lm-side lm-mapping" }, h("div", { class: "lm-map-head" },
    h("label", { class: "bw-label", for: view.id, text: "Attention" }), view), map.element);
  const behind = h("div", { class: "lm-side" },
    h("div", { class: "bw-field" }, h("div", { class: "bw-field-head" }, moves, moved), mover),
    after, next.element);
  const writes = ui.button("Write again", () => {
    again += answer ? 1 : 0;
    ask();
  });
  const stage = h("div", { class: "lm-stage", hidden: true },
    h("div", { class: "lm-side" }, curve.element, judged), mapping, pick.element);
  const results = h("div", { class: "lm-results", hidden: true },
    h("div", { class: "lm-turn" }, prefix,
      controls.slider(w, "temperature", { label: "Temperature", step: 0.05, format: decimals }).element,
      controls.select(w, "top_k", { label: "Top-k", options: w.domain("top_k").map((k) =>
        [k, k ? String(k) : "all"]) }).element,
      controls.slider(w, "top_p", { label: "Top-p", step: 0.05, format: decimals }).element,
      writes),
    refusal,
    h("div", { class: "lm-written" },
      h("div", { class: "lm-side" }, written, explained),
      behind),
    h("div", {}, list.trouble, list.element),
    h("div", { class: "lm-side" }, h("p", { class: "bw-label", text: "Samples while it learned" }), log));
  w.add(
    h("div", { class: "lm-settings" },
      controls.select(w, "text", { label: "Text", options: [...texts.map(([name, label]) => [name, label]),
        [OWN, "your own text"]] }).element,
      controls.select(w, "merges", { label: "Pieces", options: w.domain("merges").map((merges) =>
        [merges, kindOf(merges)]) }).element,
      controls.choice(w, "dropout", { label: "Dropout", options: w.domain("dropout").map((rate) =>
        [rate, rate ? String(rate) : "none"]) }).element,
      labResults.seed(w)),
    paste, about,
    h("div", { class: "lab-run" }, h("div", { class: "bw-buttons" }, start, stop), bar, status),
    stage, results);
  w.foot([takeAway.toggle]);
  w.add(takeAway.part);
  curve.update([], blank);
  w.draw(() => {
    update();
    ask();
  });

  function forget() {
    engine?.close();
    never();
    [run, engine, waking, problem] = [null, null, null, ""];
    [sent, looking, answered, forgot] = [null, false, "", false];
    have([], null);
  }
  const announce = labWorker.joinPage(w, { seen: later, forget, others() {
    if (isGoing()) stopNow("Another laboratory of this page has begun a run.");
  } });
  /** What the browser keeps, without a worker until the reader lets it write. */
  function recall() {
    const all = keeper.read().map((entry, i) => {
      const [one] = entry.runs;
      [entry.number, one.number] = [i + 1, i + 1];
      return Object.assign(one, { id: made += 1 });
    });
    list.trouble.textContent = "";
    have(all, all.at(-1) ?? null);
    update();
  }
  w.onReset(() => {
    forget();
    own.value = "";
    again = 0;
    recall();
  });
  recall();
}

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: model.get("title"), lead: model.get("lead") }, build);
  },
};
