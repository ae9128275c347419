// Self-attention of a short sentence, with every number and the arithmetic behind it.
// Queries, keys and values are the same vectors: embeddings, and positions if they are added.

const cut = (sentence) => sentence.trim().split(/\s+/).filter(Boolean);
const fixed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

/** The embeddings that the reader changed, as text that fits an address: "word=1,2;word=3,4". */
const pack = (changed) =>
  Object.entries(changed).map(([word, row]) => `${word}=${row.join(",")}`).join(";");

/** The same, read again. What does not fit the known words and the width is left out. */
function unpack(text, known, limit) {
  const parts = text.split(";").map((part) => part.split("="));
  return Object.fromEntries(parts.flatMap(([word, numbers]) => {
    const row = (numbers ?? "").split(",").map(Number);
    const fits = Object.hasOwn(known, word) && row.length === known[word].length
      && row.every((value) => Math.abs(value) <= limit);
    return fits ? [[word, row]] : [];
  }));
}

/** Vectors, scores, weights and outputs. A masked score is null. */
function selfAttention(embeddings, { scaled, causal, positions }) {
  const [time, width] = [embeddings.length, embeddings[0].length];
  const marks = math.sinusoidal(time, width);
  const vectors = embeddings.map((row, i) =>
    row.map((value, k) => value + (positions ? marks[i][k] : 0)));
  const mask = causal ? math.causalMask(time) : undefined;
  const scale = scaled ? 1 / Math.sqrt(width) : 1;
  const { scores, weights, output } = math.attention(vectors, vectors, vectors, { mask, scale });
  const open = (i, j) => !mask || mask[i][j];
  const hide = (rows) => rows.map((row, i) => row.map((value, j) => (open(i, j) ? value : null)));
  return { vectors, scores: hide(scores), weights: hide(weights), output, width };
}

/** The arithmetic of one score, one weight and one entry of the output, as lines of text. */
function spellOut(found, tokens, { query: i, key: j, entry: k }, scaled) {
  const { vectors, scores, weights, output, width } = found;
  const pair = `${tokens[i]} → ${tokens[j]}`;
  if (scores[i][j] === null) {
    return [["Score", `${pair}: masked, the key comes later than the query`]];
  }
  const products = vectors[i].map((value, m) => `${fixed(value)}·${fixed(vectors[j][m])}`);
  const exponentials = scores[i].map((score) => (score === null ? 0 : Math.exp(score)));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  const sum = products.join(" + ");
  const mix = weights[i].flatMap((weight, m) =>
    (weight === null ? [] : [`${fixed(weight)}·${fixed(vectors[m][k])}`]));
  return [
    [`Score, ${pair}`, `${scaled ? `(${sum}) / √${width}` : sum} = ${fixed(scores[i][j], 4)}`],
    [`Weight, ${pair}`, `exp(${fixed(scores[i][j])}) / sum over the row = `
      + `${fixed(exponentials[j])} / ${fixed(total)} = ${fixed(weights[i][j], 4)}`],
    [`Output of ${tokens[i]}, entry ${k + 1}`, `${mix.join(" + ")} = ${fixed(output[i][k], 4)}`],
  ];
}

