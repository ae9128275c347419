// "Take it with you", under each laboratory: a trained model as a file, the cell of a notebook that loads
// it there, and the way back from a file.
import { button, freshId, h } from "../widgets/js/ui.js";
import * as labWorker from "./lab_worker.js";

const MOST = 2 ** 26; // bytes of a file
const ENDING = ".safetensors";
const LATE = 10_000; // milliseconds until a file has surely been taken

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

/** A fresh worker's answer; then it is closed, or use(answer, engine) takes it over. */
async function askFresh(w, type, content, use = null) {
  let fail = null;
  const failed = new Promise((_, reject) => { fail = (text) => reject(new Error(text)); });
  const engine = await labWorker.start(w, () => {}, fail);
  let taken = false;
  try {
    const found = await Promise.race([failed, ask(engine.worker, type, { ...content, wasm: engine.wasm })]);
    const result = use ? use(found, engine) : found;
    taken = use !== null;
    return result;
  } finally {
    failed.catch(() => {});
    if (!taken) engine.close();
  }
}

function download(bytes, name) {
  const href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), LATE);
}

const nameFor = (...texts) => texts.join(" ").toLowerCase().replace(/[^a-z0-9]+/g, "-") + ENDING;

/**
 * The button for the foot of a widget, the part that it opens, and update().
 * @param {any} w
 * @param {{ task: string, models: () => any[], question: () => string,
 *   adopt: (found: any, engine: any, name: string) => string }} options models: those that are shown, each
 *   with its name and either the worker that has it (engine) or its numbers (model), settings and step;
 *   question: the reader's input; adopt: shows a model out of a file, whose worker it takes over, and
 *   says what it is called now, or throws what does not fit
 */
export function take(w, { task, models, question, adopt }) {
  let [file, form] = [`model${ENDING}`, ""];

  const say = (text) => {
    message.textContent = text;
    message.classList.toggle("bw-problem", text.startsWith("✗"));
  };

  async function give({ name, engine, model, step, settings: { seed, ...settings } }) {
    try {
      const found = await (model
        ? askFresh(w, "take", { task, settings, seed, model, step }) : ask(engine.worker, "take", {}));
      file = nameFor(task, name, "step", found.step);
      download(found.bytes, file);
      say(`${file}: the model after step ${found.step}.`);
    } catch (error) {
      say(`✗ There is no file: ${error.message}`);
    }
    update();
  }

  async function open(chosen) {
    if (!chosen) return;
    const name = chosen.name.slice(0, 80);
    say(`${name} is being opened…`);
    try {
      if (chosen.size > MOST) throw new Error("It is larger than any model of a laboratory.");
      const bytes = await chosen.arrayBuffer();
      const short = name.replace(ENDING, "");
      say(await askFresh(w, "open", { task, bytes }, (found, engine) => adopt(found, engine, short)));
    } catch (error) {
      say(`✗ ${name} is not opened. ${error.message}`);
    }
    update();
  }

  const message = h("p", { class: "bw-note", role: "status" });
  const gives = h("span", { class: "bw-buttons" });
  const input = h("input", { type: "file", accept: ENDING, hidden: true, change() {
    open(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  } });
  const code = h("code");
  const pre = h("pre", { tabindex: 0, role: "group", "aria-label": "Cell of a notebook" }, code);
  const copy = button("Copy the cell", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Cell copied";
      setTimeout(() => { copy.textContent = "Copy the cell"; }, 2000);
    } catch {
      getSelection().selectAllChildren(code);
    }
  }, { quiet: true });
  const part = h("div", { class: "lab-take", id: freshId(), hidden: true,
    dragover: (event) => event.preventDefault(),
    drop(event) {
      event.preventDefault();
      open(event.dataTransfer.files[0]);
    } },
  h("div", { class: "bw-buttons" }, gives, button("Open a file", () => input.click()), input), message,
  h("p", { class: "bw-label", text: "In a notebook of this book, with the file in its folder" }), pre, copy);
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
        text: "Train a model, and you can download it." })]));
    }
    const asks = question();
    const text = [`from engine.take import ${asks ? "answer, " : ""}load_model, save_model\n`,
      `model, card = load_model(${JSON.stringify(file)})`,
      ...(asks ? [`answer(model, card, ${JSON.stringify(asks)})`] : []),
      '# The way back: save_model("mine.safetensors", model, card)'].join("\n");
    if (code.textContent !== text) code.textContent = text;
  }

  w.onReset(() => {
    file = `model${ENDING}`;
    say("");
    update();
  });
  return { toggle, part, update };
}
