// The worker in which a laboratory trains. Its text comes from a file beside the page's scripts, or
// from the kernel of a notebook, when a reader first asks for it, and once for a page.
import * as ui from "../widgets/js/ui.js";

const script = /** @type {HTMLScriptElement | null} */ (document.currentScript);
const here = script?.src; // in a page; a notebook's module has no address
const PATIENCE = 20_000; // milliseconds that a kernel may take
const STARTS = "book-laboratory-starts"; // an event of the page
let [engine, questions] = [null, 0];

/** A script leaves the engine in `bookEngine`; unlike fetch, this works from a file too. */
const fromPage = () => new Promise((resolve, reject) => {
  const failed = () => {
    script.remove();
    reject(new Error("The engine did not load. Try again when you are online."));
  };
  const script = ui.h("script", {
    src: new URL("engine.js", here).href,
    error: failed,
    load() {
      const { text, wasm } = window.bookEngine ?? {};
      if (!text) failed();
      else resolve({ text, wasm: Uint8Array.from(atob(wasm), (c) => c.charCodeAt(0)).buffer });
    },
  });
  document.head.append(script);
});

/**
 * Sends the kernel a message and waits for its answer, which has the same number and this key.
 * @param {any} model
 * @param {Record<string, any>} message
 * @param {string} key
 * @param {{ buffers?: ArrayBuffer[], patience?: number }} options
 * @returns {Promise<{ answer: any, buffers: DataView[] }>}
 */
export function ask(model, message, key, { buffers, patience = PATIENCE } = {}) {
  return new Promise((resolve, reject) => {
    const id = questions += 1;
    const end = (call, value) => {
      clearTimeout(timer);
      model.off("msg:custom", hear);
      call(value);
    };
    const hear = (answer, found) => {
      if (answer?.id === id && Object.hasOwn(answer, key)) end(resolve, { answer, buffers: found });
    };
    const timer = setTimeout(() => end(reject,
      new Error("The kernel did not answer. Run this cell again, then try again.")), patience);
    model.on("msg:custom", hear);
    model.send({ ...message, id }, undefined, buffers);
  });
}

const fromKernel = async (model) => {
  const { answer, buffers: [{ buffer, byteOffset, byteLength }] } =
    await ask(model, { wanted: "engine" }, "engine");
  return { text: answer.engine, wasm: buffer.slice(byteOffset, byteOffset + byteLength) };
};

function load({ model, el }) {
  if (!engine) {
    engine = el.dataset.widget ? fromPage()
      : model.send ? fromKernel(model)
        : Promise.reject(new Error("There is no kernel to ask for the engine. Run this cell."));
    engine.catch(() => { engine = null; }); // so that the next try starts afresh
  }
  return engine;
}

/**
 * A new worker that calls hear(message) with each of its messages, and failed(text) if it cannot
 * be made; a promise of { worker, wasm }, which fails with a message to show.
 */
export async function start(w, hear, failed) {
  const { text, wasm } = await load(w);
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(address);
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = (event) => {
    event.preventDefault();
    failed(event.message || "This page may not start a worker, in which the model would train.");
  };
  return { worker, wasm, close() {
    worker.terminate();
    URL.revokeObjectURL(address);
  } };
}

/**
 * One laboratory of a page trains at a time. Gives what tells the others that this one begins.
 * @param {any} w
 * @param {{ others: () => void, seen: () => void, forget: () => void }} on another one begins,
 *   the page is in front again, the widget is closed
 */
export function joinPage(w, { others, seen, forget }) {
  const self = {}; // stands for this laboratory among those of the page
  const heard = (event) => event.detail !== self && others();
  const shown = () => !document.hidden && seen();
  document.addEventListener(STARTS, heard);
  document.addEventListener("visibilitychange", shown);
  w.onClose(() => {
    forget();
    document.removeEventListener(STARTS, heard);
    document.removeEventListener("visibilitychange", shown);
  });
  return () => document.dispatchEvent(new CustomEvent(STARTS, { detail: self }));
}
