// One run: a task, a model and an optimiser. Each number of it is fixed by the settings and the seed.
import { makeModel } from "./model.js";
import { makeAdam } from "./optimiser.js";
import { hashOf, makeRandom } from "./random.js";
import * as safetensors from "./safetensors.js";
import * as tasks from "./tasks.js";

const [PARAMETERS, TESTED] = [-1, -2]; // beside the steps 0, 1, ...: what else is drawn
const [WINDOW, TOO_HIGH] = [20, 5];
const [SLOW, FAST] = [0.001, 0.1]; // rates at which the laboratories rarely succeed

/** The seed of one part of a run: two numbers, mixed until every bit depends on every other. */
function mix(seed, part) {
  // As MurmurHash3 ends.
  let bits = Math.imul(seed ^ Math.imul(part + 3, 0x9e3779b1), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  bits = Math.imul(bits ^ (bits >>> 16), 0x27d4eb2f);
  return (bits ^ (bits >>> 15)) >>> 0;
}

function diverged(step, lr, reason) {
  const message = `Training diverged at step ${step}: ${reason}. The learning rate, ${lr}, is too `
    + "high here.";
  return Object.assign(new Error(message), { name: "Diverged", step });
}

/** What to know of settings that are possible and will hardly do, or null. */
function noteOn({ steps, lr }) {
  if (lr >= FAST) {
    return `At a rate of ${lr} these small models often learn badly or not at all: each step goes `
      + "too far.";
  }
  if (lr >= SLOW) return null;
  return `Adam changes a number by about the rate at each step, and the rate falls to 0: by at most `
    + `about ${(lr * steps / 2).toPrecision(1)} in this run, which may be too little to learn the task.`;
}

/** engine: a new one for each run. Throws a sentence for the reader where settings do not fit. */
export function makeRun({ engine, task, settings, seed }) {
  if (!Number.isInteger(seed) || seed < 0 || seed >= 2 ** 32) {
    throw new Error(`expected a seed from 0 to ${2 ** 32 - 1}, a whole number, got ${seed}`);
  }
  const work = tasks.make(task, settings, makeRandom(mix(seed, TESTED)));
  // Where parts can be left out, each of the others has the same first numbers in every model.
  const first = mix(seed, PARAMETERS);
  const model = makeModel(engine, work.design, work.design.without
    ? (name) => makeRandom(mix(first ^ hashOf(name), PARAMETERS)) : makeRandom(first));
  const adam = makeAdam(model.parameters, work.options);
  const { steps, lr } = work.options;
  const begun = model.save();
  const classes = work.design.classes ?? work.design.target_vocab ?? work.design.source_vocab;
  const [guess, recent] = [Math.log(classes), []];
  let taken = 0;

  const batch = (step) => work.batch(makeRandom(mix(seed, step)));

  /** One step; its number counts from 1, as in "after step 1". */
  function step() {
    if (taken === steps) throw new Error(`the run has ended: it has ${steps} steps`);
    const { loss } = model.learn(batch(taken));
    if (!Number.isFinite(loss)) throw diverged(taken + 1, lr, "the loss is no longer a number");
    recent.push(loss);
    if (recent.length > WINDOW) recent.shift();
    if (recent.length === WINDOW && Math.min(...recent) > TOO_HIGH * guess) {
      throw diverged(taken + 1, lr, `for ${WINDOW} steps the loss was more than ${TOO_HIGH} times `
        + `that of a guess, ${guess.toFixed(2)}`);
    }
    const { lr: rate } = adam.step(taken);
    taken += 1;
    return { step: taken, loss, lr: rate };
  }

  /** How the model does on what it is tested on, after the steps taken so far. */
  const probe = (text = "") => ({ step: taken, ...work.probe(model.read), ...maps(text) });

  /** The attention maps of the reader's text; if there is none that fits, of the first example. */
  function maps(text) {
    const own = text && work.ask ? work.maps(model.read, text) : null;
    return { maps: own ?? work.maps(model.read, null), own: own !== null };
  }

  /** The model's answer to a reader's text: {input, output, right} or {error}. */
  function ask(text) {
    if (!work.ask) return { error: "This laboratory takes no text." };
    return work.ask(model.read, String(text));
  }

  /** What another program needs to repeat the run: initial parameters and batches among it. */
  const record = () =>
    ({ design: work.design, options: work.options, parameters: named(begun), batch });

  /** All numbers of a model as its parameters. */
  function named(numbers) {
    let at = 0;
    return model.parameters.map(({ name, shape }) => {
      const size = shape.reduce((product, n) => product * n, 1);
      at += size;
      return { name, shape, data: numbers.slice(at - size, at) };
    });
  }

  /** The model as it is now, as a file, and after which step that is. */
  const pack = () => ({ step: taken, bytes: safetensors.write(named(model.save()),
    { task, settings: { ...settings, seed }, step: taken, design: work.design,
      tokens: work.tokens }) });

  /** The run stands where another one did, whose numbers these are. */
  function load(numbers, at = taken) {
    model.load(numbers);
    taken = at;
  }

  return {
    step, probe, maps, ask, record, pack, steps, note: noteOn(work.options),
    parameters: model.count, load, save: model.save,
    get done() { return taken === steps; },
  };
}

/** An object as text, in whatever order its entries stand. */
const sorted = (entries) => JSON.stringify(entries, Object.keys(entries).sort());

/**
 * The run of a file of this task, and its settings with the seed. Throws a sentence for the reader.
 * @param {{ engine: any, task: string, bytes: ArrayBuffer }} from
 */
export function openRun({ engine, task, bytes }) {
  const file = safetensors.read(bytes);
  const { task: its, settings, step, design } = file;
  if (its !== task) {
    throw new Error(`It is a model of another laboratory, “${its}”; this one is “${task}”.`);
  }
  const { seed, ...others } = settings;
  const run = makeRun({ engine, task, settings: others, seed });
  const record = run.record();
  if (sorted(record.design) !== sorted(design)) {
    throw new Error("Its design is not that of its settings.");
  }
  run.load(safetensors.numbers(file, record.parameters), step);
  return { run, settings };
}
