// Self-attention of a short sentence or of many random vectors, with the arithmetic behind every
// number. Queries, keys and values are made of the vectors by three matrices, or are the vectors.
import * as chart from "../../widgets/js/chart.js";
import * as controls from "../../widgets/js/controls.js";
import * as math from "../../widgets/js/math.js";
import * as moved from "../../widgets/js/moved.js";
import * as ui from "../../widgets/js/ui.js";

const cut = (sentence) => sentence.trim().split(/\s+/).filter(Boolean);
const fixed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

/** A number of the arithmetic, as it is shown: with four decimals at most. */
const rounded = (value) => Number(value.toFixed(4));
const factor = (value) => String(rounded(value)).replace("-", "−");

/** A result, behind "=" if the numbers shown give its four decimals, else behind "≈". */
const result = (value, given) =>
  `${fixed(given, 4) === fixed(value, 4) ? "=" : "≈"} ${fixed(value, 4)}`;

/** Random vectors of unit variance; shorter ones are the beginnings of the widest. */
function vectorsFrom(seed, most, widest) {
  const draw = math.normal(seed);
  return Array.from({ length: most }, () => Float64Array.from({ length: widest }, draw));
}

let marks = [[]]; // positions, kept while the size stays
function positionsOf(time, width) {
  if (marks.length !== time || marks[0].length !== width) marks = math.sinusoidal(time, width);
  return marks;
}

/** Queries, keys, values, scores, weights and outputs. A masked score is null. */
function selfAttention(embeddings, { scaled, causal, positions }, matrices) {
  const [time, width] = [embeddings.length, embeddings[0].length];
  const added = positions && positionsOf(time, width);
  const vectors = !added ? embeddings
    : embeddings.map((row, i) => row.map((value, k) => value + added[i][k]));
  const [queries, keys, values] = matrices ? matrices.map((w) => math.matmul(vectors, w))
    : [vectors, vectors, vectors];
  const mask = causal ? math.causalMask(time) : undefined;
  const d_k = keys[0].length;
  const scale = scaled ? 1 / Math.sqrt(d_k) : 1;
  const { scores, weights, output } = math.attention(queries, keys, values, { mask, scale });
  const hide = (rows) => (!mask ? rows
    : rows.map((row, i) => row.map((value, j) => (mask[i][j] ? value : null))));
  return { queries, keys, values, scores: hide(scores), weights: hide(weights), output, d_k };
}

/**
 * A sum of products, written out; of a long one the largest terms, and the rest in one number.
 * Returns { text, given }, where given is what the numbers shown add up to.
 */
function spellSum(pairs) {
  const terms = pairs.map(([a, b]) => ({ value: a * b, given: rounded(a) * rounded(b),
    text: `${factor(a)}·${factor(b)}` }));
  const size = ({ value }) => -Math.abs(value);
  const large = terms.length <= 10 ? terms
    : [...terms].sort((a, b) => size(a) - size(b)).slice(0, 4);
  const texts = large.map(({ text }) => text);
  let given = large.reduce((sum, term) => sum + term.given, 0);
  if (large !== terms) {
    const kept = new Set(large);
    const rest = terms.reduce((sum, term) => sum + (kept.has(term) ? 0 : term.value), 0);
    given += rounded(rest);
    texts.push(`${factor(rest)} (the ${terms.length - large.length} smaller terms)`);
  }
  return { text: texts.join(" + "), given };
}

/** The arithmetic of one score, one weight and one entry of the output: [what, text] each. */
function spellOut(found, tokens, { query: i, key: j, entry: k }, scaled, nameOf) {
  const { queries, keys, values, scores, weights, output, d_k } = found;
  const pair = `${tokens[i]} → ${tokens[j]}`;
  const kept = weights[i].map((weight, m) => [weight, values[m][k]]).filter(([a]) => a !== null);
  const mixed = spellSum(kept);
  const last = [`Output of ${tokens[i]}, ${nameOf(k)}`,
    `${mixed.text} ${result(output[i][k], mixed.given)}`];
  const score = scores[i][j];
  if (score === null) {
    const why = `${pair}: masked, the key comes later than the query`;
    return [["Score", why], ["Weight", why], last];
  }
  const open = scores[i].filter((one) => one !== null);
  const top = Math.max(...open) > 10 ? Math.max(...open) : 0; // taken off, or exp grows too large
  const power = Math.exp(score - top);
  const total = open.reduce((sum, one) => sum + Math.exp(one - top), 0);
  const sum = spellSum(Array.from(queries[i], (value, m) => [value, keys[j][m]]));
  const exponent = `${factor(score)}${top ? ` − ${factor(top)}` : ""}`;
  const share = result(weights[i][j], rounded(power) / rounded(total));
  return [
    [`Score, ${pair}`, scaled
      ? `(${sum.text}) / √${d_k} ${result(score, sum.given / Math.sqrt(d_k))}`
      : `${sum.text} ${result(score, sum.given)}`],
    [`Weight, ${pair}`, `exp(${exponent}) / sum over the row `
      + `≈ ${factor(power)} / ${factor(total)} ${share}`],
    last,
  ];
}

