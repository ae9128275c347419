// The worker's end of a laboratory. It trains in slices and listens to the page between them.
import { makeEngine } from "./tensors.js";
import * as trainer from "./trainer.js";

const SLICE = 40; // milliseconds of training before the page's messages are looked at
const REPORT = 100; // milliseconds between two reports
const PROBES = 80; // of a whole run, closer together at its start
const [SHARE, FREE] = [0.2, 1000]; // of training's time for probes, and milliseconds beside it
const ASKED = 100; // steps between two answers to the reader's own input
const slices = new MessageChannel(); // a timer would wait 4 ms before each slice
let [id, run, going, text, probes, losses] = [0, null, false, "", null, []];
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
  post("probe", found);
  probing += performance.now() - begun;
  return found.step;
}

function answer(step) {
  if (text) post("answer", { step, text, ...run.ask(text) });
}

/** One step; then what is due after it. */
function advance() {
  const begun = performance.now();
  try {
    const { step, loss } = run.step();
    spent += performance.now() - begun;
    losses.push([step, loss]);
    if (run.done || (probes.has(step) && probing < SHARE * spent + FREE)) probe();
    if (step % ASKED === 0 || run.done) answer(step);
    if (run.done) going = false;
    if (!going || performance.now() - reported > REPORT) report(step);
    if (run.done) post("done", { step });
  } catch (error) {
    going = false;
    const step = losses.at(-1)?.[0] ?? null;
    report(step);
    post("failed", { name: error.name, message: error.message, step });
  }
}

slices.port1.onmessage = () => {
  const begun = performance.now();
  let last = 0; // how long the last step took
  for (let now = begun; going && now + last - begun < SLICE;) {
    advance();
    last = performance.now() - now;
    now += last;
  }
  if (going) slices.port2.postMessage(null);
};

function go() {
  if (going || run.done) return;
  going = true;
  slices.port2.postMessage(null);
}

/** WebAssembly where the browser has it and the page's policy lets it; else plain JavaScript. */
async function fastest(wasm) {
  try {
    return await makeEngine({ wasm });
  } catch {
    return makeEngine({ wasm: null });
  }
}

const heard = {
  async start({ id: number, task, settings, seed, wasm, text: asked, paused }) {
    [id, text] = [number, asked];
    try {
      const engine = await fastest(wasm);
      run = trainer.makeRun({ engine, task, settings, seed });
      probes = probeSteps(run.steps);
      post("ready", { path: engine.path, parameters: run.parameters, steps: run.steps });
      answer(probe());
      if (!paused) go();
    } catch (error) {
      post("failed", { name: error.name, message: error.message, step: null });
    }
  },
  pause() { // the page then shows the step at which the run stands, not that of the last report
    if (!going) return;
    going = false;
    report(probe());
  },
  go,
  step() { if (!going && !run.done) advance(); },
  ask({ text: asked }) {
    text = asked;
    answer(probe()); // the maps of the text are those of the step that answers it
  },
  record({ steps }) {
    const { design, options, parameters, batch } = run.record();
    const batches = Array.from({ length: steps }, (_, k) => batch(k));
    post("recorded", { design, options, parameters, batches });
  },
};

onmessage = ({ data }) => { // one after the other, although the engine takes a while to make
  waiting = waiting.then(() => (run || data.type === "start" ? heard[data.type](data) : null));
};
