// The worker in which a laboratory trains. Its text comes from a file beside the page's scripts, or
// from the kernel of a notebook, when a reader first asks for it, and once for a page.
import * as demand from "../widgets/js/demand.js";

const STARTS = "book-laboratory-starts"; // an event of the page
let engine = null;

const fromPage = async () => {
  const { text, wasm } = await demand.fromPage("engine.js",
    () => window.bookEngine?.text && window.bookEngine,
    "The engine did not load. Try again when you are online.");
  return { text, wasm: Uint8Array.from(wasm.match(/../g), (two) => parseInt(two, 16)).buffer };
};

const fromKernel = async (model) => {
  const { answer, buffers: [{ buffer, byteOffset, byteLength }] } =
    await demand.ask(model, { wanted: "engine" }, "engine");
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
 * be made; a promise of { worker, wasm, close, leave }, which fails with a message to show. leave()
 * lets the worker send its last report first. more: scripts that stand behind the engine's.
 */
export async function start(w, hear, failed, more = "") {
  const { text, wasm } = await load(w);
  const address = URL.createObjectURL(new Blob([text, more], { type: "text/javascript" }));
  const worker = new Worker(address);
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = (event) => {
    event.preventDefault();
    failed(event.message || "This page may not start a worker, in which the model would train.");
  };
  const forget = () => URL.revokeObjectURL(address);
  return { worker, wasm, close() {
    worker.terminate();
    forget();
  }, leave() {
    worker.postMessage({ type: "leave" });
    forget();
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