/** The largest size of a number in a matrix, as the end of a colour scale. */
function largest(rows) {
  let most = 0.01;
  for (const row of rows) for (const value of row) most = Math.max(most, Math.abs(value ?? 0));
  return Math.round(100 * most) / 100;
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Self-attention explorer",
      lead: "Every token asks every token. Point at a number, or walk to it with the arrow keys, "
        + "and read off how it comes about.",
    }, (w) => {
      const rows = w.data("vectors");
      const known = Object.fromEntries(w.data("words").map((word, i) => [word, rows[i]]));
      const [{ most }, limit] = [w.domain("n_tokens"), w.data("limit")];
      const [features, matrices] = [w.data("features"), w.data("matrices")];
      const widest = Math.max(...w.domain("width"), rows[0].length, matrices[2]?.[0].length ?? 0);
      function parse(text) {
        const tokens = cut(text);
        const strange = tokens.filter((token) => !Object.hasOwn(known, token));
        if (strange.length) {
          throw new Error(`expected the known words ${Object.keys(known).join(", ")}, got `
            + `${strange.join(", ")}`);
        }
        if (tokens.length && tokens.length <= most) return tokens.join(" ");
        throw new Error(`expected 1 to ${most} words, got ${tokens.length}`);
      }
      w.state({
        sentence: ui.readable(parse),
        edited: ui.readable((text) => moved.unpack(text, known, limit)),
        query: ui.integer(0, most - 1), key: ui.integer(0, most - 1),
        entry: ui.integer(0, widest - 1),
      });
      const isRandom = () => w.get("source") === "random";
      const isProjected = () => matrices.length > 0 && w.get("projected") && !isRandom();
      // Entries with names keep their meaning: no positions are added to them.
      const takesPositions = () => !features.length || isRandom();
      /** The name of an entry of an output or, capitalised, of an embedding. */
      const entryName = (k) => (isRandom() ? null : features[k]) ?? `entry ${k + 1}`;
      const current = () => {
        const tokens = isRandom() ? Array.from({ length: w.get("n_tokens") }, (_, i) => `t${i}`)
          : cut(parse(w.get("sentence")));
        const own = isProjected() ? matrices[2][0].length : rows[0].length;
        const width = isRandom() ? w.get("width") : own;
        const place = (key, size) => Math.min(w.get(key), size - 1);
        return { tokens, query: place("query", tokens.length), key: place("key", tokens.length),
          entry: place("entry", width) };
      };
      const name = (place) => current().tokens[Math.min(place, current().tokens.length - 1)];

      const source = controls.choice(w, "source", { label: "Vectors",
        options: [["sentence", "Known words"], ["random", "Random"]] });
      const sentence = controls.text(w, "sentence", {
        label: "Sentence", hint: `Known words: ${Object.keys(known).join(", ")}`, parse });
      const note = ui.h("p", { class: "sa-note", text: "Random vectors serve as queries, keys and "
        + "values themselves, without matrices. A token's score with itself is then the square of "
        + "its length. With large dimension and spread that is by far the largest score, so each "
        + "token attends to itself." });
      const sizes = ui.h("div", { class: "sa-sizes" },
        [["n_tokens", "Tokens"], ["width", "Dimension"], ["spread", "Spread"], ["seed", "Draw"]]
          .map(([which, label]) => controls.slider(w, which, { label }).element));
      const projected = matrices.length > 0 && controls.toggle(w, "projected",
        { label: "Use W^Q, W^K and W^V" }).element;
      const positions = controls.toggle(w, "positions", { label: "Add positions" }).element;
      const toggles = ui.row(
        ...(projected ? [projected] : []),
        controls.toggle(w, "scaled", { label: "Divide by √dimension" }).element,
        controls.toggle(w, "causal", { label: "Causal mask" }).element,
        positions);
      const [query, key] = [["query", "Query (row)"], ["key", "Key (column)"]].map(
        ([which, label]) => controls.slider(w, which, { label, format: name }));

      // The embedding of the query's word, one slider an entry
      const title = ui.h("p", { class: "bw-label" });
      const entries = (rows[0].length <= w.data("most_sliders") ? rows[0] : []).map((_, k) => {
        const id = ui.freshId();
        const value = ui.h("span", { class: "bw-value", "aria-hidden": "true" });
        const input = controls.steady(ui.h("input", { type: "range", class: "bw-slider", id,
          min: -limit, max: limit, step: 0.001, input: () => change(k, input.valueAsNumber) }));
        const name = features[k] ?? `Entry ${k + 1}`;
        const label = ui.h("label", { class: "bw-label", for: id, text: name });
        return { input, value, element: ui.h("div", { class: "bw-field" },
          ui.h("div", { class: "bw-field-head" }, label, value), input) };
      });
      const editor = ui.h("div", { class: "bw-part" }, title,
        ui.h("div", { class: "sa-entries" }, entries.map(({ element }) => element)));
      const held = () => ({ ...known, ...moved.unpack(w.get("edited"), known, limit) });
      function change(k, value) {
        const { tokens, query: i } = current();
        const word = tokens[i];
        const row = held()[word].map((old, m) => (m === k ? Math.round(1000 * value) / 1000 : old));
        w.set({ edited: moved.pack({ ...moved.unpack(w.get("edited"), known, limit), [word]: row }) });
      }

      // The maps; reading a cell shows its arithmetic, and a screen reader hears it
      const lines = ui.h("dl", { class: "sa-lines" });
      let found = null;
      let shown = "";
      let drawn = { seed: null };
      function spell(place, line) {
        const { tokens } = current();
        const all = spellOut(found, tokens, place, w.get("scaled"), entryName);
        lines.replaceChildren(...all.flatMap(([term, text], k) => [
          ui.h("dt", { class: `bw-label${k === line ? " sa-read" : ""}`, text: term }),
          ui.h("dd", { text })]));
        if (line !== undefined) w.say(`${all[line][0]}: ${all[line][1]}`);
      }
      const map = (caption, line, placeOf, titles) => chart.heatMap({ caption, numbers: true,
        ...titles,
        onPick: (i, j) => w.set(placeOf(i, j)),
        onRead: (i, j, byKey) => (i === undefined ? spell(current())
          : spell({ ...current(), ...placeOf(i, j) }, byKey ? line : undefined)) });
      const [scores, weights] = ["Scores", "Weights"].map((caption, line) =>
        map(caption, line, (i, j) => ({ query: i, key: j })));
      const outputs = map("Outputs", 2, (i, k) => ({ query: i, entry: k }),
        { rowTitle: "token", columnTitle: "entry of its output" });

      function embed(state, tokens) {
        const vectors = held();
        if (state.source === "sentence") return tokens.map((token) => vectors[token]);
        if (drawn.seed !== state.seed) {
          drawn = { seed: state.seed, rows: vectorsFrom(state.seed, most, widest) };
        }
        return drawn.rows.slice(0, tokens.length).map((row) =>
          row.subarray(0, state.width).map((value) => value * state.spread));
      }
      w.draw((state) => {
        const { tokens, query: i, key: j, entry: k } = current();
        const random = state.source === "random";
        const now = JSON.stringify({ ...state, query: 0, key: 0, entry: 0 });
        if (now !== shown) {
          shown = now;
          const added = state.positions && takesPositions();
          found = selfAttention(embed(state, tokens), { ...state, positions: added },
            isProjected() ? matrices : null);
          const labels = { rows: tokens, columns: tokens };
          scores.update(found.scores, { ...labels, max: largest(found.scores) });
          weights.update(found.weights, { ...labels, max: 1 });
          outputs.update(found.output, { rows: tokens,
            columns: found.output[0].map((_, m) => (random ? null : features[m]) ?? String(m + 1)),
            max: largest(found.output) });
          query.limits(0, tokens.length - 1);
          key.limits(0, tokens.length - 1);
        }
        sentence.element.hidden = random;
        sizes.hidden = !random;
        note.hidden = !random;
        if (projected) projected.hidden = random;
        positions.hidden = !takesPositions();
        editor.hidden = random || !entries.length;
        scores.outline(i, j);
        weights.outline(i, j);
        outputs.outline(i, k);
        title.textContent = `Embedding of “${tokens[i]}”, wherever it stands`;
        if (!editor.hidden) {
          const row = held()[tokens[i]];
          entries.forEach(({ input, value }, m) => {
            const number = row[m];
            input.value = number;
            value.textContent = fixed(number, 3);
            input.setAttribute("aria-valuetext", fixed(number, 3));
            input.style.setProperty("--filled", (number + limit) / (2 * limit));
          });
        }
        spell(current());
        const weight = found.weights[i][j];
        const said = weight === null ? "masked" : `weight ${fixed(weight)}`;
        w.say(`${tokens[i]} to ${tokens[j]}: ${said}`);
      });

      w.add(
        source.element, sentence.element, sizes, note, toggles,
        ui.row(query.element, key.element),
        ui.h("div", { class: "bw-columns" },
          ui.part("Scores", scores.element), ui.part("Weights", weights.element)),
        ui.part("Outputs", outputs.element), ui.h("div", { class: "sa-panel" }, lines), editor);
      w.foot();
    });
  },
};
