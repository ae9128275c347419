// The laboratory "Language": a language model of characters trains on a text, and then writes. The
// worker draws the texts; what a row of logits gives at a temperature, the page computes itself.
import * as chart from "../widgets/js/chart.js";
import * as controls from "../widgets/js/controls.js";
import * as demand from "../widgets/js/demand.js";
import * as ui from "../widgets/js/ui.js";
import * as labMaps from "./lab_maps.js";
import * as labResults from "./lab_results.js";
import * as labWorker from "./lab_worker.js";
import { probabilities } from "./sampling.js";

const EVERY = 120; // milliseconds between two drawings, at least
const HALF_MINUTE = 30_000;
const [OWN, LONGEST, MOST] = ["own", 30, 120_000]; // characters of a prefix, and of a text
const [BARS, CELLS] = [8, 20]; // likeliest characters; rows of a map that is a table
const SAMPLE = 6; // lines of a sample while it learns
const RISEN = 1.02; // of its least: a held-out loss that has risen
const EARLY = 0.04; // of a run: what the curves need not show whole
const STATES = { copied: "copied", kept: "kept back", new: "new" };
const SAID = { copied: "it stands in the training text", kept: "it stands in the text, but in the "
  + "tenth that the model was not shown", new: "it stands nowhere in the text" };

const { h } = ui;

const pieceName = (piece) => ({ "\n": "end of line", " ": "space" })[piece] ?? piece;
const oneLine = (text) => text.replace(/\n/g, " ⏎ ");
const round = (loss) => loss.toFixed(2);

/** The best of the n-grams: [n, its loss]. */
const bestCount = ({ counted }) => counted.reduce((best, loss, i) =>
  (loss < best[1] ? [i + 1, loss] : best), [0, Infinity]);

