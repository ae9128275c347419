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
const LONGEST = 1_000_000; // letters of all settings and curves, and of what else an entry keeps

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

const rounded = (list) => list.map(([x, ...all]) =>
  [x, ...all.map((y) => (Number.isFinite(y) ? +y.toPrecision(5) : null))]);

/** An entry as text can hold it: settings and curves, without models. */
const encoded = ({ key, label, runs }, measures) => ({ key, label,
  runs: runs.map(({ settings, state, step, steps, losses, probes }) => ({ settings, step, steps,
    state: OVER.includes(state) ? state : "stopped", losses: rounded(thinned(losses, steps)),
    probes: rounded(probes.map((probe) => [probe.step, ...measures.map((name) => probe[name])])) })) });

const isStep = (n) => Number.isInteger(n) && n >= 0 && n <= MOST_STEPS;

/** The points of curves, [step, ...heights], with as many heights as there are measures. */
function points(list, { length }) {
  if (!Array.isArray(list) || list.length > 1000) throw new Error("no curve");
  return list.filter((one) => Array.isArray(one) && isStep(one[0]) && one.length === length + 1
    && one.every(Number.isFinite)).sort(([a], [b]) => a - b);
}

/** The entry that was kept; an error where it is none. fits(settings) -> settings, or null. */
function decoded(kept, fits, measures) {
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
    Object.assign(run, { state, step, steps: Math.max(steps, step, 1), losses: points(losses, [0]),
      probes: points(probes, measures).map(([at, ...all]) =>
        ({ step: at, ...Object.fromEntries(measures.map((name, k) => [name, all[k]])) })) });
  });
  return entry;
}

/** What gives the settings of these names as the widget w takes them, or null. */
export const fitting = (w, names) => (settings) => {
  const found = names.map((name) => [name, w.keys[name](settings?.[name])]);
  return found.every(([, value]) => value !== undefined) ? Object.fromEntries(found) : null;
};

/**
 * The entries of a task that the reader keeps, in this browser alone: at most so many, settings and
 * curves of these measures. What else an entry needs stands apart, so that nobody else has to read it:
 * more.write(entry) gives it, and more.read(entry, written) takes it back, or throws.
 * @param {string} task
 * @param {(settings: any) => any} fits
 * @param {{ most?: number, measures?: string[], more?: { write: (entry: any) => any,
 *   read: (entry: any, written: any) => void } | null }} options
 */
export function keeper(task, fits, { most = MOST_KEPT, measures = ["accuracy"], more = null } = {}) {
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
  const placeOf = (key) => `${KEY}.${key}`;

  /** A kept entry, or null where it cannot be read. */
  function readable(kept) {
    try {
      const entry = decoded(kept, fits, measures);
      const text = more ? localStorage.getItem(placeOf(entry.key)) : "";
      if (text.length > LONGEST) throw new Error("too long");
      more?.read(entry, JSON.parse(text));
      return entry;
    } catch {
      return null;
    }
  }

  /** Throws away what stands apart and is no entry's any more. */
  function sweep() {
    const places = Object.values(all()).flat().map((one) => placeOf(one?.key));
    for (const name of Object.keys(localStorage)) {
      if (name.startsWith(placeOf("")) && !places.includes(name)) localStorage.removeItem(name);
    }
  }

  /** Read, change, write: another tab may have written since. Returns what went wrong, or "". */
  function change(edit) {
    try {
      const tasks = all();
      const list = edit(listOf(tasks));
      localStorage.setItem(KEY, JSON.stringify({ version: VERSION,
        tasks: { ...tasks, [task]: list } }));
      sweep();
      return "";
    } catch ({ name, message }) {
      try { sweep(); } catch { /* it keeps nothing */ }
      return name === "Full" ? message : "This browser lets the page keep nothing, or has no room: the "
        + "run lasts until you leave the page.";
    }
  }

  /** What is kept, with this entry; its other part is written first, so that none is without. */
  function joined(list, entry) {
    const isIt = (kept) => kept?.key === entry.key;
    const one = encoded(entry, measures);
    const held = list.some(isIt) || list.length < most ? list : list.filter(readable);
    if (!held.some(isIt) && held.length >= most) {
      throw Object.assign(new Error(`${most} runs are kept already. Remove one of them first.`),
        { name: "Full" });
    }
    if (more) {
      const text = JSON.stringify(more.write(entry));
      if (text.length > LONGEST) throw new Error("too long");
      localStorage.setItem(placeOf(entry.key), text);
    }
    return held.some(isIt) ? held.map((kept) => (isIt(kept) ? one : kept)) : [...held, one];
  }

  return {
    /** Those that can be read. */
    read() {
      try {
        return listOf(all()).slice(0, most).map(readable).filter(Boolean);
      } catch {
        return [];
      }
    },
    put(entry) {
      const key = entry.key ?? freshId();
      const trouble = change((list) => joined(list, { ...entry, key }));
      if (!trouble) entry.key = key;
      return trouble;
    },
    remove: ({ key }) => change((list) => list.filter((kept) => kept?.key !== key)),
  };
}
