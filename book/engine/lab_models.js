// Models of one visit, each trained in a worker of its own, which stays to answer questions.
import * as labWorker from "./lab_worker.js";

const OVER = ["done", "stopped", "failed"];

export const isOver = ({ state }) => OVER.includes(state);
export const alike = (one, other) => Object.keys(one).every((key) => one[key] === other[key]);

/**
 * The models of the widget w, all of one task. asked() is the reader's own text; changed() is called
 * after each message, ended() when a model has failed or is done.
 * Returns { all, begin, find, drop, stop, ask, forget }.
 * @param {any} w
 * @param {{ task: string, asked: () => string, changed: () => void, ended: () => void }} options
 */
export function models(w, { task, asked, changed, ended }) {
  const all = []; // in the order in which they began
  let made = 0;

  function fail(model, message) {
    if (!all.includes(model)) return;
    [model.state, model.problem] = ["failed", message];
    ended();
  }

  const heard = {
    ready(model, { path, steps }) {
      Object.assign(model, { path, steps });
      if (model.state === "loading") model.state = "running";
    },
    progress(model, { step, losses, ms }) {
      model.losses.push(...losses);
      Object.assign(model, { ms, step: step ?? model.step });
    },
    probe(model, { type, id, ...probe }) { model.probes.push(probe); },
    answer(model, { type, id, maps, ...found }) {
      model.answer = found.error ? null : found;
      const probe = model.probes.at(-1);
      if (maps && probe) model.probes.splice(-1, 1, { ...probe, maps });
    },
    done(model) {
      model.state = "done";
      ended();
    },
    failed(model, { message }) { fail(model, message); },
  };

  function hear(model, message) {
    if (!all.includes(model) || !Object.hasOwn(heard, message.type)) return;
    heard[message.type](model, message);
    changed();
  }

  /** A new model of these settings, with the seed among them, and of a title; it begins to train. */
  function begin(settings, title) {
    made += 1;
    const model = { id: made, settings, title, state: "loading", step: 0, steps: 1, ms: 0, losses: [],
      probes: [], answer: null, path: "", engine: null, problem: "" };
    all.push(model);
    start(model);
    return model;
  }

  async function start(model) {
    try {
      const engine = await labWorker.start(w, (message) => hear(model, message),
        (message) => fail(model, message));
      if (!all.includes(model)) {
        engine.close();
        return;
      }
      model.engine = engine;
      const { seed, ...settings } = model.settings;
      engine.worker.postMessage({ type: "start", id: model.id, task, settings, seed,
        wasm: engine.wasm, paused: model.state !== "loading" });
      engine.worker.postMessage({ type: "ask", text: asked(), step: 0 });
    } catch (error) {
      fail(model, error.message);
    }
  }

  function drop(model) {
    model.engine?.close();
    all.splice(all.indexOf(model), 1);
  }

  return {
    all,
    begin,
    drop,
    find: (settings) => all.find((one) => alike(one.settings, settings)),
    /** Stops the models that still train, but for one that may go on. */
    stop(kept = null) {
      for (const model of all.filter((one) => !isOver(one) && one !== kept)) {
        model.engine?.worker.postMessage({ type: "pause" });
        model.state = "stopped";
      }
    },
    /** Each model answers the reader's text. */
    ask() {
      for (const { engine, step } of all) {
        engine?.worker.postMessage({ type: "ask", text: asked(), step });
      }
    },
    forget() {
      for (const { engine } of all) engine?.close();
      all.length = 0;
    },
  };
}
