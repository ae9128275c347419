// A line for a sentence of the reader's own, which the model in the page then translates.
const composer = (() => {
  const FITTING = 6; // suggested words
  // As lib.data.tokenise cuts: a run of letters, one digit, or one other mark.
  const TOKEN = /[\p{L}\p{Letter_Number}\p{No}_]+|\p{Decimal_Number}|[^\p{L}\p{N}_\s]/gu;
  const tokenise = (text) => text.toLowerCase().normalize("NFC").match(TOKEN) ?? [];
  const quoted = (words) => words.map((word) => `“${word}”`).join(", ");

  /** Words that begin as this one does, with three letters of it or more: the longest beginning. */
  function near(word, known) {
    for (let size = word.length; size >= 3; size -= 1) {
      const found = known.filter((other) => other.startsWith(word.slice(0, size)));
      if (found.length) return found;
    }
    return [];
  }

  /** The tokens of a text, all of them known; else an Error that says what to write instead. */
  function parse(text, { words, longest }) {
    const tokens = tokenise(text);
    if (!tokens.length) throw new Error("Write a sentence first, for example “two euros”");
    const unknown = [...new Set(tokens.filter((token) => !words.includes(token)))];
    if (unknown.length) {
      const better = [...new Set(unknown.flatMap((word) => near(word, words).slice(0, 2)))];
      throw new Error(`The model does not know ${quoted(unknown.slice(0, 5))}. `
        + (better.length ? `Near in its vocabulary: ${quoted(better.slice(0, 5))}`
          : "It knows numbers, money, measures, times and dates: see all its words below"));
    }
    if (tokens.length > longest) {
      throw new Error(`At most ${longest} tokens fit, these are ${tokens.length}: leave some out`);
    }
    return tokens;
  }

  /**
   * The line, its suggestions, and the model behind it. Options: engine, what Python says of the
   * model (none: nothing is offered); stages, of the tracer; k, how many guesses to keep; number,
   * the place in the list of sentences that the reader's own one has, which `own` holds.
   * Returns { element, sentence(state), news() }: the traced sentence, or null where another one is
   * to be shown; and what is to be read out, once.
   */
  function own(w, { engine, stages, number, k }) {
    if (!engine.id) return { element: null, sentence: () => null, news: () => "" };
    let [model, waiting, closed] = [null, false, false];
    let [shown, tried, news, run] = ["", null, "", 0]; // what the line stands for; what failed
    let held = null; // the sentence that was traced last, and its text
    w.onClose(() => { closed = true; });

    const note = ui.h("p", { class: "bw-note", id: ui.freshId(), "aria-live": "polite" });
    const input = ui.h("input", { type: "text", class: "bw-input", id: ui.freshId(),
      autocomplete: "off", autocapitalize: "none", spellcheck: "false", enterkeyhint: "go",
      maxlength: 400, "aria-describedby": note.id, input: suggest,
      keydown(event) { // a form's own way with this key does not work in JupyterLab
        if (event.key === "Enter" && !event.isComposing) send();
      } });
    const fitting = ui.h("div", { class: "ft-fitting", role: "group",
      "aria-label": "Words that fit" });
    const button = ui.button("", () => send(), { primary: true });
    const form = ui.h("div", { class: "ft-form" },
    ui.h("label", { class: "bw-label", for: input.id, text: "Your own sentence" }),
    ui.h("div", { class: "ft-line" }, input, button), fitting, note);
    const ready = ui.h("div", { class: "ft-ready", role: "group", "aria-label": "Sentences to try" },
      engine.ready.map((text) => ui.button(text, () => { write(text); send(); })));
    const all = ui.h("details", { class: "ft-all" },
      ui.h("summary", { text: `All ${engine.words.length} words that it knows` }),
      ui.h("p", { text: [...engine.words].sort().join(" ") }));

    function write(text) {
      input.value = text;
      input.setSelectionRange(text.length, text.length);
      fitting.replaceChildren();
      mark(null);
    }
    function mark(problem) {
      if (problem) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
      note.classList.toggle("bw-problem", Boolean(problem));
      note.textContent = problem ? `✗ ${problem}.`
        : `Up to ${engine.longest} tokens. Numbers as words, years as digits.`;
      note.hidden = !problem && fitting.childElementCount > 0;
    }
    function relabel() {
      const size = `${Math.round(engine.bytes / 1000)} kB`;
      button.textContent = waiting ? "Loading the model…"
        : model ? "Translate" : `Load the model (${size}) and translate`;
      button.setAttribute("aria-disabled", waiting);
    }

    /** The word that is being written, up to the caret. */
    const begun = () => /[\p{L}]*$/u.exec(input.value.slice(0, input.selectionStart))[0];
    function suggest() {
      const start = begun().toLowerCase();
      const words = start ? engine.words.filter((word) => word.startsWith(start)) : [];
      fitting.replaceChildren(...words.slice(0, FITTING).map((word) => ui.button(word, () => {
        const [from, to] = [input.selectionStart - begun().length, input.selectionStart];
        input.setRangeText(`${word} `, from, to, "end");
        input.focus();
        suggest();
      }, { quiet: true })));
      mark(null);
      if (start) w.say(words.length ? `Words that fit: ${words.slice(0, FITTING).join(", ")}`
        : `No word of the model begins with ${start}`);
    }

    /** The model, once it is there; null and a message if it does not come. */
    async function fetchModel() {
      if (model) return model;
      waiting = true;
      relabel();
      try {
        model = await weights.load(engine.id, w);
      } catch (error) {
        if (!closed) mark(error.message);
      }
      waiting = false;
      relabel();
      return closed ? null : model;
    }

    function hold(text) {
      const options = { stages, k, longest: engine.max_length };
      held = { text, one: tracing.trace(model, parse(text, engine), options) };
    }

    async function send() {
      if (waiting) return;
      const mine = run;
      try {
        const text = parse(input.value, engine).join(" ");
        fitting.replaceChildren();
        mark(null);
        if (!await fetchModel() || mine !== run) return; // the reader has reset it
        hold(text);
        shown = text; // the line stays as it was typed
        news = `Translation: ${held.one.said.join(" ")}. `;
        w.set({ own: text, sentence: number });
        w.redraw();
      } catch (error) {
        mark(error.message);
      }
    }

    /** The sentence of an address or of the kernel, which did not come through the line. */
    async function follow(text) {
      tried = text;
      try {
        parse(text, engine);
        if (await fetchModel()) {
          hold(text);
          return w.redraw();
        }
      } catch (error) {
        mark(error.message);
      }
      w.set({ sentence: 0 });
    }

    mark(null);
    relabel();
    w.onReset(() => {
      run += 1;
      write("");
    });
    w.draw(({ own: text, sentence }) => {
      if (text !== shown) write(text);
      shown = text;
      if (sentence !== number) return;
      if (!text) w.set({ sentence: 0 });
      else if (held?.text !== text && tried !== text && !waiting) follow(text);
    });

    return {
      element: ui.h("div", { class: "ft-own" }, form, ready, all),
      sentence: (state) => (state.sentence === number && held?.text === state.own && held
        ? held.one : null),
      news() {
        const text = news;
        news = "";
        return text;
      },
    };
  }

  return { own, parse, tokenise };
})();
