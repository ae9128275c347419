import * as controls from "../widgets/js/controls.js";
import * as demand from "../widgets/js/demand.js";
import * as ui from "../widgets/js/ui.js";
import * as labResults from "./lab_results.js";
import * as labWorker from "./lab_worker.js";

const MOST_RUNS = 8; // that are kept for comparison
const EVERY = 100; // milliseconds between two drawings, at least
const SPOKEN = 10_000; // milliseconds between two lines for screen readers while a run goes on
const COMPARED = 50; // steps whose losses are compared with torch's
const PATIENCE = 120_000; // milliseconds that torch may take
const REPLAYED = 400; // steps at most that torch takes again
const ANSWERS = 6; // that stand below the reader's own input
const OVER = ["done", "stopped", "failed"];

/** Why a model with these settings cannot be built, with what to do; null if it can. */
export function impossible({ n_heads: heads, d_model: width, d_k: own, positions }) {
  if (own !== undefined || !heads) return null;
  if (width % heads) {
    return `d_model ${width} cannot be divided among ${heads} heads: the heads share its entries `
      + "equally. Choose a number of heads that divides it.";
  }
  if (positions === "rotary" && (width / heads) % 2) {
    return `Rotary positions turn pairs of entries, and each head has ${width / heads}. Choose a `
      + "number of heads that leaves an even number.";
  }
  return null;
}

/** The largest relative difference between two lists of losses, over their first steps. */
function difference(ours, others) {
  const pairs = others.slice(0, COMPARED).map((other, i) => [ours[i][1], other]);
  return Math.max(...pairs.map(([a, b]) => Math.abs(a - b) / Math.max(Math.abs(b), 1e-12)));
}

/** A control for a setting, by what its options are. */
function control(w, { name, label, options, words }) {
  const pairs = options.map((value, i) => [String(value), words[i]]);
  const narrow = words.join("").length <= 26 && options.length <= 6;
  return (narrow ? controls.choice : controls.select)(w, name, { label, options: pairs }).element;
}

/** What a run sends to torch: numbers in two buffers, and where each list of them stands. */
function packed({ design, options, parameters, batches }) {
  const lists = batches.map((batch) => Object.entries(batch).filter(([, value]) =>
    ArrayBuffer.isView(value)));
  const joined = (kind, all) => {
    const whole = new kind(all.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const one of all) {
      whole.set(one, at);
      at += one.length;
    }
    return whole.buffer;
  };
  return {
    content: { design, options,
      parameters: parameters.map(({ name, shape }) => ({ name, shape: [...shape] })),
      batches: batches.map((batch, k) => ({ rows: batch.rows,
        lists: lists[k].map(([name, { length }]) => [name, length]) })) },
    buffers: [joined(Float32Array, parameters.map(({ data }) => data)),
      joined(Int32Array, lists.flat().map(([, values]) => values))],
  };
}

