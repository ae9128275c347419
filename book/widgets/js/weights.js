// Where a model's weights come from: a file beside the page's scripts, or the kernel of a notebook.
// Nothing is fetched before `load` is called, and a model comes once for a page.
import * as demand from "./demand.js";
import * as parameters from "./parameters.js";
import * as transformer from "./transformer.js";

const PATIENCE = 20_000; // milliseconds that a kernel may take
const loaded = new Map();

const fromPage = async (id) => {
  const { header, data } = await demand.fromPage(`models/${id}.js`, () => window.bookModels?.[id],
    location.protocol === "file:" ? "the model did not load. Its file must stand beside the page"
      : "the model did not load. Try again when you are online");
  return { header, data: parameters.fromText(data, header) };
};

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