export default {
  render({ model, el }) {
    return ui.widget({
      model,
      el,
      title: "Self-attention explorer",
      lead: "Every token asks every token. Type a sentence of known words, change their vectors, "
        + "and read off how each score, weight and output comes about.",
    }, (w) => {
      const rows = w.data("vectors");
      const known = Object.fromEntries(w.data("words").map((word, i) => [word, rows[i]]));
      const [most, limit] = [w.data("most_tokens"), w.data("limit")];
      w.state({
        sentence: ui.text(200),
        edited: ui.text(1000),
        scaled: ui.flag(),
        causal: ui.flag(),
        positions: ui.flag(),
        query: ui.integer(0, most - 1),
        key: ui.integer(0, most - 1),
      });
      function parse(text) {
        const tokens = cut(text);
        const strange = tokens.filter((token) => !Object.hasOwn(known, token));
        if (strange.length) {
          throw new Error(`expected the known words ${Object.keys(known).join(", ")}, got `
            + `${strange.join(", ")}`);
        }
        if (!tokens.length || tokens.length > most) {
          throw new Error(`expected 1 to ${most} words, got ${tokens.length}`);
        }
        return tokens.join(" ");
      }
      const current = () => {
        const tokens = cut(parse(w.get("sentence")));
        const last = tokens.length - 1;
        return { tokens, query: Math.min(w.get("query"), last), key: Math.min(w.get("key"), last) };
      };
      const name = (place) => current().tokens[Math.min(place, current().tokens.length - 1)];

      const sentence = controls.text(w, "sentence", {
        label: "Sentence", hint: `Known words: ${Object.keys(known).join(", ")}`, parse });
      const toggles = ui.row(
        controls.toggle(w, "scaled", { label: "Divide by √width" }).element,
        controls.toggle(w, "causal", { label: "Causal mask" }).element,
        controls.toggle(w, "positions", { label: "Add positions" }).element);
      const query = controls.slider(w, "query", {
        label: "Query (row)", min: 0, max: most - 1, format: name });
      const key = controls.slider(w, "key", {
        label: "Key (column)", min: 0, max: most - 1, format: name });

      // The embedding of the query's word, one slider an entry
      const title = ui.h("p", { class: "bw-label" });
      const entries = rows[0].map((_, k) => {
        const id = ui.freshId();
        const value = ui.h("span", { class: "bw-value", "aria-hidden": "true" });
        const input = ui.h("input", { type: "range", class: "bw-slider", id, min: -limit,
          max: limit, step: 0.001, input: () => change(k, input.valueAsNumber) });
        const label = ui.h("label", { class: "bw-label", for: id, text: `Entry ${k + 1}` });
        return { input, value, element: ui.h("div", { class: "bw-field" },
          ui.h("div", { class: "bw-field-head" }, label, value), input) };
      });
      const held = () => ({ ...known, ...unpack(w.get("edited"), known, limit) });
      function change(k, value) {
        const { tokens, query: i } = current();
        const word = tokens[i];
        const row = held()[word].map((old, m) => (m === k ? Math.round(1000 * value) / 1000 : old));
        w.set({ edited: pack({ ...unpack(w.get("edited"), known, limit), [word]: row }) });
      }

      const pick = (i, j) => w.set({ query: i, key: j });
      const scores = chart.heatMap({ caption: "Scores", numbers: true, onPick: pick });
      const weights = chart.heatMap({ caption: "Weights", numbers: true, onPick: pick });
      const outputs = chart.heatMap({ caption: "Outputs", numbers: true,
        rowTitle: "token", columnTitle: "entry of its output" });
      const lines = ui.h("dl", { class: "sa-lines" });
      let found = null;
      let known_ = "";

      function spell(place) {
        const { tokens } = current();
        lines.replaceChildren(...spellOut(found, tokens, place, w.get("scaled")).flatMap(
          ([term, text]) => [ui.h("dt", { class: "bw-label", text: term }), ui.h("dd", { text })]));
      }
      const chosen = () => ({ ...current(), entry: 0 });
      for (const [map, isOutput] of [[scores, false], [weights, false], [outputs, true]]) {
        map.element.addEventListener("mouseover", (event) => {
          const cell = event.target.closest("td[title]");
          if (!cell) return;
          const [i, j] = [cell.parentNode.rowIndex - 1, cell.cellIndex - 1];
          spell(isOutput ? { query: i, key: chosen().key, entry: j }
            : { query: i, key: j, entry: 0 });
        });
        map.element.addEventListener("mouseleave", () => spell(chosen()));
      }

      w.draw((state) => {
        const { tokens, query: i, key: j } = current();
        const embeddings = held();
        const now = JSON.stringify([tokens, state.edited, state.scaled, state.causal,
          state.positions]);
        if (now !== known_) {
          known_ = now;
          found = selfAttention(tokens.map((token) => embeddings[token]), state);
          const sizes = found.scores.flat().filter((value) => value !== null).map(Math.abs);
          const labels = { rows: tokens, columns: tokens };
          const most_ = (values) => Math.max(0.01, Math.round(100 * Math.max(...values)) / 100);
          scores.update(found.scores, { ...labels, max: most_(sizes) });
          weights.update(found.weights, { ...labels, max: 1 });
          outputs.update(found.output, { rows: tokens,
            columns: found.output[0].map((_, k) => String(k + 1)),
            max: most_(found.output.flat().map(Math.abs)) });
          query.limits(0, tokens.length - 1);
          key.limits(0, tokens.length - 1);
        }
        scores.outline(i, j);
        weights.outline(i, j);
        outputs.outline(i);
        title.textContent = `Embedding of “${tokens[i]}”, wherever it stands`;
        entries.forEach(({ input, value }, k) => {
          const number = embeddings[tokens[i]][k];
          input.value = number;
          value.textContent = fixed(number, 3);
          input.setAttribute("aria-valuetext", fixed(number, 3));
          input.style.setProperty("--filled", (number + limit) / (2 * limit));
        });
        spell(chosen());
        const weight = found.weights[i][j];
        w.say(`${tokens[i]} to ${tokens[j]}: ${weight === null ? "masked"
          : `weight ${fixed(weight)}`}`);
      });

      w.add(
        sentence.element,
        toggles,
        ui.row(query.element, key.element),
        ui.h("div", { class: "bw-columns" },
          ui.part("Scores", scores.element), ui.part("Weights", weights.element)),
        ui.part("Outputs", outputs.element),
        ui.h("div", { class: "sa-panel" }, lines),
        ui.h("div", { class: "bw-part" }, title,
          ui.h("div", { class: "sa-entries" }, entries.map(({ element }) => element))),
      );
      w.foot();
    });
  },
};
