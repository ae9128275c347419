// "Take it with you", under each laboratory: a trained model as a file, the cell of a notebook that loads
// it there, and the way back from a file.
import { button, copier, freshId, h } from "../widgets/js/ui.js";
import * as labWorker from "./lab_worker.js";

const MOST = 2 ** 26; // bytes of a file
const ENDING = ".safetensors";
const LATE = 10_000; // milliseconds until a file has surely been taken
const LONGEST = 40; // letters of a file's name in a panel

/** What a worker answers to a question, on a port of its own. */
const ask = (worker, type, content) => new Promise((resolve, reject) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }) => {
    port1.close();
    if (data.error) reject(new Error(data.error));
    else resolve(data);
  };
  worker.postMessage({ ...content, type, port: port2 }, [port2]);
});

/**
 * The same of a fresh worker with these scripts more, which use(answer, engine) takes over where it
 * returns something.
 */
const askFresh = (w, more, type, content, use) => new Promise((resolve, reject) => {
  labWorker.start(w, () => {}, (text) => reject(new Error(text)), more).then(async (engine) => {
    let used = "";
    try {
      used = use(await ask(engine.worker, type, { ...content, wasm: engine.wasm }), engine);
    } finally {
      if (!used) engine.close();
    }
  }).then(resolve, reject);
});

/**
 * The button for the foot of a widget, the part that it opens, and update().
 * @param {any} w
 * @param {{ task: string, models: () => any[], question: () => string,
 *   adopt: (found: any, engine: any, name: string) => string, scripts?: () => Promise<string>,
 *   note?: string }} options models: those that are shown, each
 *   with its name and either the worker that has it (engine) or its numbers (model), settings and step;
 *   question: the reader's input; adopt: shows a model out of a file, whose worker it takes over, and
 *   says what it is called now, or throws what does not fit; scripts: what a worker needs beside the
 *   engine; note: what else is in a file
 */
export function take(w, { task, models, question, adopt, scripts = async () => "", note = "" }) {
  let [file, form] = [`model${ENDING}`, ""];

  const say = (text) => {
    message.textContent = text;
    message.classList.toggle("bw-problem", text.startsWith("✗"));
  };

  /** Does what takes a moment, and says what went wrong, if anything did. */
  async function attempt(what, act) {
    try {
      await act();
    } catch ({ message: why }) {
      say(`✗ ${what} ${why}`);
    }
    update();
  }

  const give = ({ name, engine, model, step, settings: { seed, ...settings } }) =>
    attempt("There is no file.", async () => {
      const save = ({ step: after, bytes }) => {
        file = `${task} ${name} step ${after}`.toLowerCase().replace(/[^a-z0-9_]+/g, "-") + ENDING;
        const href = URL.createObjectURL(new Blob([bytes]));
        h("a", { href, download: file }).click();
        setTimeout(() => URL.revokeObjectURL(href), LATE);
        say(`${file}: the model after step ${after}.${note}`);
      };
      return model ? askFresh(w, await scripts(), "take", { task, settings, seed, model, step }, save)
        : ask(engine.worker, "take").then(save);
    });

  const open = (chosen) => chosen && attempt(`${chosen.name} is not opened.`, async () => {
    say(`${chosen.name} is being opened…`);
    if (chosen.size > MOST) throw new Error("It is too large.");
    await askFresh(w, await scripts(), "open", { task, bytes: await chosen.arrayBuffer() }, (found, engine) => {
      const text = adopt(found, engine, chosen.name.replace(ENDING, "").slice(0, LONGEST));
      say(text);
      return text;
    });
  });

  const message = h("p", { class: "bw-note", role: "status" });
  const gives = h("span", { class: "bw-buttons" });
  const input = h("input", { type: "file", accept: ENDING, hidden: true, change() {
    open(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  } });
  const [copy, cell] = copier("Copy the cell", "Cell of a notebook", () => cell.value, undefined,
    { done: "Cell copied", tag: "textarea" });
  Object.assign(cell, { hidden: false, wrap: "off" });
  const part = h("div", { class: "lab-take", id: freshId(), hidden: true,
    dragover: (event) => event.preventDefault(),
    drop(event) {
      event.preventDefault();
      open(event.dataTransfer.files[0]);
    } },
  h("div", { class: "bw-buttons" }, gives, button("Open a file", () => input.click()), input), message,
  h("p", { class: "bw-label", text: "In a notebook of this book, with the file in its folder" }), cell, copy);
  const toggle = button("Take it with you", () => {
    part.hidden = !part.hidden;
    toggle.setAttribute("aria-expanded", !part.hidden);
    update();
  }, { quiet: true });
  toggle.setAttribute("aria-expanded", "false");
  toggle.setAttribute("aria-controls", part.id);

  function update() {
    if (part.hidden) return;
    const all = models();
    const now = all.map(({ name }) => name).join("|");
    if (now !== form || !gives.firstChild) {
      form = now;
      gives.replaceChildren(...(all.length ? all.map(({ name }) => button(`Download ${name}`, () =>
        give(models().find((one) => one.name === name)))) : [h("span", { class: "bw-note",
        text: "Train a model first." })]));
    }
    const asks = question();
    const lines = [`from engine.take import ${asks ? "answer, " : ""}load_model, save_model\n`,
      `model, card = load_model(${JSON.stringify(file)})`,
      ...(asks ? [`answer(model, card, ${JSON.stringify(asks)})`] : []),
      '# The way back: save_model("mine.safetensors", model, card)'];
    const text = lines.join("\n");
    if (cell.value !== text) Object.assign(cell, { value: text, rows: lines.length + 1 });
  }

  w.onReset(() => {
    file = `model${ENDING}`;
    say("");
    update();
  });
  return { toggle, part, update };
}
