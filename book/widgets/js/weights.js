// Where a model's weights come from: a file beside the page's scripts, or the kernel of a notebook.
// Nothing is fetched before `load` is called, and a model comes once for a page.
import * as transformer from "./transformer.js";
import * as ui from "./ui.js";

const script = /** @type {HTMLScriptElement | null} */ (document.currentScript);
const here = script?.src; // in a page; a notebook's module has no address
const PATIENCE = 20_000; // milliseconds that a kernel may take
const loaded = new Map();

const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

/** A script leaves the model in `bookModels`; unlike fetch, this works from a file too. */
const fromPage = (id) => new Promise((resolve, reject) => {
  const failed = () => {
    script.remove();
    reject(new Error("the model did not load. Try again when you are online"));
  };
  const script = ui.h("script", {
    src: new URL(`models/${id}.js`, here).href,
    error: failed,
    load() {
      const found = window.bookModels?.[id];
      if (found) resolve({ header: found.header, data: bytes(found.data) });
      else failed();
    },
  });
  document.head.append(script);
});

const fromKernel = (id, model) => new Promise((resolve, reject) => {
  const end = (call, value) => {
    clearTimeout(timer);
    model.off("msg:custom", hear);
    call(value);
  };
  const hear = (message, buffers) => {
    if (message?.model !== id) return;
    const [{ buffer, byteOffset, byteLength }] = buffers; // a DataView
    end(resolve, { header: message.header, data: new DataView(buffer, byteOffset, byteLength) });
  };
  const timer = setTimeout(() => end(reject,
    new Error("the kernel did not answer. Run this cell again, then try again")), PATIENCE);
  model.on("msg:custom", hear);
  model.send({ wanted: id });
});

/** The model of this name, ready to compute; a promise that fails with a message to show. */
export function load(id, { model, el }) {
  if (!loaded.has(id)) {
    const file = el.dataset.widget ? fromPage(id)
      : model.send ? fromKernel(id, model)
        : Promise.reject(new Error("there is no kernel to ask for the model. Run this cell"));
    loaded.set(id, file.then(transformer.build));
    loaded.get(id).catch(() => loaded.delete(id)); // so that the next try starts afresh
  }
  return loaded.get(id);
}
