// The runs of a laboratory below each other: shown, trained again, named, kept, and thrown away.
import * as chart from "../widgets/js/chart.js";
import { button, copier, freshId, h, hidden } from "../widgets/js/ui.js";
import * as labRuns from "./lab_runs.js";

/**
 * The entries of this visit, and those kept from earlier ones, with their settings. words(entry) ->
 * [[label, value]]; on: what the buttons of a row do, each with its entry: show, use, again, remove,
 * and link, which returns one, or null where there is none. told(entry) says what it has reached, in
 * this measure; whole(run): whether its models are there; files: whether a model out of a file can be
 * kept; home: what has the focus when no entry is left. The trouble with the keeper has a place of its own.
 */
export function list(w, { words, measure, keeper, on, home, told, files = false,
  whole = ({ probes }) => probes.some(({ maps }) => maps) }) {
  const trouble = h("p", { class: "bw-note bw-problem", role: "status" });
  const element = h("ol", { class: "lab-runs", "aria-label": "Runs" });
  let rows = [];

  /** Keeps an entry, or what has become of it, and says what went wrong. */
  const put = (entry) => (trouble.textContent = keeper.put(entry));

  function keep(entry, label) {
    const before = entry.label;
    entry.label = label;
    const wrong = put(entry);
    if (wrong && entry.key) entry.label = before;
    rebuild(rows.map((one) => one.entry));
    on.named();
    rows.find((one) => one.entry === entry).keep.focus();
    w.say(wrong || `${labRuns.titleOf(entry)} is kept in this browser.`);
  }

  function remove(entry) {
    const place = rows.findIndex((one) => one.entry === entry);
    if (entry.key) trouble.textContent = keeper.remove(entry);
    on.remove(entry);
    (rows[Math.min(place, rows.length - 1)]?.last ?? home).focus();
    w.say(`Run ${entry.number} is removed.`);
  }

  function row(entry, varied) {
    const run = `run ${entry.number}`;
    const quiet = (text, says, click) => button(text, click, { quiet: true, label: `${says} ${run}` });
    const result = h("span", { class: "lab-result" });
    const show = quiet("Show", "Show", () => on.show(entry));
    const again = quiet("Train again", "Train again:", () => on.again(entry));
    const settings = h("span", { class: "lab-settings" }, words(entry).map(([label, value], i) =>
      h(varied[i] ? "strong" : "span", { text: `${label} ${value}` })));
    const name = h("input", { type: "text", class: "bw-input", id: freshId(), value: entry.label,
      maxlength: labRuns.LONGEST_NAME, autocomplete: "off", enterkeyhint: "done",
      keydown(event) { if (event.key === "Enter" && !event.isComposing) save(); } });
    const save = () => keep(entry, name.value.trim());
    const form = h("span", { class: "lab-keep", hidden: true },
      h("label", { class: "bw-label", for: name.id, text: `A name for ${run}, if you like` }), name,
      button("Keep it in this browser", save));
    const more = quiet(entry.key ? "Rename" : "Keep", entry.key ? "Rename" : "Keep", () => {
      form.hidden = !form.hidden;
      more.setAttribute("aria-expanded", !form.hidden);
      if (!form.hidden) name.focus();
    });
    more.setAttribute("aria-expanded", "false");
    const last = quiet("Remove", "Remove", () => remove(entry));
    const opened = entry.runs[0].state === "opened"; // out of a file: no settings have its numbers
    const [copy, field] = opened || on.link(entry) === null ? []
      : copier("Copy link", `Link to ${run}`, () => on.link(entry), `Copy link to ${run}`);
    const node = h("li", {}, h("span", { class: "lab-name" }, chart.swatch(entry.number - 1),
      h("span", { text: labRuns.titleOf(entry) }), entry.key && hidden(" (kept in this browser)")),
    settings, result,
    h("span", { class: "lab-actions" }, show, again,
      quiet("Use settings", "Use the settings of", () => on.use(entry)), copy,
      (files || !opened) && more, last), form, field);
    return { entry, node, result, show, again, keep: more, last };
  }

  /** Makes the rows anew: after an entry has come or gone, or has another name. */
  function rebuild(entries) {
    const all = entries.map(words);
    const varied = all[0]?.map((_, i) => new Set(all.map((one) => one[i][1])).size > 1) ?? [];
    rows = entries.map((entry) => row(entry, varied));
    element.replaceChildren(...rows.map(({ node }) => node));
  }

  return {
    element,
    trouble,
    rebuild,
    save(entry) { if (entry.key) put(entry); },
    update(shown) {
      for (const { entry, node, result, show, again } of rows) {
        node.classList.toggle("lab-shown", entry === shown);
        show.setAttribute("aria-pressed", entry === shown);
        show.hidden = rows.length === 1;
        again.hidden = entry.runs.some((run) => !labRuns.isOver(run) || whole(run));
        result.textContent = told(entry);
        result.title = measure;
      }
    },
  };
}
