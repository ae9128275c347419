// The parts that every widget is made of: the frame, the controls, the state, the message in place.
// Every control is a native one with a label. Text goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "circle", "rect", "text", "title", "desc"]);
const LINK = "Copy link to this state";
const LATE = 100; // milliseconds after which a frame is not waited for
export const freshId = () => `bw-${Math.random().toString(36).slice(2, 10)}`;

/**
 * An element. Attributes by name; `text` becomes its text, a function listens to the event of
 * that name, `--name` sets a style property; false, null and undefined are left out.
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {...any} children
 * @returns {any} of the kind that the tag says
 */
export function h(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (typeof value === "function") node.addEventListener(name, value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => ![null, undefined, false].includes(child)));
  return node;
}

/** A promise that the page has been drawn as it is now, where frames come. */
export const drawn = () => new Promise((next) => {
  requestAnimationFrame(() => setTimeout(next));
  setTimeout(next, LATE);
});

/** Text for screen readers only. */
export const hidden = (text) => h("span", { class: "bw-hidden", text });

// What a state value may be: each returns the value, or undefined if it will not do. A slider
// reads its range off it, so that the numbers stand once.
const isNumber = (value) => ["number", "string"].includes(typeof value)
  && String(value).trim() !== "" && Number.isFinite(Number(value));

export const number = (min, max) => Object.assign((value) =>
  (isNumber(value) && +value >= min && +value <= max ? +value + 0 : undefined), // 0 because of -0
{ min, max });

export const integer = (min, max) => {
  const inside = number(min, max);
  return Object.assign((value) => (Number.isInteger(+value) ? inside(value) : undefined),
    { min, max });
};

export const oneOf = (...values) => Object.assign((value) =>
  values.find((one) => String(one) === String(value)), { values });

export const text = (longest) => (value) =>
  (typeof value === "string" && value.length <= longest ? value : undefined);

/** Text that `read` can read: it throws for any other. */
export const readable = (read) => (value) => {
  try { read(String(value)); return String(value); } catch { return undefined; }
};

/** The kind of a domain that Python declares: a list of values, or a range of numbers. */
const kindOf = (domain) => (Array.isArray(domain) ? oneOf(...domain)
  : (domain.whole ? integer : number)(domain.least, domain.most));

/** Runs `build(w)` on a fresh frame; an error, then or later, becomes a message in the frame. */
export function widget({ model, el, title, lead }, build) {
  const w = new Widget(model, el, title, lead);
  try {
    build(w);
  } catch (error) {
    w.fail(error);
    w.body.hidden = true;
    el.dataset.failed = "true";
  }
  return () => w.close();
}

export class Widget {
  constructor(model, el, title, lead) {
    this.model = model;
    this.el = el;
    this.due = false;
    /** @type {Record<string, any>} what each key of the state may be */
    this.keys = {};
    /** @type {Record<string, any>} the state that the widget began with */
    this.initial = {};
    this.drawn = [];
    this.resets = [];
    this.closed = [];
    this.prefix = `${el.dataset.widget}.`; // of this widget's settings in an address
    this.body = h("div", { class: "bw-body" });
    this.status = h("div", { class: "bw-hidden", role: "status" });
    this.ignored = h("p", { class: "bw-ignored", role: "status" });
    this.alert = h("p", { class: "bw-error", role: "alert", hidden: true });
    // Keys typed in a widget are the widget's: JupyterLab would take the arrows for its cells, and
    // looks for this mark on the element that has the focus.
    this.root = h("div", { class: "bw", role: "group", "aria-label": title,
      focusin: (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "") },
      h("div", { class: "bw-head" },
        h("p", { class: "bw-title", text: title }),
        lead && h("p", { class: "bw-lead", text: lead })),
      this.alert, this.body, this.status);
    el.append(this.root);
  }

  /** The data that Python gave under this name. */
  data(name) {
    return this.model.get(name);
  }

  /** The domain of a trait, as Python declares it: a list, or { least, most, whole }. */
  domain(key) {
    return this.data("domains")[key];
  }

  add(...nodes) {
    this.body.append(...nodes);
  }

  /** Shows an error in the frame, or takes it away again: fail(null). */
  fail(error) {
    this.alert.hidden = !error;
    this.alert.textContent = error ? `This cannot be shown: ${error.message}.` : "";
  }