/** What the curves say, as far as they go. */
function verdict(probes) {
  const last = probes.at(-1);
  const [n, counted] = bestCount(last);
  const least = probes.reduce((a, b) => (b.held < a.held ? b : a));
  const beaten = least.held < counted;
  const against = `the best count, of ${n - 1 || "no"} characters before the next one, ${round(counted)}`;
  if (last.held > RISEN * least.held) {
    return `The held-out loss was least after step ${least.step}, ${round(least.held)}, and has risen `
      + `to ${round(last.held)} since, while the training loss fell: the model overfits. `
      + `It ${beaten ? "beat" : "never beat"} ${against}.`;
  }
  return `Held-out loss ${round(last.held)}; ${last.held < counted ? "it beats" : "that is not below"} ${
    against}.`;
}

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

  let run = null; // what trains or has trained
  let [made, timer, drawn, cost, problem] = [0, null, 0, 0, ""];
  let [picked, place] = [0, 0]; // which text, and which of the characters that were drawn
  let [again, sent] = [0, null]; // how often it wrote; the wish that the worker has not answered yet

  const wishNow = () => JSON.stringify({ prefix: w.get("prefix"), seed: again,
    temperature: w.get("temperature"), k: w.get("top_k"), p: w.get("top_p") });
  const how = () => ({ temperature: w.get("temperature"), k: w.get("top_k"), p: w.get("top_p") });
  const tell = (type, content = {}) => run?.engine?.worker.postMessage({ type, ...content });
  const isGoing = () => run?.state === "running" || run?.state === "loading";

  // --- training ----------------------------------------------------------------------------------

  function fail(one, message) {
    if (one !== run) return;
    [one.state, one.problem] = ["failed", message];
    w.say(message);
    later();
  }

  const heard = {
    ready({ path, steps }) {
      Object.assign(run, { path, steps });
      if (run.state === "loading") run.state = "running";
    },
    progress({ step, ms }) {
      Object.assign(run, { ms, step: step ?? run.step });
      if (ms < run.allowed || run.state !== "running") return;
      stopNow("Half a minute is over.");
    },
    probe({ type, id, model, ...probe }) { run.probes.push(probe); },
    answer({ type, id, text, step, ...found }) {
      sent = null;
      [run.answer, run.refused] = found.error ? [run.answer, found.error] : [found, ""];
      if (step !== null && found.texts) {
        run.samples.push({ step, texts: found.texts.slice(0, SAMPLE).map(({ said }) => said) });
      }
      if (text !== wishNow()) ask();
    },
    done() {
      run.state = "done";
      w.say(`Training is done. ${verdict(run.probes)}`);
    },
    failed({ message }) { fail(run, message); },
  };

  async function train() {
    run?.engine?.close();
    announce();
    made += 1;
    const { text, dropout, seed } = w.snapshot();
    const one = { id: made, settings: { text, dropout, seed }, state: "loading", step: 0, steps: 1, ms: 0,
      allowed: HALF_MINUTE, probes: [], samples: [], answer: null, refused: "", path: "", engine: null,
      problem: "" };
    [run, problem, picked, place, sent, heldLog] = [one, "", 0, 0, wishNow(), -1];
    w.say("Training begins.");
    update();
    try {
      const learned = text === OWN ? own.value : await textOf(w, text);
      const task = await taskOf(w);
      const engine = await labWorker.start(w, (message) => {
        if (one !== run || !Object.hasOwn(heard, message.type)) return;
        heard[message.type](message);
        later();
      }, (message) => fail(one, message), task);
      if (one !== run) {
        engine.close();
        return;
      }
      one.engine = engine;
      tell("start", { id: one.id, task: "writing", settings: { text: learned, dropout }, seed,
        wasm: engine.wasm, text: sent, paused: one.state !== "loading" });
    } catch (error) {
      fail(one, error.message);
    }
  }

  function stopNow(reason) {
    tell("pause");
    [run.state, problem] = ["stopped", reason];
    w.say(reason);
    later();
  }

  function stopOrGo() {
    if (isGoing()) stopNow("");
    else if (run?.state === "stopped" && run.engine) {
      announce();
      run.allowed = run.ms + HALF_MINUTE;
      [run.state, problem] = ["running", ""];
      tell("go");
      later();
    }
  }

  /** The model writes anew, as the controls now stand; one wish at a time. */
  function ask() {
    if (!run?.engine || sent !== null) return;
    sent = wishNow();
    tell("write", { text: sent });
  }

  // --- the settings --------------------------------------------------------------------------------

  const own = h("textarea", { class: "bw-input lm-paste", id: ui.freshId(), rows: 6, maxlength: MOST,
    spellcheck: "false", autocomplete: "off",
    placeholder: "A list with a name on each line, a poem, a chapter: 400 characters or more." });
  const paste = h("div", { class: "bw-field", hidden: true },
    h("label", { class: "bw-label", for: own.id, text: "Your own text" }), own);
  const about = h("p", { class: "bw-note lm-about" });
  const start = ui.button("Train", train, { primary: true });
  const stop = ui.button("Stop", stopOrGo);
  const status = h("p", { class: "lab-status" });
  const bar = h("div", { class: "lab-progress", "aria-hidden": "true" });
  const blank = { x: { label: "step", min: 0, max: 1 }, y: { label: "Loss", min: 0, max: 1 },
    description: "" };
  const curve = chart.lines({ title: "Loss on the training text and on the held-out text", height: 240,
    points: false, ...blank });

  // --- what it writes ------------------------------------------------------------------------------

  const list = h("ul", { class: "lm-texts", "aria-label": "What the model writes" });
  const explained = h("p", { class: "bw-note" });
  const refused = h("p", { class: "bw-note bw-problem", role: "status" });
  const mover = controls.steady(h("input", { type: "range", class: "bw-slider", id: ui.freshId(), min: 0,
    max: 0, value: 0, input() { choose(picked, mover.valueAsNumber); } }));
  const moved = h("span", { class: "bw-value", "aria-hidden": "true" });
  const next = chart.bars({ label: "Probabilities of the next character",
    format: (value) => `${(100 * value).toFixed(1)}%` });
  const view = h("select", { class: "bw-select", id: ui.freshId(), change: () => drawMap() });
  const map = chart.heatMap({ caption: "Attention map", rowTitle: "each character read",
    columnTitle: "what it attends to", most: CELLS });
  const log = h("ol", { class: "lm-log", tabindex: 0, "aria-label": "Samples while it learned" });
  let shown = []; // the nodes of each text's characters
  let [heldAnswer, heldLog] = [null, -1];

  function choose(which, character) {
    [picked, place] = [which, character];
    markPlace();
    drawBars();
    drawMap();
  }

  const answered = () => run?.answer?.texts[picked] ?? null;

  /** The characters of a text as nodes that a pointer picks, with its copies marked. */
  function characters({ said, copies, chances }, which, first) {
    const letters = [...said].map((c) => (c === "\n" ? "⏎\n" : c));
    const nodes = letters.map((c, i) => h("span", { text: c, class: [
      i < first && "lm-given", copies.some(([from, to]) => i >= from && i < to) && "lm-copied"]
      .filter(Boolean).join(" "),
    click: i >= first && (() => choose(which, Math.min(i - first, chances.length - 1))) }));
    return nodes;
  }

  function drawTexts() {
    const { answer } = run;
    if (answer === heldAnswer) return;
    heldAnswer = answer;
    picked = Math.min(picked, answer.texts.length - 1);
    place = Math.min(place, answered().chances.length - 1);
    shown = answer.texts.map((one, i) => characters(one, i, answer.start));
    const isList = answer.texts[0].state !== "text";
    list.replaceChildren(...answer.texts.map((one, i) => h("li", { class: `lm-${one.state}` },
      isList ? h("button", { type: "button", class: "lm-line", title: SAID[one.state], click(event) {
        if (event.detail === 0 || event.target === event.currentTarget) choose(i, 0); // no letter
      } }, shown[i], ui.hidden(`, ${STATES[one.state]}`)) : h("p", { class: "lm-prose" }, shown[i]),
      isList && h("span", { class: "lm-state", "aria-hidden": "true", text: STATES[one.state] }))));
    const copied = answer.texts.filter(({ state }) => state === "copied").length;
    explained.textContent = isList
      ? `${copied} of ${answer.texts.length} copied: such a line stands in the training text. `
        + "“Kept back” stands in the tenth that the model never saw; “new” stands nowhere in the text."
      : "Underlined: at least 20 characters in a row that stand like this in the training text.";
    markPlace();
  }

  function markPlace() {
    const one = answered();
    if (!one) return;
    const first = run.answer.start;
    shown.forEach((nodes, i) => nodes.forEach((node, k) =>
      node.classList.toggle("lm-at", i === picked && k === first + place)));
    [...list.querySelectorAll(".lm-line")].forEach((line, i) =>
      line.setAttribute("aria-pressed", String(i === picked)));
    mover.max = String(one.chances.length - 1);
    mover.value = String(place);
    const spoken = `${place + 1} of ${one.chances.length}`;
    moved.textContent = spoken;
    mover.setAttribute("aria-valuetext", `${spoken}: ${pieceName([...one.said][first + place] ?? "\n")}`);
    const span = one.chances.length - 1;
    mover.style.setProperty("--filled", String(span ? place / span : 0));
  }

  const after = h("p", { class: "bw-label lm-after" });

  function drawBars() {
    const one = answered();
    if (!one) return;
    const { pieces, start: first } = run.answer;
    const said = [...one.said];
    const chances = probabilities(one.chances[place], how());
    const came = said[first + place] ?? "\n";
    const all = chances.map((_, i) => i).sort((a, b) => chances[b] - chances[a]);
    const rank = all.findIndex((i) => pieces[i] === came);
    const order = rank < BARS ? all.slice(0, BARS) : [...all.slice(0, BARS - 1), all[rank]];
    const before = said.slice(Math.max(0, first + place - 24), first + place).join("");
    after.textContent = before ? `After “${oneLine(before)}”` : "At the start";
    next.update(order.map((i) => ({ name: pieceName(pieces[i]), value: chances[i],
      note: pieces[i] === came ? "was drawn" : undefined, current: pieces[i] === came })));
  }

  function drawMap() {
    const maps = run?.answer?.maps[picked];
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
      : piece === " " ? "␣" : piece === "\n" ? "⏎" : piece));
    map.update(rows.map((row, i) => row.map((weight, j) => (j > i ? null : weight))),
      { rows: labels, columns: labels });
    const cut = [...answered().said].length + 1 - labels.length;
    const row = run.answer.start + place - cut;
    map.outline(row >= 0 && row < labels.length ? row : null);
  }

  function drawLog() {
    const { samples } = run;
    if (heldLog === samples.length) return;
    heldLog = samples.length;
    const separator = samples[0]?.texts.length > 1 ? " · " : "";
    log.replaceChildren(...[...samples].reverse().map(({ step, texts: lines }) => h("li", {},
      h("span", { class: "lm-step", text: step ? `step ${step}` : "untrained" }),
      h("span", { text: lines.map((line) => oneLine(line).slice(0, 90)).join(separator) }))));
  }

  // --- drawing -------------------------------------------------------------------------------------

  /** Draws a moment later, once for several messages, and seldom where drawing is slow. */
  function later() {
    if (timer !== null || document.hidden) return;
    const pause = Math.max(EVERY, 6 * cost) - (performance.now() - drawn);
    timer = setTimeout(update, Math.max(0, pause));
  }

  function drawCurve() {
    const { probes, steps } = run;
    if (!probes.length) return;
    const [n, counted] = bestCount(probes[0]);
    const shownOnes = probes.filter(({ step }) => step >= EARLY * steps);
    const high = shownOnes.length
      ? Math.max(counted, ...shownOnes.flatMap(({ taught, held }) => [taught, held]))
      : Math.max(...probes.map(({ held }) => held));
    const low = Math.min(counted, ...probes.flatMap(({ taught, held }) => [taught, held]));
    const y = { label: "Loss", min: Math.floor(5 * low) / 5, max: Math.ceil(5 * high) / 5 + 0.05 };
    const line = (key) => probes.map((probe) => [probe.step, Math.min(y.max, probe[key])]);
    const last = probes.at(-1);
    curve.update([
      { name: "training", points: line("taught"), end: null },
      { name: "held out", points: line("held"), end: null },
      { name: `best count (${n}-gram)`, points: [[0, counted], [steps, counted]], end: null },
    ], { x: { label: "step", min: 0, max: steps }, y,
      description: `After step ${last.step}: training loss ${round(last.taught)}, held-out loss ${
        round(last.held)}, best count ${round(counted)}.` });
  }

  function statusLine() {
    if (!run) return "Nothing is trained yet. Press Train.";
    if (run.state === "failed") return `✗ ${run.problem}`;
    const last = run.probes.at(-1);
    const { text, dropout, seed } = w.snapshot();
    const { settings } = run;
    const same = settings.text === text && settings.dropout === dropout && settings.seed === seed;
    const unit = last?.sizes.listed ? "lines" : "characters";
    const where = { wasm: "WebAssembly", plain: "plain JavaScript, as this browser has no "
      + "WebAssembly for it or refuses it: slower, with the same result" }[run.path];
    return [problem,
      `${{ done: "Done: s", stopped: "Stopped: s" }[run.state] ?? "S"}tep ${run.step} of ${run.steps}.`,
      last && `${last.sizes.taught} ${unit} to learn from, ${last.sizes.held} kept back.`,
      run.ms > 0 && `${(run.ms / 1000).toFixed(1)} s${where ? `, ${where}` : ""}.`,
      !same && "The settings have changed since; Train begins anew."].filter(Boolean).join(" ");
  }

  const judged = h("p", { class: "lm-verdict" });

  function update() {
    const begun = performance.now();
    clearTimeout(timer);
    timer = null;
    const { text } = w.snapshot();
    paste.hidden = text !== OWN;
    about.textContent = [texts.find(([name]) => name === text)?.[2], "Nothing leaves this page: the text is "
      + "read, and the model is trained, in your browser."].filter(Boolean).join(". ");
    about.textContent = about.textContent.charAt(0).toUpperCase() + about.textContent.slice(1);
    stop.textContent = run?.state === "stopped" ? "Go on" : "Stop";
    stop.setAttribute("aria-disabled", String(!run || !(isGoing() || (run.state === "stopped" && run.engine))));
    status.textContent = statusLine();
    status.classList.toggle("lab-failed", run?.state === "failed");
    bar.style.setProperty("--share", String(run ? run.step / run.steps : 0));
    results.hidden &&= !run?.answer; // between two runs the old texts stay
    judged.textContent = run?.probes.length > 1 ? verdict(run.probes) : "";
    refused.textContent = run?.refused ? `✗ ${run.refused}` : "";
    refused.hidden = !run?.refused;
    if (run) {
      drawCurve();
      drawLog();
    }
    if (run?.answer) labResults.inFrames([drawTexts, drawBars, drawMap]);
    [drawn, cost] = [performance.now(), performance.now() - begun];
  }

  // --- the frame -----------------------------------------------------------------------------------

  const { element: prefix, input: line } = controls.text(w, "prefix", {
    label: "Begin with", parse(given) {
      if ([...given].length > LONGEST) throw new Error(`expected at most ${LONGEST} characters`);
      return given;
    } });
  line.setAttribute("maxlength", String(LONGEST));
  line.setAttribute("autocapitalize", "off");
  const decimals = (value) => Number(value).toFixed(2);
  const results = h("div", { class: "lm-results", hidden: true },
    h("div", { class: "lm-turn" }, prefix,
      controls.slider(w, "temperature", { label: "Temperature", step: 0.05, format: decimals }).element,
      controls.select(w, "top_k", { label: "Top-k", options: w.domain("top_k").map((k) =>
        [k, k ? String(k) : "all"]) }).element,
      controls.slider(w, "top_p", { label: "Top-p", step: 0.05, format: decimals }).element,
      ui.button("Write again", () => {
        again += 1;
        ask();
      })),
    refused,
    h("div", { class: "lm-written" },
      h("div", { class: "lm-side" }, list, explained),
      h("div", { class: "lm-side" },
        h("div", { class: "bw-field" }, h("div", { class: "bw-field-head" },
          h("label", { class: "bw-label", for: mover.id, text: "Character that was drawn" }), moved), mover),
        after, next.element),
      h("div", { class: "lm-side" }, h("div", { class: "lm-map-head" },
        h("label", { class: "bw-label", for: view.id, text: "Attention" }), view), map.element),
      h("div", { class: "lm-side" },
        h("p", { class: "bw-label", text: "Samples while it learned" }), log)));
  w.add(
    h("div", { class: "lm-top" },
      h("div", { class: "lab-run" },
        controls.select(w, "text", { label: "Text", options: [...texts.map(([name, label]) => [name, label]),
          [OWN, "your own text"]] }).element,
        paste, about,
        h("div", { class: "lm-settings" },
          controls.choice(w, "dropout", { label: "Dropout", options: w.domain("dropout").map((rate) =>
            [rate, rate ? String(rate) : "none"]) }).element,
          labResults.seed(w)),
        h("div", { class: "bw-buttons" }, start, stop),
        bar, status, judged),
      curve.element),
    results);
  w.foot();
  curve.update([], blank);
  w.draw(() => {
    update();
    ask();
  });

  function forget() {
    run?.engine?.close();
    clearTimeout(timer);
    [run, timer, problem, heldAnswer, heldLog, sent] = [null, null, "", null, -1, null];
    results.hidden = true;
    curve.update([], blank);
  }
  const announce = labWorker.joinPage(w, { seen: later, forget, others() {
    if (isGoing()) stopNow("Another laboratory of this page has begun a run.");
  } });
  w.onReset(() => {
    forget();
    own.value = "";
    again = 0;
    update();
  });
}

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: model.get("title"), lead: model.get("lead") }, build);
  },
};