function build(w) {
  const { h, button, part } = ui;
  const [task, about] = [w.data("task"), w.data("about")];
  const names = about.settings.map(({ name }) => name);
  const labels = new Map([...about.settings.map((one) => [one.name, one]),
    ["seed", { label: "Seed" }]]);
  w.state();

  const word = (name, value) => {
    const { options, words } = labels.get(name);
    return options ? words[options.indexOf(value)] : String(value);
  };
  const wordsOf = ({ settings }) => [...labels].map(([name, { label }]) =>
    [label, word(name, settings[name])]);

  let runs = [];
  let run = null; // the one that the worker has
  let shown = null; // the one whose maps and examples are shown
  let [held, drawing] = [null, false]; // the probe that is drawn, and whether it still is
  let at = null; // the place of the probe that is shown, or null: the newest
  let [engine, made, problem, pending] = [null, 0, "", null];
  let [drawn, cost, timer, spoken] = [0, 0, null, 0];

  // --- the run -----------------------------------------------------------------------------------

  const send = (type, content) => engine?.worker.postMessage({ type, ...content });
  const busy = () => run !== null && ["loading", "running"].includes(run.state);

  function end(state) {
    if (run && !OVER.includes(run.state)) run.state = state;
  }

  async function start(paused) {
    const obstacle = impossible(w.snapshot());
    if (obstacle) {
      w.say(obstacle);
      return;
    }
    send("pause");
    end("stopped");
    engine?.close();
    engine = null;
    announce();
    made += 1;
    const mine = { id: made, settings: w.snapshot(), state: paused ? "paused" : "loading",
      steps: 1, step: 0, ms: 0, losses: [], probes: [], answers: [], path: "", torch: null };
    mine.number = 1 + (runs.at(-1)?.number ?? 0);
    [run, shown, at, problem, pending] = [mine, mine, null, "", null];
    if (runs.length === MOST_RUNS) runs.shift();
    runs.push(mine);
    rebuild();
    tell(`Run ${mine.number} begins: ${wordsOf(mine).map((pair) => pair.join(" ")).join(", ")}.`);
    const fail = (message) => {
      if (run !== mine) return;
      [mine.state, mine.problem] = ["failed", message];
      tell(message);
    };
    try {
      const found = await labWorker.start(w, (message) => run === mine && hear(message), fail);
      if (run !== mine) {
        found.close();
        return;
      }
      engine = found;
      const { seed, ...settings } = mine.settings;
      send("start", { id: mine.id, task, settings, seed, wasm: found.wasm,
        text: line.value.trim(), // with or without Ask
        paused: mine.state !== "loading" });
      if (paused) send("step");
    } catch (error) {
      fail(error.message);
    }
  }

  const heard = {
    ready({ path, steps, parameters }) {
      Object.assign(run, { path, steps, parameters });
      if (run.state === "loading") run.state = "running";
    },
    progress({ step, losses, ms }) {
      run.losses.push(...losses);
      Object.assign(run, { ms, step: step ?? run.step });
    },
    probe({ type, id, ...probe }) {
      const last = run.probes.at(-1);
      if (last?.step === probe.step) {
        run.probes.pop();
        if (!probe.own) probe = { ...probe, maps: last.maps, own: last.own };
      }
      run.probes.push(probe);
    },
    answer({ type, id, ...found }) {
      const last = run.answers.at(-1);
      if (last && last.text === found.text && last.step === found.step) run.answers.pop();
      run.answers.push(found);
    },
    done() {
      run.state = "done";
      tell(`Run ${run.number} is done. ${summary(run)}`);
    },
    failed({ message }) {
      [run.state, run.problem] = ["failed", message];
      tell(message);
    },
    recorded: (record) => askTorch(record),
  };

  function hear(message) {
    if (message.id !== run.id || !Object.hasOwn(heard, message.type)) return;
    heard[message.type](message);
    if (busy() && performance.now() - spoken > SPOKEN && run.step) tell(summary(run));
    later();
  }

  function tell(text) {
    spoken = performance.now();
    w.say(text);
    later();
  }

  function pause(why = "") {
    if (!busy()) return;
    send("pause");
    run.state = "paused";
    problem = why;
    tell(`${why} Run ${run.number} is paused.`.trim());
  }

  function go() {
    if (run?.state !== "paused") return;
    announce();
    problem = "";
    run.state = run.path ? "running" : "loading";
    send("go");
    tell(`Run ${run.number} goes on.`);
  }

  const mean = (losses) => losses.slice(-10).reduce((sum, [, loss]) => sum + loss, 0)
    / Math.min(10, losses.length);

  /** Step, loss and accuracy of a run, in a sentence. */
  function summary({ step, steps, losses, probes }) {
    return [`Step ${step} of ${steps}`, losses.length && `loss ${mean(losses).toPrecision(3)}`,
      probes.length && `${about.measure.toLowerCase()} ${labResults.percent(
        probes.at(-1).accuracy)}`].filter(Boolean).join(", ") + ".";
  }

  // --- what is shown -----------------------------------------------------------------------------

  const train = button("Train", () => start(false), { primary: true });
  const toggle = button("Pause", () => (run?.state === "paused" ? go() : pause()));
  const single = button("One step", () => {
    if (run?.state === "paused") send("step");
    else if (!busy()) start(true);
  });
  const stop = button("Stop", () => {
    if (!run || OVER.includes(run.state)) return;
    send("pause");
    end("stopped");
    tell(`Run ${run.number} is stopped. ${summary(run)}`);
  });
  const status = h("p", { class: "lab-status" });
  const trouble = h("p", { class: "bw-note bw-problem", hidden: true });
  const bar = h("div", { class: "lab-progress", "aria-hidden": "true" });

  const on = {
    show(one) {
      [shown, at] = [one, null];
      update();
    },
    use(one) { w.set(one.settings); },
    remove(one) {
      const place = runs.indexOf(one);
      runs = runs.filter((other) => other !== one);
      if (one === run) {
        engine?.close();
        [run, engine, pending] = [null, null, null];
      }
      if (one === shown) [shown, at] = [runs.at(-1) ?? null, null];
      rebuild();
      const next = list.element.children[Math.min(place, runs.length - 1)];
      (next?.querySelector(".lab-actions > :last-child") ?? train).focus();
      tell(`Run ${one.number} is removed.`);
    },
  };
  const curves = labResults.curves(about.measure);
  const list = labResults.list({ words: wordsOf, measure: about.measure, on });
  const maps = labResults.maps(() => {
    held = null;
    update();
  });
  const examples = labResults.examples();
  const numbers = labResults.numbers();

  const when = h("span", { class: "bw-value", "aria-hidden": "true" });
  const scrubber = controls.steady(h("input", { type: "range", class: "bw-slider", min: 0, max: 0,
    id: ui.freshId(), input() {
      at = scrubber.valueAsNumber === shown.probes.length - 1 ? null : scrubber.valueAsNumber;
      update();
    } }));
  const scrub = h("div", { class: "bw-field" },
    h("div", { class: "bw-field-head" },
      h("label", { class: "bw-label", for: scrubber.id, text: "Look back through the run" }), when),
    scrubber);

  // The reader's own input: it is answered now, and after every hundred steps
  const note = h("p", { class: "bw-note", id: ui.freshId(), text: about.asks[1] });
  const line = h("input", { type: "text", class: "bw-input", id: ui.freshId(), maxlength: 80,
    autocomplete: "off", autocapitalize: "none", spellcheck: "false", enterkeyhint: "go",
    "aria-describedby": note.id, value: about.asks[2] ?? "",
    keydown(event) { if (event.key === "Enter" && !event.isComposing) ask(); } });
  const answers = h("ol", { class: "lab-answers", "aria-label": "Answers, the latest first" });
  function ask() {
    const text = line.value.trim();
    if (run) run.answers = [];
    if (text && engine) {
      [shown, at] = [run, null]; // the newest model answers, so its maps are shown
      send("ask", { text });
    }
    update();
  }
  const own = about.asks.length > 0 && h("div", { class: "lab-own" },
    h("label", { class: "bw-label", for: line.id, text: about.asks[0] }),
    h("div", { class: "lab-line" }, line, button("Ask", ask)), note, answers);

  // With a kernel: the same run by torch
  const torchButton = button("Run it with torch", () => {
    if (!run?.losses.length || pending) return;
    pause();
    [pending, shown, at] = [run, run, null];
    later();
    send("record", { steps: Math.min(run.losses.length, REPLAYED) });
  });
  const torchNote = h("p", { class: "bw-note", "aria-live": "polite" });
  const torch = h("div", { class: "lab-torch" }, torchButton, torchNote);
  async function askTorch(record) {
    const mine = pending;
    try {
      const { content, buffers } = packed(record);
      const { answer } = await demand.ask(w.model, { wanted: "torch", ...content }, "torch",
        { buffers, patience: PATIENCE });
      if (answer.problem) throw new Error(answer.problem);
      mine.torch = answer.torch.map((loss, i) => [mine.losses[i][0], loss]);
      mine.compared = `torch took the same ${answer.torch.length} steps from the same parameters. `
        + `Over the first ${Math.min(COMPARED, answer.torch.length)}, the losses differ by at most `
        + `${difference(mine.losses, answer.torch).toExponential(1)} of their size.`;
    } catch (error) {
      mine.compared = `✗ torch could not take the same steps: ${error.message}`;
    }
    if (pending === mine) pending = null;
    later();
  }

  const whose = h("p", { class: "bw-note" }); // which input the maps are of
  const heading = h("p", { class: "bw-label" });
  const results = h("div", { class: "lab-results", hidden: true },
    curves.element, list.element, torch, scrub,
    part("Attention maps", whose, maps.element),
    h("div", { class: "lab-both" }, h("div", { class: "bw-part" }, heading, examples.element),
      part("Measured", numbers.element)));
  const measured = numbers.element.parentElement;

  function rebuild() {
    list.rebuild(runs);
    update();
  }

  /** Draws a moment later, once for several messages, and seldom where drawing is slow. */
  function later() {
    if (timer !== null || document.hidden) return;
    const pause = Math.max(EVERY, 6 * cost) - (performance.now() - drawn);
    timer = setTimeout(update, Math.max(0, pause));
  }

  const off = (node, is) => node.setAttribute("aria-disabled", is);

  function update() {
    const begun = performance.now();
    clearTimeout(timer);
    timer = null;
    const obstacle = impossible(w.snapshot());
    trouble.hidden = !obstacle;
    trouble.textContent = obstacle ? `✗ ${obstacle}` : "";
    const going = run !== null && !OVER.includes(run.state);
    off(train, Boolean(obstacle));
    toggle.textContent = run?.state === "paused" ? "Go on" : "Pause";
    off(toggle, !going);
    off(single, busy() || (Boolean(obstacle) && !going));
    off(stop, !going);
    status.classList.toggle("lab-failed", run?.state === "failed");
    status.textContent = statusLine();
    bar.style.setProperty("--share", run ? run.step / run.steps : 0);
    results.hidden = shown === null;
    if (own) drawAnswers();
    if (shown) drawShown();
    [drawn, cost] = [performance.now(), performance.now() - begun];
  }

  function statusLine() {
    if (!run) return "Nothing is trained yet. Choose the settings, then press Train.";
    const { number, state, path, ms, step, problem: why } = run;
    if (state === "failed") return `✗ Run ${number}: ${why}`;
    if (state === "loading") return "The engine is being loaded…";
    const where = { wasm: "WebAssembly", plain: "plain JavaScript, as this browser has no "
      + "WebAssembly for it or refuses it: slower, with the same result" }[path];
    const changed = names.concat("seed").some((name) => w.get(name) !== run.settings[name]);
    return [problem, `Run ${number}${{ running: "", paused: ", paused", done: ", done",
      stopped: ", stopped" }[state]}: ${summary(run)}`,
    step > 0 && `${(ms / step).toFixed(1)} ms per step${where ? `, ${where}` : ""}.`,
    changed && "The settings above have changed since; Train begins a run with them."]
      .filter(Boolean).join(" ");
  }

  function drawShown() {
    const last = shown.probes.length - 1;
    const place = Math.min(at ?? last, last);
    const probe = shown.probes[place];
    Object.assign(scrubber, { max: Math.max(0, last), value: Math.max(0, place) });
    scrubber.style.setProperty("--filled", last > 0 ? place / last : 1);
    const text = probe ? `run ${shown.number}, step ${probe.step}: `
      + `${labResults.percent(probe.accuracy)}` : "no step yet";
    when.textContent = text;
    scrubber.setAttribute("aria-valuetext", text);
    list.update(shown);
    curves.update(runs, shown, probe?.step ?? null);
    torch.hidden = !w.model.send || Boolean(w.el.dataset.widget);
    torchButton.textContent = pending ? "torch runs…" : "Run it with torch";
    off(torchButton, Boolean(pending) || !run?.losses.length);
    torchNote.textContent = shown.compared ?? "";
    if (probe && probe !== held && !drawing) drawProbe(probe);
    results.setAttribute("aria-busy", drawing);
  }

  /** Maps, examples and numbers, bit by bit; then the probe that has come meanwhile, if any. */
  function drawProbe(probe) {
    [held, drawing] = [probe, true];
    maps.element.parentElement.hidden = probe.maps.length === 0;
    whose.textContent = probe.own ? "Of your own input." : "Of the first example below.";
    heading.textContent = probe.examples.every(({ input }) => !input.length)
      ? "What the model writes" : "Answers to inputs that it was not trained on";
    labResults.inFrames([...maps.jobs(probe.maps), () => {
      examples.update(probe.examples);
      numbers.update(probe.numbers);
      measured.hidden = numbers.element.hidden;
      drawing = false;
      later();
    }]);
  }

  function drawAnswers() {
    const all = (run?.answers ?? []).slice(-ANSWERS).reverse();
    const bad = all[0]?.error;
    note.classList.toggle("bw-problem", Boolean(bad));
    note.textContent = bad ? `✗ ${bad}` : about.asks[1];
    if (bad) line.setAttribute("aria-invalid", "true");
    else line.removeAttribute("aria-invalid");
    answers.hidden = all.length === 0 || Boolean(bad);
    answers.replaceChildren(...(bad ? [] : all).map(({ step, output, lines, right }) =>
      h("li", {}, h("span", { class: "lab-after", text: `run ${run.number}, step ${step}` }),
        lines ? labResults.below(lines) : labResults.tokens(output),
        right !== null && right !== undefined && h("span",
          { class: right ? "lab-verdict lab-good" : "lab-verdict", text: right ? "✓ right"
            : "✗ wrong" }))));
  }

  // --- the frame ---------------------------------------------------------------------------------

  w.add(
    h("div", { class: "bw-part" }, h("p", { class: "bw-label", text: "Settings to compare" }),
      h("div", { class: "bw-buttons" }, about.presets.map(([label, changes]) =>
        button(label, () => w.set(changes))))),
    h("div", { class: "lab-controls" }, about.settings.map((one) => control(w, one)),
      labResults.seed(w)),
    h("div", { class: "lab-run" }, trouble, h("div", { class: "bw-buttons" }, train, toggle, single,
      stop), bar, status),
    ...(own ? [own] : []), results);
  w.foot();
  w.draw(update);

  function forget() {
    engine?.close();
    clearTimeout(timer);
    [runs, run, shown, at, held] = [[], null, null, null, null];
    [engine, timer, problem, pending] = [null, null, "", null];
  }
  const announce = labWorker.joinPage(w, {
    others: () => pause("Another laboratory of this page has begun a run."), seen: later, forget });
  w.onReset(() => {
    forget();
    line.value = about.asks[2] ?? "";
    rebuild();
  });
}

export default {
  render({ model, el }) {
    const { title, lead } = model.get("about") ?? {};
    return ui.widget({ model, el, title: `Train it here: ${title}`, lead }, build);
  },
};
