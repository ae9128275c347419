// The worker's end of a laboratory. It trains in slices and listens to the page between them.
import { makeEngine } from "./tensors.js";
import * as trainer from "./trainer.js";

const SLICE = 40; // milliseconds of training before the page's messages are looked at
const REPORT = 100; // milliseconds between two reports
const PROBES = 80; // of a whole run, closer together at its start
const [SHARE, FREE] = [0.2, 1000]; // of training's time for probes, and milliseconds beside it
const ASKED = 100; // steps between two answers to the reader's own input
const slices = new MessageChannel();
let [id, run, going, text, probes, losses] = [0, null, false, "", null, []];
let [until, keeps] = [null, false]; // a step before the last one to stop at; whether models are sent
let looked = { of: "", run: null }; // a second model, which the page loads with earlier parameters
let turn = 0; // of the slices; each is asked for twice
let [spent, probing, reported, waiting] = [0, 0, 0, Promise.resolve()]; // milliseconds

const post = (type, content) => postMessage({ type, id, ...content });

/** The steps before which the model is probed. */
const probeSteps = (steps) => new Set(Array.from({ length: PROBES + 1 }, (_, k) =>
  Math.round(steps * (k / PROBES) ** 1.5)));

function report(step) {
  reported = performance.now();
  post("progress", { step, losses, ms: spent });
  losses = [];
}

/** Probes the model as it is now; returns after which step that is. */
function probe() {
  const begun = performance.now();
  const found = run.probe(text);
  const model = keeps ? run.save() : null;
  postMessage({ type: "probe", id, ...found, text, model },
    { transfer: model ? [model.buffer] : [] });
  probing += performance.now() - begun;
  return found.step;
}

function answer(step) {
  if (text) post("answer", { step, text, ...run.ask(text) });
}

/** Takes a question of the reader's, or says what is wrong with it and keeps the one before. */
function take(asked) {
  const found = asked ? run.ask(asked) : null;
  if (found?.error) post("answer", { step: null, text: asked, ...found });
  else text = asked;
}

/** One step; then what is due after it. */
function advance() {
  const begun = performance.now();
  try {
    const { step, loss } = run.step();
    spent += performance.now() - begun;
    losses.push([step, loss]);
    const ends = run.done || step === until;
    if (ends || (probes.has(step) && probing < SHARE * spent + FREE)) probe();
    if (step % ASKED === 0 || ends) answer(step);
    if (ends) going = false;
    if (!going || performance.now() - reported > REPORT) report(step);
    if (ends) post(run.done ? "done" : "halted", { step });
  } catch (error) {
    going = false;
    const step = losses.at(-1)?.[0] ?? null;
    report(step);
    post("failed", { name: error.name, message: error.message, step });
  }
}

/**
 * Asks for the next slice: by a message, since a timer waits 4 ms, and by a timer too, since in WebKit
 * a message to oneself goes by way of the page, which may be busy drawing.
 */
function next() {
  turn += 1;
  slices.port2.postMessage(turn);
  setTimeout(slice, 0, turn);
}

slices.port1.onmessage = ({ data }) => slice(data);

function slice(asked) {
  if (asked !== turn) return;
  turn += 1;
  const begun = performance.now();
  let last = 0; // how long the last step took
  for (let now = begun; going && now + last - begun < SLICE;) {
    advance();
    last = performance.now() - now;
    now += last;
  }
  if (going) next();
}

function go() {
  if (going || run.done) return;
  going = true;
  next();
}

/** WebAssembly where the browser has it and the page's policy lets it; else plain JavaScript. */
async function fastest(wasm) {
  try {
    return await makeEngine({ wasm });
  } catch {
    return makeEngine({ wasm: null });
  }
}

/** Answers on the port of a question: with what is found, or with what went wrong. */
async function reply(port, find) {
  try {
    port.postMessage(await find());
  } catch ({ message }) {
    port.postMessage({ error: message });
  }
}

const heard = {
  async start({ id: number, task, settings, seed, wasm, text: asked = "", paused, ...more }) {
    [id, text] = [number, ""];
    ({ until = null, models: keeps = false } = more);
    try {
      const engine = await fastest(wasm);
      run = trainer.makeRun({ engine, task, settings, seed });
      probes = probeSteps(run.steps);
      post("ready", { path: engine.path, parameters: run.parameters, steps: run.steps,
        note: run.note });
      take(asked);
      answer(probe());
      if (!paused) go();
    } catch (error) {
      post("failed", { name: error.name, message: error.message, step: null });
    }
  },
  pause() { // the page then shows the step at which the run stands, not that of the last report
    if (!run || !going) return;
    going = false;
    const step = probe();
    answer(step);
    report(step);
  },
  go,
  step() { if (!going && !run.done) advance(); },
  ask({ text: asked }) {
    take(asked);
    if (text === asked) answer(probe()); // its maps are those of the step that answers it
  },
  write({ text: asked }) { // answered by the model as it is, without a probe
    text = asked;
    answer(null);
  },
  question({ text: asked }) { take(asked); }, // for what comes; the page looks at another model
  /** What another model of the page answers, and its maps: any run's, after any step. */
  async look({ id: number, step, task, settings, seed, wasm, model, text: asked }) {
    const of = JSON.stringify([task, settings, seed]);
    let [found, maps] = /** @type {any[]} */ ([{}, {}]);
    try {
      if (looked.of !== of) {
        looked = { of, run: trainer.makeRun({ engine: await fastest(wasm), task, settings, seed }) };
      }
      looked.run.load(model);
      if (asked) found = looked.run.ask(asked);
      if (!found.error) maps = looked.run.maps(asked);
    } catch ({ message }) {
      found = { error: message }; // a kept model that is not of these settings
    }
    postMessage({ type: "looked", id: number, step, text: asked, answer: found, ...maps });
  },
  /** The model as a file: the worker's own or, in a worker that has none, one of these numbers. */
  take: ({ port, model, step, wasm, task, settings, seed }) => reply(port, async () => {
    if (model) {
      run = trainer.makeRun({ engine: await fastest(wasm), task, settings, seed });
      run.load(model, step);
    }
    return run.pack();
  }),
  /** A model out of a file becomes the worker's own; it does not train. */
  open: ({ port, task, bytes, wasm }) => reply(port, async () => {
    const engine = await fastest(wasm);
    const found = trainer.openRun({ engine, task, bytes });
    ({ run } = found);
    const probe = run.probe();
    return { settings: found.settings, path: engine.path, steps: Math.max(run.steps, probe.step),
      parameters: run.parameters, model: run.save(), probe };
  }),
  leave() {
    heard.pause();
    close();
  },
  record({ steps }) {
    const { design, options, parameters, batch } = run.record();
    const batches = Array.from({ length: steps }, (_, k) => batch(k));
    post("recorded", { design, options, parameters, batches });
  },
};

const FIRST = ["start", "look", "take", "open", "leave"]; // what may come before there is a run

onmessage = ({ data }) => { // one after the other, although the engine takes a while to make
  waiting = waiting.then(() => (run || FIRST.includes(data.type) ? heard[data.type](data) : null));
};
