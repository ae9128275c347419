// Models of one visit, each trained in a worker of its own, which stays to answer questions.
import * as labWorker from "./lab_worker.js";

const OVER = ["done", "stopped", "failed", "opened"];

export const isOver = ({ state }) => OVER.includes(state);
export const alike = (one, other) => Object.keys(one).length === Object.keys(other).length
  && Object.keys(one).every((key) => one[key] === other[key]);

/**
 * The models of the widget w, all of one task. asked() is the reader's own text; changed() is called
 * after each message, ended() when a model has failed or is done.
 * Returns { all, begin, adopt, ready, find, drop, stop, ask, forget }.
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

  function add(more) {
    made += 1;
    const model = { id: made, step: 0, steps: 1, ms: 0, losses: [], probes: [], answer: null, path: "",
      engine: null, problem: "", ...more };
    all.push(model);
    return model;
  }

  /** A new model of these settings, with the seed among them, and of a title; it begins to train. */
  function begin(settings, title) {
    const model = add({ settings, title, state: "loading" });
    start(model);
    return model;
  }

  /** A model out of a file, in the worker that opened it; its settings have the file's name too. */
  function adopt({ settings, probe, path, steps }, engine, file) {
    if (!Object.entries(settings).every(([key, value]) =>
      !Object.hasOwn(w.keys, key) || w.keys[key](value) !== undefined)) {
      throw new Error("This laboratory does not offer its settings.");
    }
    const model = add({ settings: { ...settings, file }, state: "opened", step: probe.step, steps,
      probes: [probe], path, engine });
    engine.worker.onmessage = ({ data }) => hear(model, data);
    engine.worker.postMessage({ type: "ask", text: asked() });
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
    adopt,
    drop,
    /** Of these models, those that can be downloaded, as lab_take has them. */
    ready: (some) => some.filter(({ state, probes }) => state !== "failed" && probes.length)
      .map(({ title, settings, engine }) => ({ name: `${title}, seed ${settings.seed}`, settings,
        engine })),
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
