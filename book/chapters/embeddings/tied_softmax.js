// A few token vectors in the plane and a state. The vectors are the output matrix too: a logit is
// the dot product of the state and a token's vector.
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as moved from "../../widgets/js/moved.js";
import * as ui from "../../widgets/js/ui.js";

const SIDE = 320; // of the plane, in its own units
const STEPS = 20; // that one press of the button takes downhill
const RATE = 0.5;

const fixed = (value, digits = 2) => {
  const text = value.toFixed(digits);
  return (/^-0\.?0*$/.test(text) ? text.slice(1) : text).replace("-", "−");
};

/** Logits, probabilities, the smoothed target, the loss, the target's entropy, the gradient on h. */
export function tied(vectors, h, target, temperature, smoothing) {
  const logits = vectors.map((row) => math.dot(row, h));
  const scaled = logits.map((logit) => logit / temperature);
  const weights = math.softmax(scaled);
  const top = Math.max(...scaled);
  const total = Math.log(scaled.reduce((sum, value) => sum + Math.exp(value - top), 0));
  const logs = scaled.map((value) => value - top - total); // ln p, where p itself may be 0
  const targets = vectors.map((_, i) => smoothing / vectors.length
    + (i === target ? 1 - smoothing : 0));
  const loss = targets.reduce((sum, wanted, i) => (wanted ? sum - wanted * logs[i] : sum), 0);
  const gradient = [0, 1].map((k) => vectors.reduce(
    (sum, row, i) => sum + ((weights[i] - targets[i]) * row[k]) / temperature, 0));
  return { logits, weights, targets, loss, entropy: math.entropy(targets), gradient,
    perplexity: Math.exp(-logs[target]) };
}

/** Where `steps` steps against the gradient lead, within the limits. */
export function descend(vectors, h, target, temperature, smoothing, limit, steps = STEPS) {
  let at = h;
  for (let step = 0; step < steps; step += 1) {
    const { gradient } = tied(vectors, at, target, temperature, smoothing);
    at = at.map((value, k) => Math.min(limit, Math.max(-limit, value - RATE * gradient[k])));
  }
  return at;
}

