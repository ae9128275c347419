// A line for a sentence of the reader's own, which the model in the page then translates.
import * as typed from "./typed.js";
import * as ui from "./ui.js";
import * as vocabulary from "./vocabulary.js";
import * as weights from "./weights.js";

const FITTING = 6; // suggested words
export const LONGEST = 400; // letters of a sentence
const LARGE = 4e6; // bytes of a model whose work a reader notices
const quoted = (words) => words.map((word) => `“${word}”`).join(", ");

/** Which numbers a model with these words knows, as "2 to 99, without 21, 31, … 91". */
function range(words) {
  const known = typed.numbers(words);
  const [first, last] = [known[0], known.at(-1)];
  const without = Array.from({ length: last - first }, (_, i) => first + i)
    .filter((n) => !known.includes(n));
  const few = without.length > 3 ? [...without.slice(0, 2), `… ${without.at(-1)}`] : without;
  return `${first} to ${last}${few.length ? `, without ${few.join(", ")}` : ""}`;
}

/** An Error for the reader, with a sentence to offer instead. */
const refusal = (message, offer) => Object.assign(new Error(message), { offer });

/** As parse, for a model that reads any word: one that it does not know is <unk> to it. */
function cut(text, { lower, longest, ready }) {
  const tokens = typed.tokenise(text, { lower });
  if (!tokens.length) throw refusal("Write a sentence first", ready[0]);
  if (tokens.length > longest) {
    throw refusal(`At most ${longest} words fit, these are ${tokens.length}: leave some out`);
  }
  return { tokens, problems: [], spelled: false, offer: null };
}

/**
 * The words of a sentence that the model reads as <unk>, each once; an Error for more tokens than
 * fit, where its words fall into several.
 */
function unknown(model, words, { longest }) {
  const { length } = model.encode(words);
  if (length > longest) {
    throw refusal(`At most ${longest} sub-words fit, these are ${length}: leave some out`);
  }
  return [...new Set(words)].filter((word) => model.pieces(word).includes(vocabulary.UNK));
}

/**
 * What a text says in the words of the model, as typed.read finds it, with all of them known;
 * else an Error that says which are not, what the model knows, and with an `offer` to translate.
 */
export function parse(text, engine) {
  const { words, longest, ready } = engine;
  if (!words) return cut(text, engine);
  const found = typed.read(text, words);
  const { tokens, problems } = found;
  const offer = found.offer ?? ready[0] ?? null;
  if (!tokens.length) throw refusal("Write a sentence first, for example “two euros”", offer);
  if (problems.length) {
    const texts = (number) => [...new Set(problems.filter((one) => one.number === number)
      .map((one) => one.text))].slice(0, 5);
    const [numbers, others] = [texts(true), texts(false)];
    const better = [...new Set(problems.filter((one) => !one.number && one.better)
      .map((one) => one.better))];
    const many = (list) => (list.length > 1 ? "s" : "");
    throw refusal([
      others.length && `The model does not know the word${many(others)} ${quoted(others)}`,
      better.length ? `Near in its vocabulary: ${quoted(better.slice(0, 5))}`
        : others.length && "It knows numbers, money, measures, times and dates: see all its "
          + "words below",
      numbers.length && `The model does not know the number${many(numbers)} ${quoted(numbers)}`,
      numbers.length && typed.numbers(words).length
        && `It knows the whole numbers from ${range(words)}`,
    ].filter(Boolean).join(". "), offer);
  }
  if (tokens.length > longest) {
    throw refusal(`At most ${longest} tokens fit, these are ${tokens.length}: leave some out`);
  }
  return found;
}

/**
 * The line, its suggestions, and the model behind it. Options: engine, what Python says of the
 * model (none: nothing is offered); number, the index in the list of sentences that the reader's
 * own one has, whose text the state `own` holds; work(model, words), what the widget makes of it:
 * any object with a list `said`, the translation.
 * Returns { element, size, load, model, sentence, missing, news }:
 *   size, of the model, in words; load(tell) fetches it: true if it came, else tell(message)
 *   model() -> the model, once it is there
 *   sentence(state) -> what `work` made, or null; missing() -> why there is none
 *   news() -> what is to be read out, once
 */
