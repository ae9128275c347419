// What a laboratory records of its runs, and what the browser keeps of them after the visit. An entry
// is what the reader began with one press: one run, or several of other seeds and the same settings.
import { freshId } from "../widgets/js/ui.js";
import { thinned } from "./lab_lines.js";

const MODELS = 2 ** 26; // bytes of all recorded models together
const OVER = ["done", "stopped", "failed", "opened"];
const KEY = "transformer-piece-by-piece.runs";
const VERSION = 1;
export const LONGEST_NAME = 40;
const MOST_KEPT = 8; // entries of one task
const MOST_STEPS = 100_000;
const LONGEST = 1_000_000; // letters of all that is kept

export const isOver = ({ state }) => OVER.includes(state);

/** A run that has not begun yet; its settings have the seed. */
const makeRun = (entry, settings) => ({ entry, settings, id: 0, number: entry.number,
  state: "waiting", steps: 1, step: 0, ms: 0, losses: [], probes: [], answers: [], path: "",
  note: null, problem: "", torch: null });

/**
 * An entry with a run for each of these settings.
 * @param {number} number
 * @param {any[]} all
 * @param {{ name?: string, key?: string | null }} kept
 */
export function makeEntry(number, all, { name = "", key = null } = {}) {
  const entry = { number, label: name, key, runs: [] };
  entry.runs = all.map((settings) => makeRun(entry, settings));
  return entry;
}

export const titleOf = ({ number, label }) => `Run ${number}${label ? `, ${label}` : ""}`;

/** The title of one run: with its seed where the entry has several. */
export const nameOf = ({ entry, settings: { seed } }) =>
  titleOf(entry) + (entry.runs.length > 1 ? `, seed ${seed}` : "");

/**
 * Forgets models until the others take at most `most` bytes, and says whether any had to go: every
 * other one of the oldest run, then those of the next; the last of each run stays.
 */
export function bound(runs, most = MODELS) {
  const taken = () => runs.reduce((sum, { probes }) => sum
    + probes.reduce((bytes, { model }) => bytes + (model?.byteLength ?? 0), 0), 0);
  let forgets = false;
  for (const { probes } of runs) {
    for (;;) {
      const held = probes.filter(({ model }) => model);
      if (taken() <= most || held.length < 2) break;
      for (let k = held.length - 2; k >= 0; k -= 2) held[k].model = null;
      forgets = true;
    }
  }
  return forgets;
}

// --- what the browser keeps ----------------------------------------------------------------------

const rounded = (list) => list.map(([x, y]) => [x, Number.isFinite(y) ? +y.toPrecision(5) : null]);

/** An entry as text can hold it: settings and curves, without models. */
const encoded = ({ key, label, runs }) => ({ key, label,
  runs: runs.map(({ settings, state, step, steps, losses, probes }) => ({ settings, step, steps,
    state: OVER.includes(state) ? state : "stopped", losses: rounded(thinned(losses, steps)),
    probes: rounded(probes.map((probe) => [probe.step, probe.accuracy])) })) });

const isStep = (n) => Number.isInteger(n) && n >= 0 && n <= MOST_STEPS;

function pairs(list) {
  if (!Array.isArray(list) || list.length > 1000) throw new Error("no curve");
  return list.filter((pair) => Array.isArray(pair) && isStep(pair[0]) && Number.isFinite(pair[1]))
    .map(([step, y]) => [step, y]).sort(([a], [b]) => a - b);
}

/** The entry that was kept; an error where it is none. fits(settings) -> settings, or null. */
function decoded(kept, fits) {
  const { key, label, runs } = kept;
  if (typeof key !== "string" || typeof label !== "string" || !Array.isArray(runs)
    || !runs.length || runs.length > 10) throw new Error("no entry");
  const entry = makeEntry(0, runs.map(({ settings }) => {
    const found = fits(settings);
    if (!found) throw new Error("settings of another laboratory");
    return found;
  }), { name: label.slice(0, LONGEST_NAME), key });
  entry.runs.forEach((run, i) => {
    const { state, step, steps, losses, probes } = runs[i];
    if (!OVER.includes(state) || !isStep(step) || !isStep(steps)) throw new Error("no run");
    Object.assign(run, { state, step, steps: Math.max(steps, step, 1), losses: pairs(losses),
      probes: pairs(probes).map(([at, accuracy]) => ({ step: at, accuracy })) });
  });
  return entry;
}

/**
 * The entries of a task that the reader keeps, in this browser alone.
 * @param {string} task
 * @param {(settings: any) => any} fits
 */
export function keeper(task, fits) {
  /** All tasks' entries, as they are kept; throws where the browser keeps nothing. */
  function all() {
    const text = localStorage.getItem(KEY) ?? "{}";
    try {
      const { version, tasks } = text.length > LONGEST ? {} : JSON.parse(text);
      return version === VERSION && tasks && typeof tasks === "object" ? tasks : {};
    } catch {
      return {}; // it is not ours, or was damaged: what is kept next starts afresh
    }
  }
  const listOf = (tasks) => (Object.hasOwn(tasks, task) && Array.isArray(tasks[task])
    ? tasks[task] : []);

  /** Read, change, write: another tab may have written since. Returns what went wrong, or "". */
  function change(edit) {
    try {
      const tasks = all();
      const list = edit(listOf(tasks));
      if (list.length > MOST_KEPT) {
        return `${MOST_KEPT} runs are kept already. Remove one of them first.`;
      }
      localStorage.setItem(KEY, JSON.stringify({ version: VERSION,
        tasks: { ...tasks, [task]: list } }));
      return "";
    } catch {
      return "This browser lets the page keep nothing, or has no room: the run lasts until you leave "
        + "the page.";
    }
  }

  return {
    /** Those that can be read. */
    read() {
      try {
        return listOf(all()).slice(0, MOST_KEPT).flatMap((kept) => {
          try { return [decoded(kept, fits)]; } catch { return []; }
        });
      } catch {
        return [];
      }
    },
    put(entry) {
      const key = entry.key ?? freshId();
      const one = encoded({ ...entry, key });
      const trouble = change((list) => (list.some((kept) => kept?.key === key)
        ? list.map((kept) => (kept?.key === key ? one : kept)) : [...list, one]));
      if (!trouble) entry.key = key;
      return trouble;
    },
    remove: ({ key }) => change((list) => list.filter((kept) => kept?.key !== key)),
  };
}