/** The plane: a point for each token, an arrow for the state, another for where the loss pulls. */
function plane(tokens, limit, onMove) {
  const unit = SIDE / (2 * limit + 0.6);
  const x = (value) => SIDE / 2 + value * unit;
  const y = (value) => SIDE / 2 - value * unit;
  const handle = (name, label) => {
    const text = ui.h("text", { text: label });
    const node = ui.h("g", { class: "ts-handle" }, ui.h("circle", { r: 16, class: "bw-grip" }),
      ui.h("circle", { r: 5.5, class: "ts-dot" }), text);
    controls.draggable(node, (left, down) =>
      onMove(name, [(left - 0.5) * (SIDE / unit), (0.5 - down) * (SIDE / unit)]));
    return { node, put([a, b]) {
      node.setAttribute("transform", `translate(${x(a)} ${y(b)})`);
      text.setAttribute("x", a > 0.6 * limit ? -10 : 10);
      text.setAttribute("text-anchor", a > 0.6 * limit ? "end" : "start");
      text.setAttribute("y", b > 0 ? -8 : 17);
    } };
  };
  const handles = tokens.map((token) => handle(token, token));
  const state = handle(null, "h");
  state.node.classList.add("ts-state");
  const [arrow, pull] = ["ts-arrow", "ts-pull"].map((name) => ui.h("path", { class: name }));
  const about = ui.h("desc", {});
  const axis = (values) => ui.h("line", { class: "bw-grid", ...values });
  const svg = ui.h("svg", { role: "img", class: "bw-lines ts-plane",
    viewBox: `0 0 ${SIDE} ${SIDE}` },
  ui.h("title", { text: "Token vectors and the state" }), about,
  axis({ x1: 0, x2: SIDE, y1: SIDE / 2, y2: SIDE / 2 }),
  axis({ x1: SIDE / 2, x2: SIDE / 2, y1: 0, y2: SIDE }),
  arrow, pull, handles.map(({ node }) => node), state.node);

  /** A line from place to place, with a head or without; none where it is too short to see. */
  function path(from, to, head) {
    const [a, b, c, d] = [x(from[0]), y(from[1]), x(to[0]), y(to[1])];
    const length = Math.hypot(c - a, d - b);
    if (length < 2) return "";
    const [u, v] = [(c - a) / length, (d - b) / length];
    const wing = (side) => `${c - 8 * u + side * 4 * v} ${d - 8 * v - side * 4 * u}`;
    return `M${a} ${b}L${c} ${d}${head ? `M${wing(1)}L${c} ${d}L${wing(-1)}` : ""}`;
  }

  return { element: svg, update(vectors, h, gradient, target, chosen, description) {
    handles.forEach(({ node, put }, i) => {
      put(vectors[i]);
      node.classList.toggle("ts-target", i === target);
      node.classList.toggle("ts-chosen", i === chosen);
    });
    state.put(h);
    arrow.setAttribute("d", path([0, 0], h, false));
    pull.setAttribute("d", path(h, h.map((value, k) => value - gradient[k]), true));
    about.textContent = description;
  } };
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Tied softmax explorer",
      lead: "A logit is the dot product of the state h and a token's own vector. Move h, or a "
        + "token; the dashed arrow shows where the loss pulls h.",
    }, (w) => {
      const tokens = w.data("tokens");
      const rows = w.data("vectors");
      const known = Object.fromEntries(tokens.map((token, i) => [token, rows[i]]));
      const limit = w.data("limit");
      w.state({ edited: ui.readable((text) => moved.unpack(text, known, limit)) });
      const held = () => ({ ...known, ...moved.unpack(w.get("edited"), known, limit) });
      const round = (value) => Math.min(limit, Math.max(-limit, Math.round(100 * value) / 100));
      const moveState = ([a, b]) => w.set({ state_1: round(a), state_2: round(b) });
      const moveToken = (token, row) => w.set({ token, edited: moved.pack({
        ...moved.unpack(w.get("edited"), known, limit), [token]: row.map(round) }) });

      const options = tokens.map((token) => [token, token]);
      const target = controls.select(w, "target", { label: "Right token", options });
      const heat = controls.slider(w, "temperature", { label: "Temperature" });
      const smooth = controls.slider(w, "smoothing", {
        label: "Smoothing", step: 0.01, format: (value) => fixed(value) });
      const state = [1, 2].map((k) => controls.slider(w, `state_${k}`, {
        label: `h, entry ${k}`, step: 0.01,
        format: (value) => fixed(value) }));
      const token = controls.select(w, "token", { label: "Token to move", options });
      const entries = [0, 1].map((k) => { // their value depends on the token that is chosen
        const id = ui.freshId();
        const value = ui.h("span", { class: "bw-value", "aria-hidden": "true" });
        const input = controls.steady(ui.h("input", { type: "range", class: "bw-slider", id,
          min: -limit, max: limit, step: 0.01, input: () => {
            const row = held()[w.get("token")].map((old, m) => (m === k ? input.valueAsNumber : old));
            moveToken(w.get("token"), row);
          } }));
        const label = ui.h("label", { class: "bw-label", for: id, text: `Its entry ${k + 1}` });
        return { show(number) {
          input.value = number;
          value.textContent = fixed(number);
          input.setAttribute("aria-valuetext", fixed(number));
          input.style.setProperty("--filled", (number + limit) / (2 * limit));
        }, element: ui.h("div", { class: "bw-field" },
          ui.h("div", { class: "bw-field-head" }, label, value), input) };
      });
      const map = plane(tokens, limit, (name, place) =>
        (name === null ? moveState(place) : moveToken(name, place)));
      const down = ui.button(`${STEPS} steps downhill`, () => {
        const now = w.snapshot();
        moveState(descend(tokens.map((name) => held()[name]), [now.state_1, now.state_2],
          tokens.indexOf(now.target), now.temperature, now.smoothing, limit));
      });

      const cells = tokens.map((name) => {
        const [logit, share, wanted] = ["", "", ""].map(() => ui.h("td", {}));
        const bar = ui.h("div", { class: "ts-bar", "aria-hidden": "true" });
        return { logit, share, wanted, bar, row: ui.h("tr", {},
          ui.h("th", { scope: "row", text: name }), ui.h("td", { class: "ts-wide" }, bar), logit,
          share, wanted) };
      });
      const head = (text) => ui.h("th", { scope: "col", text });
      const table = ui.h("table", { class: "ts-table" },
        ui.h("caption", { class: "bw-hidden", text: "Every token's probability and its target" }),
        ui.h("thead", {}, ui.h("tr", {}, head("token"), ui.h("td", { class: "ts-wide" }),
          head("logit"), head("p"), head("target"))),
        ui.h("tbody", {}, cells.map(({ row }) => row)));
      const figures = {};
      const figure = (key, label) => {
        figures[key] = ui.h("span", { class: "ts-value" });
        return ui.h("li", { class: "ts-figure" },
          ui.h("span", { class: "bw-label", text: label }), figures[key]);
      };
      const readOuts = ui.h("ul", { class: "ts-figures" }, figure("loss", "Loss"),
        figure("entropy", "Entropy of the target"), figure("perplexity", "Perplexity"),
        figure("gradient", "Gradient on h"));
      const reading = ui.h("p", { class: "ts-reading" });

      w.draw((now) => {
        const vectors = tokens.map((name) => held()[name]);
        const h = [now.state_1, now.state_2];
        const [right, chosen] = [tokens.indexOf(now.target), tokens.indexOf(now.token)];
        const found = tied(vectors, h, right, now.temperature, now.smoothing);
        entries.forEach(({ show }, k) => show(vectors[chosen][k]));
        cells.forEach(({ logit, share, wanted, bar, row }, i) => {
          logit.textContent = fixed(found.logits[i]);
          share.textContent = fixed(found.weights[i], 3);
          wanted.textContent = fixed(found.targets[i], 3);
          bar.style.setProperty("--share", found.weights[i].toFixed(4));
          bar.style.setProperty("--wanted", found.targets[i].toFixed(4));
          row.classList.toggle("ts-right", i === right);
        });
        figures.loss.textContent = fixed(found.loss, 3);
        figures.entropy.textContent = fixed(found.entropy, 3);
        figures.perplexity.textContent = found.perplexity < 1000 ? fixed(found.perplexity)
          : found.perplexity.toExponential(1).replace("e+", "·10^");
        figures.gradient.textContent = found.gradient.map((value) => fixed(value)).join(", ");
        const [is, goal] = [found.weights[right], found.targets[right]];
        reading.textContent = `${now.target} has probability ${fixed(is, 3)}, its target is `
          + `${fixed(goal, 3)}: ${Math.abs(is - goal) < 0.0005 ? "reached"
            : is < goal ? "too low" : "too high"}.`;
        map.update(vectors, h, found.gradient, right, chosen,
          `State at ${h.map((value) => fixed(value)).join(", ")}; right token ${now.target}`);
        w.say(`Loss ${fixed(found.loss, 3)}; ${reading.textContent}`);
      });

      w.add(
        ui.h("div", { class: "bw-columns" },
          ui.h("div", { class: "ts-controls" }, map.element, down, target.element),
          ui.h("div", { class: "ts-controls" }, state.map(({ element }) => element),
            heat.element, smooth.element, token.element, entries.map(({ element }) => element))),
        table, readOuts, reading,
      );
      w.foot();
    });
  },
};