export function own(w, { engine, number, work }) {
  if (!engine.id) {
    return { element: null, model: () => null, sentence: () => null, news: () => "" };
  }
  const size = engine.bytes < 1e6 ? `${Math.round(engine.bytes / 1000)} kB`
    : `${(engine.bytes / 1e6).toFixed(1)} MB`;
  let [model, waiting, closed] = [null, "", false]; // waiting: for what
  let [shown, news, run] = ["", "", 0]; // the text that the line stands for
  let held = null; // what was made of the last sentence, and its text
  let missing = null; // why there is none, in words
  w.onClose(() => { closed = true; });

  const note = ui.h("p", { class: "bw-note", id: ui.freshId(), "aria-live": "polite" });
  const input = ui.h("input", { type: "text", class: "bw-input", id: ui.freshId(),
    autocomplete: "off", autocapitalize: "none", spellcheck: "false", enterkeyhint: "go",
    maxlength: LONGEST, "aria-describedby": note.id, input: suggest,
    keydown(event) { // a form's own way with this key does not work in JupyterLab
      if (event.key === "Enter" && !event.isComposing) send();
    } });
  const fitting = ui.h("div", { class: "co-fitting", role: "group",
    "aria-label": "Words that fit" });
  const button = ui.button("", () => send(), { primary: true });
  const instead = ui.h("div", { class: "co-instead", hidden: true });
  const form = ui.h("div", { class: "co-form" },
    ui.h("label", { class: "bw-label", for: input.id, text: "Your own sentence" }),
    ui.h("div", { class: "co-line" }, input, button), fitting, note, instead);
  const offered = (text) => ui.button(text, () => { write(text); send(); });
  const ready = ui.h("div", { class: "co-ready", role: "group",
    "aria-label": "Sentences to try" }, engine.ready.map(offered));
  const all = engine.words && ui.h("details", { class: "co-all" },
    ui.h("summary", { text: `All ${engine.words.length} words that it knows` }),
    ui.h("p", { text: [...engine.words].sort().join(" ") }));

  function write(text) {
    input.value = text;
    input.setSelectionRange(text.length, text.length);
    fitting.replaceChildren();
    mark(null);
  }
  /**
   * The note under the line: a problem, with what to try instead, or how the line was read.
   * @param {string | null} problem
   * @param {{ offer?: string, found?: any }} more
   */
  function mark(problem, { offer, found } = {}) {
    if (problem) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    note.classList.toggle("bw-problem", Boolean(problem));
    note.textContent = problem ? `✗ ${problem}.`
      : found ? `I read: ${found.tokens.join(" ")}${found.spelled
        ? " (figures as words; with a blank between them, as in 4 2, they stay figures)" : ""}${
        found.unknown?.length ? `. Unknown to the model: ${found.unknown.join(", ")}` : ""}`
        : engine.words ? `Up to ${engine.longest} tokens: numbers, money, measures, times, dates.`
          : `Up to ${engine.longest} words, in the language of the sources.`;
    note.hidden = !problem && !found && fitting.childElementCount > 0;
    instead.hidden = !offer;
    instead.replaceChildren(...(offer ? ["This works: ",
      ui.button(offer, () => { write(offer); send(); input.focus(); })] : []));
  }
  /**
   * Says what is wrong, and takes away what was shown; the line stays as it was typed.
   * @param {{ message: string, offer?: string }} problem
   */
  function refuse({ message, offer }) {
    held = null;
    shown = "";
    missing = "No translation. What stood here before is cleared.";
    mark(message, { offer });
    w.set({ own: "", sentence: number });
    w.redraw();
  }
  function relabel() {
    button.textContent = waiting
      || (model ? "Translate" : `Load the model (${size}) and translate`);
    button.setAttribute("aria-disabled", Boolean(waiting));
  }

  /** The word that is being written, up to the caret. */
  const begun = () => /[\p{L}]*$/u.exec(input.value.slice(0, input.selectionStart))[0];
  function suggest() {
    const start = begun().toLowerCase();
    const words = start && engine.words ? engine.words.filter((word) => word.startsWith(start)) : [];
    fitting.replaceChildren(...words.slice(0, FITTING).map((word) => ui.button(word, () => {
      const [from, to] = [input.selectionStart - begun().length, input.selectionStart];
      input.setRangeText(`${word} `, from, to, "end");
      input.focus();
      suggest();
    }, { quiet: true })));
    mark(null);
    if (start && engine.words) w.say(words.length ? `Words that fit: ${words.slice(0, FITTING).join(", ")}`
      : `No word of the model begins with ${start}`);
  }

  /** Does some work while the button says what is waited for. */
  async function meanwhile(text, act) {
    waiting = text;
    relabel();
    await act();
    waiting = "";
    relabel();
  }
  /** Whether the model is there, once it has come; tell(message) if it does not come. */
  async function load(tell) {
    if (model) return true;
    await meanwhile("Loading the model…", async () => {
      try {
        model = await weights.load(engine.id, w);
      } catch (error) {
        if (!closed) tell(error.message);
      }
    });
    if (model && !closed) w.redraw();
    return Boolean(model) && !closed;
  }

  /** Translates the line, or `text`: that of the state, if it did not come through the line. */
  async function send(text = null) {
    if (waiting) return;
    const mine = run;
    try {
      const found = parse(text ?? input.value, engine);
      fitting.replaceChildren();
      mark(null);
      if (!model) {
        missing = "Loading the model…";
        if (text === null) {
          shown = "";
          w.set({ own: "", sentence: number });
        }
        w.redraw();
        const failed = (message) => { if (mine === run) refuse({ message }); };
        if (!await load(failed) || mine !== run) return; // the reader has reset it
        if (text !== null && w.get("sentence") !== number) return; // or gone elsewhere
      }
      if (!engine.words) found.unknown = unknown(model, found.tokens, engine);
      // The work stops the page, so the button must be drawn before it.
      if (engine.bytes > LARGE) await meanwhile("Translating…", ui.drawn);
      if (mine !== run) return;
      const own = found.tokens.join(" ");
      held = { text: own, one: work(model, found.tokens) };
      shown = own; // the line stays as it was typed
      missing = null;
      mark(null, { found });
      news = `Translation: ${held.one.said.join(" ")}. `;
      w.set({ own, sentence: number });
      w.redraw();
    } catch (error) {
      refuse(error);
    }
  }

  mark(null);
  relabel();
  w.onReset(() => {
    run += 1;
    missing = null;
    write("");
  });
  w.draw(({ own: text, sentence }) => {
    if (text !== shown) write(text);
    shown = text;
    if (sentence !== number) missing = null;
    else if (text && held?.text !== text) send(text); // from an address or from the kernel
    else if (!text && !missing) w.set({ sentence: 0 });
  });

  return {
    element: ui.h("div", { class: "co-own" }, [form, ready, all].filter(Boolean)),
    size,
    load,
    model: () => model,
    missing: () => missing,
    sentence: (state) => (state.sentence === number && held?.text === state.own && held
      ? held.one : null),
    news() {
      const text = news;
      news = "";
      return text;
    },
  };
}
