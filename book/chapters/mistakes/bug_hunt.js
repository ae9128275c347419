// A broken model without its name: its symptoms, properties to test, and a guess to hand in.
// And the table of all mistakes and properties, whose cells explain themselves.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as grid from "../../widgets/js/grid.js";
import * as ui from "../../widgets/js/ui.js";

const KINDS = [
  { look: "bh-held", sign: "·", words: "holds" },
  { look: "bh-caught", sign: "✗", words: "fails" },
  { look: "bh-stops", sign: "!", words: "stops with an error" },
];
const TICKS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]; // of the losses, on a logarithmic axis
const log = (loss) => Math.log10(Math.max(loss, 0.01));
const letter = (k) => `Model ${String.fromCharCode(65 + k)}`;
const shorter = (value) => (Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-3)
  ? value.toExponential(0) : String(value)).replace("-", "−");

/** The numbers in text such as "5.6"; undefined if one of them is no property. */
function readAsked(text, count) {
  const found = text ? text.split(".") : [];
  return found.every((k) => /^\d+$/.test(k) && +k < count) ? found.map(Number) : undefined;
}

/** What to say to a guess: does it fit what was asked, and if not, where does it not? */
function answer(guess, truth, asked, findings, names) {
  if (guess === truth) return { right: true };
  const kind = (mistake, k) => Number(findings[mistake][k][0] !== 0);
  const against = asked.find((k) => kind(guess, k) !== kind(truth, k));
  if (against !== undefined) {
    return { right: false, against, text: kind(guess, against)
      ? `with it, “${names[against]}” would fail, and here it holds.`
      : `with it, “${names[against]}” would hold, and here it fails.` };
  }
  const apart = names.findIndex((_, k) => kind(guess, k) !== kind(truth, k));
  return { right: false, text: apart < 0 ? "these properties cannot tell the two apart; look at their "
    + "symptoms." : "it fits all that you have asked, but another test would tell them apart." };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Bug hunt",
      lead: "Each model has one mistake. Look at what it does, choose a property to test, and name "
        + "the mistake in as few tests as you can.",
    }, (w) => {
      const [properties, mistakes] = [w.data("properties"), w.data("mistakes")];
      const [findings, messages] = [w.data("findings"), w.data("messages")];
      const [cases, right, step] = [w.data("cases"), w.data("right"), w.data("window")];
      const names = properties.map(({ name }) => name);
      const keys = mistakes.map(({ name }) => name);
      w.state({
        case: ui.integer(0, cases.length - 1),
        asked: (text) => (typeof text === "string" && readAsked(text, names.length) ? text
          : undefined),
        row: ui.integer(0, mistakes.length - 1), column: ui.integer(0, names.length - 1),
      });
      const asked = () => readAsked(w.get("asked"), names.length);
      const truth = () => keys.indexOf(cases[w.get("case")].name);
      const fresh = { asked: "", guess: "", named: "", shown: false };
      /** What became of each model on this visit: guesses until it was named or told. */
      const tried = cases.map(() => ({ guesses: 0, found: false, told: false }));
      const count = () => {
        const found = tried.filter((one) => one.found);
        const first = found.filter((one) => one.guesses === 1);
        return tried.every((one) => !one.guesses && !one.told) ? "" : `Your score: ${found.length} of `
          + `${cases.length} models named, ${first.length} at the first guess.`;
      };

      /** One finding in words: a sign, the name, the number, the message. */
      const line = (mistake, k) => {
        const [held, number, message] = findings[mistake][k];
        const { sign, words } = KINDS[held];
        return ui.h("li", { class: `bh-line ${held ? "bh-bad" : "bh-good"}` },
          ui.h("span", { class: "bh-sign", "aria-hidden": "true", text: held ? sign : "✓" }),
          ui.h("span", {}, ui.h("strong", { text: names[k] }), ` ${words}`,
            number === null ? "" : ` (${shorter(number)})`,
            `: ${messages[message].replace(/[^?.]$/, "$&.")}`));
      };
      /** All about one mistake: its code, where it stood, why it is wrong. */
      const about = ({ title, group, source, looks, why, fixed, code }) => [
        ui.h("p", { class: "bh-name" }, ui.h("strong", { text: title }), ` (${group}). Seen in ${source}.`),
        ui.h("pre", { class: "bh-code", tabindex: 0, role: "group", "aria-label": "The broken code",
          text: code }),
        ...[["Symptoms", looks], ["Cause", why]].map(([name, text]) =>
          ui.h("p", {}, ui.h("strong", { text: `${name}. ` }), text)),
        ui.h("p", {}, ui.h("strong", { text: "Fixed. " }), ui.h("code", { text: fixed })),
      ];

      const mode = controls.choice(w, "mode", { label: "View",
        options: [["hunt", "Hunt"], ["matrix", "All mistakes"]] });

      // The hunt
      const which = controls.select(w, "case", { label: "Model",
        options: cases.map((_, k) => [k, letter(k)]) });
      which.input.addEventListener("change", () => w.set(fresh));
      const every = [right, ...cases].flatMap(({ losses }) => losses.map(log));
      const curve = chart.lines({ title: "Training loss", height: 220, points: false,
        x: { label: "training step", min: 0, max: step * right.losses.length },
        y: { label: "loss per token", min: Math.min(...every), max: Math.max(...every),
          ticks: TICKS.filter((value) => log(value) >= Math.min(...every)
            && log(value) <= Math.max(...every)).map((value) => [log(value), String(value)]) } });
      const map = chart.heatMap({ caption: "Where it attends while it is given the right translation",
        rowTitle: "target token", columnTitle: "source token" });
      const sentence = (label) => {
        const text = ui.h("span", {});
        return { text, row: ui.h("p", { class: "bh-sentence" },
          ui.h("span", { class: "bw-label", text: label }), text) };
      };
      const [source, said, wanted, trained, loss] =
        ["Source", "Output", "Reference", "Training loss", "Held-out loss"].map(sentence);
      const test = controls.select(w, "test", { label: "Property to test",
        options: properties.map(({ name, question }) => [name, `${name}: ${question}`]) });
      /** After a key press, from a button that is now disabled back to its list. */
      const back = (event, list) => event.detail === 0 && list.input.focus();
      const run = ui.button("Test it", (event) => {
        const k = names.indexOf(w.get("test"));
        if (!asked().includes(k)) w.set({ asked: [...asked(), k].join(".") });
        back(event, test);
      }, { primary: true });
      const results = ui.h("ul", { class: "bh-results" });
      const none = ui.h("p", { class: "bw-note", text: "No property tested yet." });
      const guesses = [...mistakes].sort((a, b) => a.title.localeCompare(b.title));
      const guess = controls.select(w, "guess", { label: "Your diagnosis", options: [
        ["", "Choose a mistake"], ...guesses.map(({ name, title }) => [name, title])] });
      const name = ui.button("Name it", (event) => {
        const one = tried[w.get("case")];
        if (!one.found && !one.told) {
          one.guesses += 1;
          one.found = keys.indexOf(w.get("guess")) === truth();
        }
        w.set({ named: w.get("guess") });
        back(event, guess);
      }, { primary: true });
      const give = ui.button("Show the answer", () => {
        tried[w.get("case")].told = true;
        w.set({ shown: true });
      });
      const verdict = ui.h("p", { class: "bh-verdict" });
      const score = ui.h("p", { class: "bw-note bh-score" });
      const solution = ui.part("The mistake");
      const hunt = ui.h("div", { class: "bh-view" },
        ui.h("div", { class: "bw-columns" },
          ui.h("div", { class: "bh-stack" }, which.element, curve.element),
          ui.h("div", { class: "bh-stack" },
            ui.h("div", {}, [source, said, wanted, trained, loss].map(({ row }) => row)), map.element)),
        ui.h("div", { class: "bh-ask" }, test.element, run),
        ui.h("div", {}, none, results),
        ui.h("div", { class: "bh-ask" }, guess.element, ui.h("div", { class: "bw-buttons" }, name, give)),
        verdict, score, solution);

      // The table
      const pick = (row, column) => w.set({ row, column });
      const describe = (i, j) => `${mistakes[i].title}, ${names[j]}: ${KINDS[findings[i][j][0]].words}`;
      const table = grid.map({ caption: "Which property catches which mistake", rowTitle: "mistake",
        columnTitle: "property", most: 64, look: "bw-cells bh-matrix", onMove: pick, onPick: pick,
        blank: () => ui.h("span", { "aria-hidden": "true" }) });
      table.update({ rows: mistakes.map(({ title }) => title), columns: names, describe,
        fill(cell, i, j) {
          const { look, sign } = KINDS[findings[i][j][0]];
          Object.assign(cell, { className: look, title: describe(i, j), ariaLabel: describe(i, j) });
          cell.firstChild.textContent = sign;
        } });
      const signs = ui.h("p", { class: "bw-note",
        text: "✗ the property fails and so catches the mistake, ! the model stops with an error, "
          + "· the property holds." });
      const row = controls.select(w, "row", { label: "Mistake",
        options: mistakes.map(({ title }, k) => [k, title]) });
      const column = controls.select(w, "column", { label: "Property",
        options: names.map((text, k) => [k, text]) });
      const cell = ui.h("ul", { class: "bh-results" });
      const question = ui.h("p", { class: "bh-question" });
      const detail = ui.h("div", { class: "bh-about" });
      const matrix = ui.h("div", { class: "bh-view" }, ui.h("div", {}, table.element, signs),
        ui.h("div", { class: "bw-columns" }, row.element, column.element),
        ui.h("div", {}, question, cell), detail);

      w.draw((state) => {
        const hunting = state.mode === "hunt";
        hunt.hidden = !hunting;
        matrix.hidden = hunting;
        if (hunting) {
          const shown = cases[state.case];
          const points = (losses) => losses.map((value, k) => [step * (k + 1), log(value)]);
          const [last, usual] = [shown, right].map(({ losses }) => losses[losses.length - 1]);
          curve.update([{ name: letter(state.case), points: points(shown.losses) },
            { name: "a right model", points: points(right.losses) }],
          { description: `${letter(state.case)} ends at ${last}, a right model at ${usual}` });
          source.text.textContent = shown.source.join(" ");
          said.text.textContent = shown.said.join(" ") || "nothing";
          wanted.text.textContent = shown.wanted.slice(0, -1).join(" ");
          trained.text.textContent = `${shown.losses[0]} to ${last}; a right model `
            + `${right.losses[0]} to ${usual}`;
          loss.text.textContent = `${shown.validation}; a right model ${right.validation}`;
          map.update(shown.map, { rows: shown.wanted, columns: shown.source });
          const tests = asked();
          none.hidden = tests.length > 0;
          results.replaceChildren(...tests.map((k) => line(truth(), k)));
          run.disabled = tests.includes(names.indexOf(state.test));
          name.disabled = state.guess === "" || state.guess === state.named;
          const found = state.named && answer(keys.indexOf(state.named), truth(), tests, findings, names);
          const effort = tests.length === 1 ? "one test" : `${tests.length} tests`;
          const title = state.named && mistakes[keys.indexOf(state.named)].title;
          verdict.hidden = !found;
          verdict.textContent = !found ? "" : found.right ? `✓ ${title}, found with ${effort}.`
            : `✗ Not “${title}”: ${found.text}`;
          verdict.className = `bh-verdict ${found?.right ? "bh-good" : "bh-bad"}`;
          score.textContent = count();
          score.hidden = !score.textContent;
          const open = state.shown || Boolean(found?.right);
          give.hidden = open;
          solution.hidden = !open;
          solution.replaceChildren(solution.firstChild,
            ...(open ? [ui.h("div", { class: "bh-about" }, about(mistakes[truth()]))] : []));
          const latest = tests.length ? `${results.lastChild.textContent} ` : "";
          w.say(`${letter(state.case)}. ${latest}${verdict.textContent}`
            + `${open ? ` The mistake: ${mistakes[truth()].title}. ${score.textContent}` : ""}`);
          return;
        }
        table.outline(state.row, state.column);
        question.textContent = properties[state.column].question;
        cell.replaceChildren(line(state.row, state.column));
        detail.replaceChildren(...about(mistakes[state.row]));
        w.say(describe(state.row, state.column));
      });

      w.add(mode.element, hunt, matrix);
      w.foot();
    });
  },
};
