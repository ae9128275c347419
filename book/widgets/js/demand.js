// What a widget gets only when a reader asks for it: from a file beside the page's scripts, or from
// the kernel of a notebook.
import * as ui from "./ui.js";

const script = /** @type {HTMLScriptElement | null} */ (document.currentScript);
const here = script?.src; // in a page; a notebook's module has no address
const PATIENCE = 20_000; // milliseconds that a kernel may take
let questions = 0;

/**
 * Loads the script at this address, beside the page's own, and then calls `read` for what it has
 * left in the page; a promise of that, which fails with `problem`. Unlike fetch, this works from a
 * file too.
 * @param {string} address
 * @param {() => any} read
 * @param {string} problem
 * @returns {Promise<any>}
 */
export const fromPage = (address, read, problem) => new Promise((resolve, reject) => {
  const failed = () => {
    script.remove();
    reject(new Error(problem));
  };
  const script = ui.h("script", {
    src: new URL(address, here).href,
    error: failed,
    load() {
      const found = read();
      if (found) resolve(found);
      else failed();
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
