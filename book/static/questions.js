// Keeps what a reader predicts and recalls, in this browser alone, and brings it back when it is due.
// The page reads the same without it: the questions are a list, the answers are folded.
"use strict";

(() => {
  const KEY = "transformer-piece-by-piece.answers";
  const VERSION = 1;
  const LONGEST = 200_000; // letters; the whole book needs less than a tenth
  const NAME = /^(?:pr|rc)(?:-[a-z0-9]+)+$/;
  // A question that was known comes back after so many days, a longer time with each success. The
  // first box is for those that were not: they are due at once.
  const DAYS = [0, 1, 3, 7, 21, 60];

  const today = () => Math.floor(Date.now() / 86_400_000 - new Date().getTimezoneOffset() / 1440);

  // --- what is kept: predictions by name, which answers were asked for without one, and of each
  // question recalled its box and the day -----------------------------------------------------------

  const empty = () => ({ predictions: new Map(), shown: new Set(), recalls: new Map() });

  function entries(value) {
    const isTable = value !== null && typeof value === "object" && !Array.isArray(value);
    return isTable ? Object.entries(value).filter(([name]) => NAME.test(name)) : [];
  }

  /** What a text holds; an error if it is not ours, without what is no answer in it. */
  function decoded(text) {
    const state = empty();
    if (text === null) return state;
    if (text.length > LONGEST) throw new Error("too long");
    const kept = JSON.parse(text);
    if (kept?.version !== VERSION) throw new Error("another version");
    for (const [name, answer] of entries(kept.predictions)) {
      if (Number.isFinite(answer)) state.predictions.set(name, answer);
    }
    for (const name of Array.isArray(kept.shown) ? kept.shown : []) {
      if (NAME.test(name)) state.shown.add(name);
    }
    for (const [name, mark] of entries(kept.recalls)) {
      const { box, day } = mark ?? {};
      const isMark = DAYS[box] !== undefined && Number.isInteger(box) && Number.isInteger(day);
      if (isMark) state.recalls.set(name, { box, day: Math.min(day, today()) });
    }
    return state;
  }

  const encoded = ({ predictions, shown: asked, recalls }) => JSON.stringify({
    version: VERSION,
    predictions: Object.fromEntries(predictions),
    shown: [...asked],
    recalls: Object.fromEntries(recalls),
  });

  let memory = null; // in the place of a storage that is blocked or full
  let trouble = "";

  function read() {
    if (memory) return memory;
    let text;
    try {
      text = localStorage.getItem(KEY);
    } catch {
      memory = empty();
      trouble = "This browser keeps no answers for this page: they last until you leave it.";
      return memory;
    }
    try {
      trouble = "";
      return decoded(text);
    } catch {
      trouble = "What was kept could not be read. Your next answer starts afresh.";
      return empty();
    }
  }

  /** Read, change, write: another tab may have written since. Every part of the page follows. */
  function change(edit) {
    const state = read();
    edit(state);
    keepPlace();
    try {
      if (memory === null) localStorage.setItem(KEY, encoded(state));
    } catch {
      memory = state;
      trouble = "This browser has no room for answers: they last until you leave the page.";
    }
    show();
  }

  /** What opens above what the reader looks at moves nothing on the screen. */
  function keepPlace() {
    const root = document.documentElement;
    const at = document.activeElement;
    if (!at || at === document.body) return;
    const before = at.getBoundingClientRect().top;
    root.style.overflowAnchor = "none"; // the browser's own way, which not all have
    queueMicrotask(() => {
      if (at.checkVisibility()) scrollBy({ top: at.getBoundingClientRect().top - before, behavior: "instant" });
      requestAnimationFrame(() => { root.style.overflowAnchor = ""; });
    });
  }

  function forget() {
    memory &&= empty();
    try {
      localStorage.removeItem(KEY);
    } catch {
      memory = empty();
    }
    show();
  }

  const isDue = (mark) => Boolean(mark) && mark.day + DAYS[mark.box] <= today();

  /** What an answer makes of a mark. A question known twice before it is due counts once. */
  function marked(mark, knew) {
    if (knew && mark && !isDue(mark)) return mark;
    return { box: knew ? Math.min((mark?.box ?? 0) + 1, DAYS.length - 1) : 0, day: today() };
  }

  function whenBack(mark) {
    const days = mark.day + DAYS[mark.box] - today();
    if (mark.box === 0) return "It comes back in the review";
    if (days <= 0) return "It is due today";
    return days === 1 ? "It comes back tomorrow" : `It comes back in ${days} days`;
  }

  // --- parts of a page ------------------------------------------------------------------------

  const shown = []; // what brings each part up to date
  const show = () => {
    const state = read();
    for (const one of shown) one(state);
  };

  function make(tag, properties, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  const note = () => {
    const line = make("p", { className: "ask-note" });
    line.setAttribute("role", "status");
    return line;
  };

  /** Set a text only if it is another one: a screen reader reads out each change. */
  function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function button(text, action, className = "") {
    const node = make("button", { type: "button", className }, text);
    node.addEventListener("click", action);
    return node;
  }

  function copyOf(node) {
    const copy = make("span", {}, ...[...node.childNodes].map((child) => child.cloneNode(true)));
    for (const inner of copy.querySelectorAll("[id]")) inner.removeAttribute("id");
    return copy;
  }

  /** The number that was typed, with a point or a comma; NaN if it is none. */
  function typed(text) {
    const plain = text.trim().replace("\u2212", "-").replace(",", ".");
    return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  }

  /** An answer that the question of today still has; undefined for any other. */
  function answerTo({ name, kind, options }, state) {
    const answer = state.predictions.get(name);
    const isOption = Number.isInteger(answer) && answer >= 1 && answer <= Number(options);
    return kind === "number" || isOption ? answer : undefined;
  }

  const agrees = ({ kind, right, within }, answer) => (kind === "number"
    ? Math.abs(answer - Number(right)) <= Number(within) + 1e-9
    : answer === Number(right));

  const predictions = new Map(); // by name: its facts, and the options

  function setUpPrediction(block) {
    const { name, kind } = block.dataset;
    const list = block.querySelector(".ask-options");
    const options = [...(list?.children ?? [])].map((item) => item.querySelector("p") ?? item);
    predictions.set(name, { facts: block.dataset, options });
    const field = make("fieldset", {});
    field.setAttribute("aria-labelledby", `${name}-question`);
    const inputs = kind === "number"
      ? [make("input", { type: "text", inputMode: "decimal", autocomplete: "off", className: "ask-number" })]
      : options.map((_, k) => make("input", { type: "radio", name, value: String(k + 1) }));
    if (kind === "number") {
      inputs[0].setAttribute("aria-labelledby", `${name}-question`);
      field.append(inputs[0]);
    } else {
      field.append(...inputs.map((input, k) => make("label", { className: "ask-choice" }, input, copyOf(options[k]))));
    }
    const commit = make("button", { type: "submit" });
    const line = note();
    const showMe = button("Show me", () => openEvidence(name), "quiet");
    const form = make("form", { noValidate: true, className: kind }, field, make("div", { className: "ask-row" }, commit, showMe, line));
    const follows = block.nextElementSibling?.matches(".evidence");
    if (list) list.replaceWith(form);
    else block.append(form);
    block.classList.add("ready");

    const chosen = () => (kind === "number" ? typed(inputs[0].value) : Number(inputs.find((input) => input.checked)?.value));
    let isOpen = true;
    const settle = (open) => {
      isOpen = open;
      field.disabled = !open;
      commit.textContent = open ? "Commit to it" : "Change my answer";
      commit.classList.toggle("quiet", !open);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const answer = chosen();
      if (!isOpen) {
        settle(true);
        say(line, "");
        (inputs.find((input) => input.checked) ?? inputs[0]).focus();
      } else if (!Number.isFinite(answer)) {
        say(line, kind === "number" ? "Type a number first, such as 0.5." : "Choose an answer first.");
        inputs[0].focus();
      } else {
        isOpen = false;
        change((state) => state.predictions.set(name, answer));
      }
    });
    let last; // what was shown: a choice that is being made is not undone by another tab's
    shown.push((state) => {
      const answer = answerTo(block.dataset, state);
      if (isOpen && answer === last) return;
      last = answer;
      if (kind === "number") inputs[0].value = answer ?? "";
      else inputs.forEach((input, k) => { input.checked = k + 1 === answer; });
      settle(answer === undefined);
      say(line, answer === undefined ? "" : trouble
        || (follows ? "Kept. Now see what happens." : "Kept. The page comes back to it further down."));
    });
    shown.push((state) => { showMe.hidden = !follows || isOpenTo(name, state); });
    settle(true);
  }

  function setUpOutcome(block) {
    const { name } = block.dataset;
    const { facts, options } = predictions.get(name);
    const right = block.querySelector(".ask-right");
    const yours = make("p", { className: "ask-yours" });
    right.before(yours);
    shown.push((state) => {
      const answer = answerTo(facts, state);
      const isRight = answer !== undefined && agrees(facts, answer);
      yours.hidden = answer === undefined;
      right.hidden = isRight && facts.kind === "choice";
      if (answer === undefined) return;
      const told = facts.kind === "number" ? String(answer) : copyOf(options[answer - 1]);
      const near = facts.kind === "number" && answer !== Number(facts.right);
      const praise = near ? "that is close." : "that is right.";
      const verdict = ` \u2013 ${isRight ? praise : "it turned out differently."}`;
      yours.replaceChildren(make("span", {}, "You predicted: "), told, verdict);
    });
  }

  // --- what answers a prediction is hidden until it was made, or asked for ------------------------

  const isOpenTo = (name, state) => state.shown.has(name)
    || answerTo(predictions.get(name).facts, state) !== undefined;

  /** Show what answers a prediction that is not made; where it opens gets the focus. */
  function openEvidence(name, focus = evidenceOf(name)[0]) {
    change((state) => state.shown.add(name));
    focus?.focus({ preventScroll: true });
  }

  const evidenceOf = (name) => [...document.querySelectorAll(`.evidence[data-name="${name}"]`)];

  function setUpEvidence(block) {
    const { name } = block.dataset;
    const open = () => openEvidence(name, block);
    block.tabIndex = -1;
    block.classList.add("ready");
    // A link leads into it, or the browser's own search does.
    block.addEventListener("reveal", open);
    block.addEventListener("beforematch", open);
    const waiting = make("div", { className: "ask waiting ask-row" },
      make("span", { className: "ask-note" }, "What happened to ",
        make("a", { href: `#${name}` }, "the prediction further up"), ":"),
      button("Show me", open, "quiet"));
    if (!block.previousElementSibling?.matches(".predict")) block.before(waiting);
    shown.push((state) => {
      const isOpen = isOpenTo(name, state);
      waiting.hidden = isOpen;
      if (isOpen && block.hasAttribute("hidden")) {
        block.removeAttribute("hidden");
        // What was not laid out is measured anew: what scrolls must have a stop for the keyboard.
        window.dispatchEvent(new Event("resize"));
      } else if (!isOpen) block.setAttribute("hidden", "until-found");
    });
  }

  function setUpRecall(block, isReview) {
    const { name } = block.dataset;
    const line = note();
    const answers = [true, false].map((knew) => button(knew ? "I knew it" : "Not yet", () => {
      change((state) => state.recalls.set(name, marked(state.recalls.get(name), knew)));
      block.dispatchEvent(new Event("answered", { bubbles: true }));
    }));
    block.querySelector(".ask-inside").append(make("div", { className: "ask-row" }, ...answers, line));
    shown.push((state) => {
      const mark = state.recalls.get(name);
      const answered = mark?.day === today();
      answers[0].setAttribute("aria-pressed", String(answered && mark.box > 0));
      answers[1].setAttribute("aria-pressed", String(answered && mark.box === 0));
      say(line, mark ? trouble || `${whenBack(mark)}.` : "");
      block.classList.toggle("due", isReview && isDue(mark));
    });
  }

  // --- the page that brings them back -----------------------------------------------------------

  const many = (count, one, more) => `${count} ${count === 1 ? one : more}`;

  function setUpReview(panel) {
    const blocks = [...document.querySelectorAll(".ask.recall")];
    const sections = [...document.querySelectorAll("section:has(> .ask.recall)")];
    const markOf = (block, state) => state.recalls.get(block.dataset.name);
    let picked = blocks;
    let at = -1; // which of those picked is shown alone; all are if it is negative

    const count = make("p", { className: "review-count" });
    count.setAttribute("role", "status");
    const problem = note();
    const position = make("span", { className: "ask-note" });
    position.setAttribute("role", "status");
    const steps = [-1, 1].map((way) => button(way < 0 ? "Previous" : "Next", () => {
      at += way;
      lay();
      picked[at].querySelector("summary").focus();
    }));
    const stepping = make("div", { className: "ask-row" }, ...steps, position);

    function lay() {
      for (const block of blocks) block.hidden = at < 0 ? !picked.includes(block) : block !== picked[at];
      for (const section of sections) section.hidden = !section.querySelector(".ask.recall:not([hidden])");
      stepping.hidden = at < 0;
      steps[0].disabled = at <= 0;
      steps[1].disabled = at + 1 >= picked.length;
      say(position, at < 0 ? "" : `${at + 1} of ${picked.length}`);
      due.setAttribute("aria-pressed", String(picked !== blocks));
      all.setAttribute("aria-pressed", String(picked === blocks));
      alone.setAttribute("aria-pressed", String(at >= 0));
    }

    /** Those due, first those that were not known, then those that have waited longest. */
    function dueNow(state) {
      const urgency = (block) => (markOf(block, state).box === 0 ? -Infinity : markOf(block, state).day);
      return blocks.filter((block) => isDue(markOf(block, state)))
        .sort((a, b) => (urgency(a) < urgency(b) ? -1 : Number(urgency(a) > urgency(b))));
    }

    function pick(some) {
      picked = some;
      at = Math.min(at, 0);
      lay();
    }

    const due = button("", () => pick(dueNow(read())));
    const all = button(`All ${many(blocks.length, "question", "questions")}`, () => pick(blocks));
    const alone = button("One at a time", () => {
      at = at < 0 ? 0 : -1;
      lay();
    });
    panel.append(count, make("div", { className: "ask-row" }, due, all, alone), stepping, problem);
    panel.parentElement.addEventListener("answered", () => {
      if (at < 0) return;
      if (at + 1 < picked.length) steps[1].focus();
      else say(position, `${at + 1} of ${picked.length}: that was the last one`);
    });

    const missed = document.querySelector(".review-missed");
    shown.push((state) => {
      const number = dueNow(state).length;
      const waiting = blocks.filter((block) => markOf(block, state)).length - number;
      due.textContent = `Due today: ${number}`;
      due.hidden = number === 0 && picked === blocks;
      say(count, number > 0 ? `${many(number, "question is", "questions are")} due today.`
        : waiting > 0 ? `Nothing is due today. ${many(waiting, "question comes", "questions come")} back later.`
          : "You have not answered a question yet. Try some here, or at the end of each chapter.");
      say(problem, trouble);
      for (const block of missed.querySelectorAll(".missed")) {
        const answer = answerTo(block.dataset, state);
        block.hidden = answer === undefined || agrees(block.dataset, answer);
      }
      missed.hidden = !missed.querySelector(".missed:not([hidden])");
    });
    const first = dueNow(read());
    if (first.length) picked = first;
    lay();
    setUpForgetting(panel.parentElement);
  }

  function setUpForgetting(page) {
    const line = note();
    const ask = (open) => {
      sure.hidden = !open;
      start.hidden = open;
      (open ? sure.querySelector("button") : start).focus();
    };
    const start = button("Forget all my answers", () => {
      say(line, "");
      ask(true);
    });
    const sure = make("div", { className: "ask-row", hidden: true },
      make("span", {}, "Remove every answer from this browser? This cannot be undone."),
      button("Forget them", () => {
        forget();
        ask(false);
        say(line, "All answers are forgotten.");
      }),
      button("Keep them", () => ask(false)));
    page.append(make("div", { className: "ask review-foot" }, start, sure, line));
  }

  const review = document.querySelector(".ask.review");
  for (const block of document.querySelectorAll(".ask.predict")) setUpPrediction(block);
  for (const block of document.querySelectorAll(".ask.outcome")) setUpOutcome(block);
  for (const block of document.querySelectorAll(".evidence")) setUpEvidence(block);
  for (const block of document.querySelectorAll(".ask.recall")) setUpRecall(block, Boolean(review));
  if (document.querySelector(".review ~ section > .recall")) setUpReview(review);
  window.addEventListener("storage", ({ key }) => { if (key === KEY || key === null) show(); });
  window.addEventListener("pageshow", ({ persisted }) => { if (persisted) show(); });
  show();
})();
