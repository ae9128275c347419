// The first page's trainer: one press, and a Transformer learns to write numbers in English words.
// While it trains it writes the reader's own number, and afterwards one can look back at each report.
import * as chart from "../widgets/js/chart.js";
import * as controls from "../widgets/js/controls.js";
import * as ui from "../widgets/js/ui.js";
import * as labDraw from "./lab_draw.js";
import * as labMaps from "./lab_maps.js";
import * as labResults from "./lab_results.js";
import * as labTake from "./lab_take.js";
import * as labWorker from "./lab_worker.js";
import { inWords } from "./number_words.js";

const CALM = 1000; // the same for readers who asked for less motion
const ENOUGH = 0.9; // of the new numbers, for which the run is called a success
const MEASURE = "New numbers right";
const STEPS = 600; // of a run, as the task has it, until a run says so
const [NARROW, LOW, HIGH] = [480, 104, 170]; // pixels of the panel, and how high its curve then is
const [END, SHOWN] = ["<eos>", "end"]; // what the task calls the end, and what the reader sees
const NUMBER = /^(?:0|[1-9]\d{0,4})$/;

const { h } = ui;
const percent = labResults.percent;
const shownEnd = (labels) => labels.map((label) => (label === END ? SHOWN : label));

/** The axis of the steps, with four ticks. */
const axis = (steps) => ({ label: "step", min: 0, max: steps,
  ticks: [0, 1, 2, 3].map((k) => [(k * steps) / 3, String(Math.round((k * steps) / 3))]) });

/** What a reader typed as the digits of a number that the model takes. */
function parse(text) {
  const digits = text.replace(/\s|[,.](?=\d{3}$)/g, "").replace(/^0+(?=\d)/, "");
  if (!NUMBER.test(digits)) throw new Error("A whole number of one to five digits");
  return digits;
}

/** A probe of the worker as what is shown of it: the number's words, and how far they look. */
function frameOf({ step, accuracy, maps }) {
  const map = maps.find(({ name }) => name.startsWith("decoder, cross-attention"));
  return { step, accuracy, number: map.columns.slice(0, -1).join(""), words: map.rows.slice(0, -1),
    weights: labMaps.meanOf(map) };
}

/** Of a number that no model has written yet: its own words, and a map that is empty. */
function emptyFrame(number) {
  const weights = Array.from({ length: inWords(Number(number)).length + 1 }, () =>
    Array.from({ length: number.length + 1 }, () => 0));
  return { step: 0, accuracy: null, number, words: null, weights };
}