  /** Reads a line out to screen readers once the reader has stopped moving. */
  say(text) {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => { this.status.textContent = text; }, 300);
  }

  /**
   * Declares the state: what values each trait may have that the controls change. Most have the
   * domain that Python declares; `own` has what depends on the data, or is text.
   * In the published page an address such as ?NAME.step=3 sets it; what it may not be is ignored,
   * and a line says so.
   */
  state(own = {}) {
    const declared = Object.entries(this.data("domains") ?? {});
    const keys = { ...Object.fromEntries(declared.map(([key, one]) => [key, kindOf(one)])), ...own };
    const asked = this.asked();
    let ignored = [...asked.keys()].filter((key) => !Object.hasOwn(keys, key)).length;
    for (const [key, check] of Object.entries(keys)) {
      const value = check(this.model.get(key));
      if (value === undefined) {
        throw new Error(`"${key}" has no usable value, got ${JSON.stringify(this.model.get(key))}`);
      }
      this.keys[key] = check;
      this.initial[key] = value;
      const wanted = asked.has(key) ? check(asked.get(key)) : undefined;
      if (wanted !== undefined) this.model.set(key, wanted);
      else if (asked.has(key)) ignored += 1;
      const changed = () => this.redraw();
      this.model.on(`change:${key}`, changed);
      this.onClose(() => this.model.off(`change:${key}`, changed));
    }
    if (ignored) this.ignore(ignored);
  }

  /** The settings that the page's address has for this widget, each once. */
  asked() {
    const all = this.el.dataset.widget ? [...new URLSearchParams(location.search)] : [];
    return new Map(all.reverse().filter(([name]) => name.startsWith(this.prefix))
      .map(([name, value]) => [name.slice(this.prefix.length), value]));
  }

  /** Says how many settings of a link were ignored, a moment later: so it is read out too. */
  ignore(count) {
    const text = count === 1 ? "A setting in the link was ignored: it is not one of this widget's."
      : `${count} settings in the link were ignored: they are not among this widget's.`;
    this.alert.before(this.ignored);
    const timer = setTimeout(() => { this.ignored.textContent = text; }, 100);
    this.onReset(() => this.ignored.remove());
    this.onClose(() => clearTimeout(timer));
  }

  get(key) {
    return this.model.get(key);
  }

  /** Changes the state; values that may not be are left out. The widget then draws itself. */
  set(changes) {
    for (const [key, value] of Object.entries(changes)) {
      const checked = this.keys[key](value);
      if (checked !== undefined) this.model.set(key, checked);
    }
    this.model.save_changes();
  }

  /** Calls `draw(state)` now and whenever the state has changed, once for several changes. */
  draw(draw) {
    this.drawn.push(draw);
    draw(this.snapshot());
  }

  snapshot() {
    return Object.fromEntries(Object.keys(this.keys).map((key) => [key, this.get(key)]));
  }

  redraw() {
    if (this.due) return;
    this.due = true;
    queueMicrotask(() => {
      this.due = false;
      try {
        for (const draw of this.drawn) draw(this.snapshot());
        this.fail(null);
      } catch (error) {
        this.fail(error);
      }
    });
  }

  /** Calls this when the reader resets: for what a control holds beside the state. */
  onReset(call) {
    this.resets.push(call);
  }

  onClose(call) {
    this.closed.push(call);
  }

  close() {
    clearTimeout(this.saying);
    for (const call of this.closed) call();
  }

  /** A link to this page that opens with the present state, or with other values of some keys. */
  link(changes = {}) {
    const url = new URL(location.href);
    for (const key of this.asked().keys()) url.searchParams.delete(this.prefix + key);
    for (const [key, value] of Object.entries({ ...this.snapshot(), ...changes })) {
      if (String(value) !== String(this.initial[key])) {
        url.searchParams.set(this.prefix + key, value);
      }
    }
    url.hash = this.el.dataset.widget;
    return url.href;
  }

  /**
   * The row at the foot: back to the start, in the published page a link to this state, and more.
   * @param {any[]} more
   * @param {string} short the text of the link's button, where there is little room
   */
  foot(more = [], short = LINK) {
    const reset = button("Reset", () => {
      this.set(this.initial);
      for (const call of this.resets) call();
    }, { quiet: true });
    const [copy, field] = copier(short, "Link to this state", () => this.link(),
      short === LINK ? undefined : LINK);
    this.add(h("div", { class: "bw-foot" }, reset, this.el.dataset.widget && copy, field,
      more));
  }
}

/**
 * A button. Options: primary, quiet, label (where the text alone does not say enough).
 * @param {string} text
 * @param {(event: any) => any} onClick
 * @param {{ primary?: boolean, quiet?: boolean, label?: string }} options
 */
export function button(text, onClick, { primary, quiet, label } = {}) {
  const kind = primary ? " bw-primary" : quiet ? " bw-quiet" : "";
  return h("button", { type: "button", class: `bw-button${kind}`, "aria-label": label, text,
    click: onClick });
}

/**
 * A button that copies a link or another text, and a field that shows it where the browser does not let
 * it.
 * @param {string} text
 * @param {string} label of the field
 * @param {() => string} link
 * @param {string=} says where the button's text alone does not say enough
 * @param {{ done?: string, tag?: string }} more what the button says then, and what the field is
 */
export function copier(text, label, link, says, { done = "Link copied", tag = "input" } = {}) {
  const field = h(tag, { class: "bw-input", readonly: true, hidden: true, "aria-label": label });
  const show = (words, spoken) => {
    copy.textContent = words;
    if (says) copy.setAttribute("aria-label", spoken);
  };
  const copy = button(text, async () => {
    const found = link();
    try {
      await navigator.clipboard.writeText(found);
      show(done, done);
    } catch {
      field.hidden = false;
      field.value = found;
      field.select();
    }
    setTimeout(() => show(text, says), 2000);
  }, { quiet: true, label: says });
  return [copy, field];
}

/** Controls beside each other, wrapping where there is no room. */
export const row = (...nodes) => h("div", { class: "bw-row" }, nodes);

/** A part of a widget under a small heading. */
export const part = (title, ...nodes) =>
  h("div", { class: "bw-part" }, h("p", { class: "bw-label", text: title }), nodes);