function build(w) {
  const [settings, before, next] = ["settings", "before", "next"].map((name) => w.data(name));
  w.state({ number: (value) => (NUMBER.test(value) ? String(value) : undefined) });

  let run = null; // what the worker trains
  let at = null; // the step that is looked back at, or null: the newest
  let [made, asked] = [0, w.get("number")];
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const busy = () => ["loading", "running"].includes(run?.state);
  const { now: update, later, never } =
    labDraw.drawing(draw, () => (still.matches && busy() ? CALM : labDraw.EVERY));
  const framesOf = (number) => (run?.frames ?? []).filter((frame) => frame.number === number);

  /** What is shown of the reader's number now. */
  function frame() {
    const mine = framesOf(asked);
    if (mine.length) return mine.find(({ step }) => step === at) ?? mine.at(-1);
    if (!run && asked === before.number) return { step: 0, accuracy: null, ...before };
    return emptyFrame(asked);
  }

  // --- the run -----------------------------------------------------------------------------------

  const send = (type, content) => run?.engine?.worker.postMessage({ type, ...content });

  const newRun = (more) => ({ id: made += 1, state: "loading", ms: 0, steps: STEPS, frames: [],
    parameters: 0, path: "", problem: "", engine: null, asks: false, ...more });

  async function begin() {
    forget();
    announce();
    const mine = newRun({ seed: w.get("seed") });
    run = mine;
    w.say("Training begins.");
    const fail = (message) => {
      if (run !== mine) return;
      Object.assign(mine, { state: "failed", problem: message });
      later();
    };
    try {
      const engine = await labWorker.start(w, (message) => run === mine && hear(message), fail);
      if (run !== mine) {
        engine.close();
        return;
      }
      mine.engine = engine;
      send("start", { id: mine.id, task: "parts", settings, seed: mine.seed, wasm: engine.wasm,
        text: asked, paused: mine.state !== "loading" });
    } catch (error) {
      fail(error.message);
    }
  }

  /** The model of a file takes the place of the run. */
  function adopt({ settings: { seed, ...parts }, probe, path, steps, parameters }, engine) {
    if (Object.values(parts).includes(false)) {
      throw new Error("A part of it is taken out: chapter 10 opens it.");
    }
    forget();
    const mine = newRun({ state: "opened", seed, steps, parameters, path, engine, asks: true,
      frames: [frameOf(probe)] });
    run = mine;
    engine.worker.onmessage = ({ data }) => run === mine && hear({ ...data, id: mine.id });
    send("ask", { text: asked });
    update();
    return `The model of the file, after step ${probe.step}.`;
  }

  const take = labTake.take(w, { task: "parts", adopt, question: () => asked, models: () =>
    (run?.frames.length && run.state !== "failed" ? [{ name: `the model, seed ${run.seed}`, settings: { seed: run.seed },
      engine: run.engine }] : []) });

  const heard = {
    ready({ path, steps, parameters }) {
      Object.assign(run, { path, steps, parameters });
      if (run.state === "loading") run.state = "running";
    },
    progress({ ms }) { run.ms = ms; },
    probe(probe) {
      const found = frameOf(probe);
      const last = run.frames.at(-1);
      if (last?.step === found.step && last.number === found.number) run.frames.pop();
      run.frames.push(found);
      if (run.asks && found.number === asked) {
        run.asks = false;
        w.say(`${asked}: ${found.words.join(" ")}.`);
      }
    },
    answer() {}, // the probe that comes with it says the same, and shows where the model looks
    done() {
      run.state = "done";
      w.say(`${statusLine()} ${asked}: ${frame().words.join(" ")}.`);
    },
    failed({ message }) { Object.assign(run, { state: "failed", problem: message }); },
  };

  function hear(message) {
    if (message.id !== run.id || !Object.hasOwn(heard, message.type)) return;
    heard[message.type](message);
    later();
  }

  function pause() {
    if (!busy()) return;
    send("pause");
    run.state = "paused";
    later();
  }

  function goOn() {
    announce();
    run.state = run.path ? "running" : "loading";
    at = null;
    send("go");
    later();
  }

  /** The one button: what it does now, and its name. */
  const moves = {
    train: ["Train", begin],
    pause: ["Pause", pause],
    go: ["Go on", goOn],
    again: ["Train again", () => {
      w.set({ seed: (run.seed + 1) % (w.domain("seed").most + 1) });
      begin();
    }],
  };
  const move = () => (busy() ? moves.pause : { paused: moves.go, done: moves.again }[run?.state]
    ?? moves.train);

  // --- what is shown -----------------------------------------------------------------------------

  const press = ui.button("Train", () => {
    const [, act] = move();
    act();
    if (act !== pause) show();
    update();
  }, { primary: true });
  const field = controls.text(w, "number", { label: "Your number", parse });
  Object.assign(field.input, { inputMode: "numeric", maxLength: 7, enterKeyHint: "go" });
  field.input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing && !run) press.click();
  });
  const status = h("p", { class: "lab-status" });
  const [said, wanted] = [h("span"), h("span")];
  const named = (name, words) => h("p", {}, h("span", { class: "now-name" }, name), " ", words);
  const written = h("span");
  const curve = chart.lines({ title: `${MEASURE}, after each step`, points: false,
    height: w.el.clientWidth < NARROW ? LOW : HIGH, x: axis(STEPS),
    y: { label: MEASURE, min: 0, max: 1, ticks: [[0, "0%"], [0.5, "50%"], [1, "100%"]] } });
  const map = chart.heatMap({ caption: "How much each word reads of each digit" });
  const about = h("p", { class: "now-about" });

  const when = h("span", { class: "bw-value", "aria-hidden": "true" });
  const scrubber = controls.steady(h("input", { type: "range", class: "bw-slider", min: 0,
    id: ui.freshId(), input() {
      const [to, mine, now] = [scrubber.valueAsNumber, framesOf(asked), frame().step];
      const found = to > now ? mine.find(({ step }) => step >= to)
        : mine.filter(({ step }) => step <= to).at(-1) ?? mine[0];
      at = found === mine.at(-1) ? null : found?.step ?? null;
      update();
    } }));
  const back = h("div", { class: "bw-field now-back" },
    h("div", { class: "bw-field-head" },
      h("label", { class: "bw-label", for: scrubber.id, text: "Look back" }), when), scrubber);

  /** Where the panel ends below the window, it moves up: after the press it is seen whole. */
  function show() {
    w.root.scrollIntoView({ block: "nearest", behavior: still.matches ? "instant" : "smooth" });
  }

  function statusLine() {
    const share = percent(run?.frames.at(-1)?.accuracy);
    const slow = run?.path === "plain" ? " This browser has no WebAssembly for it, so it takes longer."
      : "";
    const where = `step ${run?.frames.at(-1)?.step ?? 0} of ${run?.steps}`;
    return {
      loading: "The engine is being loaded…",
      running: `Training: ${where}, new numbers right: ${share}.${slow}`,
      paused: `Paused: ${where}, new numbers right: ${share}.`,
      failed: `✗ ${run?.problem}`,
      opened: `From a file: ${where}, new numbers right: ${share}.`,
      done: `Training done: ${run?.steps} steps in ${(run?.ms / 1000).toFixed(1)} s, new numbers `
        + `right: ${share}.${slow}`,
    }[run?.state] ?? "Not trained yet. It takes a few seconds, in this page.";
  }

  /** What to look at; after the run, what happened, and where to go on. */
  function drawAbout() {
    const ended = run?.state === "done";
    const now = ended ? `run ${run.id}` : "map";
    if (about.dataset.of === now) return;
    about.dataset.of = now;
    if (!ended) {
      about.textContent = "Each row of the attention map is a word. It shows how much of each digit the model "
        + "reads to write that word: the stronger the colour, the more.";
      return;
    }
    const { accuracy } = run.frames.at(-1);
    about.replaceChildren(accuracy >= ENOUGH ? "You trained a Transformer. "
      : "This time it did not get there. Train again begins from other random numbers. ",
    `Its ${run.parameters.toLocaleString("en")} parameters began as random numbers. What did they have `
      + "to learn? ", ...next.flatMap(([text, address], i) => [
      w.el.dataset.widget ? h("a", { href: address, text }) : text,
      i + 1 < next.length ? ", " : "."]));
  }

  function draw() {
    const now = frame();
    const right = inWords(Number(now.number));
    const [name] = move();
    if (press.textContent !== name) press.textContent = name;
    status.textContent = statusLine();
    status.classList.toggle("lab-failed", run?.state === "failed");

    const good = now.words?.join(" ") === right.join(" ");
    said.replaceChildren(...(now.words ? [
      labResults.tokens(now.words.length ? now.words : ["(no word)"],
        now.words.map((word, i) => word === right[i])), " ",
      h("span", { class: good ? "lab-verdict lab-good" : "lab-verdict",
        text: good ? "✓ right" : "✗ wrong" })] : ["nothing yet"]));
    wanted.textContent = right.join(" ");
    written.textContent = `It writes ${now.number} as`;
    map.update(now.weights, { columns: [...now.number, SHOWN],
      rows: shownEnd([...(now.words ?? right), END]) });

    const [frames, steps] = [run?.frames ?? [], run?.steps ?? STEPS];
    curve.update([{ name: undefined, points: frames.map(({ step, accuracy }) => [step, accuracy]) }],
      { at: frames.length ? now.step : null, x: axis(steps),
        description: `Now ${percent(frames.at(-1)?.accuracy)}.` });
    const mine = framesOf(asked);
    const idle = mine[0]?.step === mine.at(-1)?.step; // none, or the same one again
    Object.assign(scrubber, { max: steps, value: now.step, disabled: idle });
    scrubber.style.setProperty("--filled", now.step / steps);
    back.classList.toggle("now-idle", idle && !mine.length);
    const text = `step ${now.step}`;
    when.textContent = idle && run?.state === "done" ? `train again for ${asked}` : text;
    scrubber.setAttribute("aria-valuetext", now.words ? `${text}: ${now.words.join(" ")}` : text);
    drawAbout();
    take.update();
  }

  // --- the frame ---------------------------------------------------------------------------------

  w.add(
    h("div", { class: "lab-run now-run" }, field.element, press, status),
    h("div", { class: "now-said" }, named(written, said), named("It should be", wanted)),
    h("div", { class: "now-pictures" },
      h("div", { class: "now-curve" }, curve.element, back),
      h("div", { class: "now-map" }, h("p", { class: "bw-label", text: "What each word reads" }),
        map.element),
      about));
  w.foot([take.toggle], "Copy link");
  w.add(take.part);

  function forget() {
    run?.engine?.close();
    never();
    [run, at] = [null, null];
  }
  const announce = labWorker.joinPage(w, { others: pause, seen: later, forget });
  w.onReset(() => {
    forget();
    update();
  });
  w.draw(({ number }) => {
    if (number !== asked) {
      [asked, at] = [number, null];
      if (run?.path) {
        run.asks = !busy();
        send("ask", { text: asked });
      }
    }
    update();
  });
}

export default {
  render({ model, el }) {
    return ui.widget({ model, el, title: "Train a Transformer, here, now", lead: model.get("lead") },
      build);
  },
};
