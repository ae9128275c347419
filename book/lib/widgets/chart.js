// What the widgets draw: a heat map, a list of bars, lines over an axis.
// Queries are rows and keys are columns. Colour never says anything alone.
const chart = (() => {
  const { h, hidden } = ui;
  const TURN = 0.59; // from this share on, text on a shade changes colour; a test holds the contrast
  const isOpen = (value) => typeof value === "number" && Number.isFinite(value);

  /** Colours a node by a share from 0 to 1; the style sheet turns it into a colour. */
  function shade(node, share) {
    const held = Math.min(1, Math.max(0, share));
    node.style.setProperty("--share", held.toFixed(3));
    node.classList.toggle("bw-deep", held > TURN);
    return node;
  }

  /**
   * A map of numbers as a table. Options: caption, rows and columns (their labels), rowTitle and
   * columnTitle (what a row and a column are), digits, numbers (write them into the cells),
   * max (the value of the darkest colour), onPick(row, column) for a pointer; give the keyboard a
   * control of its own. A value that is null stands for "may not attend" and is hatched.
   * Returns { element, update(values, { rows, columns, max }), outline(row, column) }.
   */
  function heatMap({ caption, rows = [], columns = [], rowTitle = "query", columnTitle = "key",
    digits = 2, numbers = false, max = 1, onPick }) {
    const table = h("table", { class: `bw-map${numbers ? " bw-numbers" : ""}` });
    const top = h("span", { text: "1" });
    const scroll = h("div", { class: "bw-scroll", role: "group", "aria-label": caption }, table);
    new ResizeObserver(() => { // only what scrolls needs a stop of the Tab key
      scroll.toggleAttribute("tabindex", scroll.scrollWidth > scroll.clientWidth);
      if (scroll.hasAttribute("tabindex")) scroll.tabIndex = 0;
    }).observe(scroll);
    const element = h("figure", { class: "bw-figure" }, scroll,
      h("figcaption", { class: "bw-caption" },
        h("span", { text: `Rows: ${rowTitle}. Columns: ${columnTitle}.` }),
        h("span", { class: "bw-scale", "aria-hidden": "true" },
          h("span", { text: "0" }), h("span", { class: "bw-ramp" }), top)));
    let labels = { rows, columns, max };
    let outlined = [null, null];
    let cells = [];
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("td");
      if (cell && onPick) onPick(cell.parentNode.rowIndex - 1, cell.cellIndex - 1);
    });

    function cell(value, i, j) {
      const shown = isOpen(value) ? value.toFixed(digits) : "masked";
      const where = `${labels.rows[i]} → ${labels.columns[j]}: ${shown}`;
      const node = h("td", { title: where, class: isOpen(value) ? "" : "bw-masked" },
        numbers && isOpen(value) ? h("span", { text: shown }) : hidden(shown));
      return isOpen(value) ? shade(node, value / labels.max) : node;
    }

    function outline(row = null, column = null) {
      outlined = [row, column];
      cells.forEach((line, i) => {
        line[0].parentNode.classList.toggle("bw-current", i === row);
        line.forEach((node, j) => node.classList.toggle("bw-current-column", j === column));
      });
    }

    return {
      element,
      outline,
      update(values, changes = {}) {
        labels = { ...labels, ...changes };
        top.textContent = String(labels.max);
        table.style.setProperty("--columns", labels.columns.length);
        const corner = h("td", { class: "bw-corner" });
        const heads = labels.columns.map((text) =>
          h("th", { scope: "col" }, h("span", { text })));
        cells = values.map((line, i) => line.map((value, j) => cell(value, i, j)));
        table.replaceChildren(
          h("caption", { class: "bw-hidden", text: caption }),
          h("thead", {}, h("tr", {}, corner, heads)),
          h("tbody", {}, cells.map((line, i) =>
            h("tr", {}, h("th", { scope: "row", text: labels.rows[i] }), line))));
        outline(...outlined);
      },
    };
  }

  /**
   * Bars beside their names. Options: label, digits, max, format(value) -> text.
   * Returns { element, update([{ name, value, note, current }]) }.
   */
  function bars({ label, max = 1, format = (value) => value.toFixed(2) }) {
    const element = h("ol", { class: "bw-bars", "aria-label": label });
    return {
      element,
      update(items) {
        element.replaceChildren(...items.map(({ name, value, note, current }) =>
          h("li", { class: current ? "bw-chosen" : "" },
            h("span", { class: "bw-bar-name" }, h("span", { text: name }),
              note && h("span", { class: "bw-bar-note", text: note })),
            h("span", { class: "bw-bar", "aria-hidden": "true", "--share": value / max }),
            h("span", { class: "bw-bar-value", text: format(value) }))));
      },
    };
  }

  // The marks of the series, so that they differ in form as well as in colour.
  const MARKS = [
    (x, y) => h("circle", { cx: x, cy: y, r: 4 }),
    (x, y) => h("rect", { x: x - 3.75, y: y - 3.75, width: 7.5, height: 7.5 }),
    (x, y) => h("path", { d: `M${x} ${y - 5}l5 8.7h-10z` }),
    (x, y) => h("path", { d: `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5-5.5z` }),
  ];

  /** The line and mark of series `i`, to stand beside its name. */
  function swatch(i) {
    const mark = MARKS[i % 4](17, 7);
    mark.classList.add("bw-mark");
    return h("svg", { width: 34, height: 14, viewBox: "0 0 34 14", class: "bw-swatch",
      "aria-hidden": "true" },
    h("g", { class: `bw-series bw-series-${(i % 4) + 1}` },
      h("path", { class: "bw-line", d: "M1 7H33" }), mark));
  }

  /** A round step for about `count` ticks. */
  function tickStep(span, count) {
    const raw = span / count || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  }

  function ticksOf(axis, count) {
    if (axis.ticks) return axis.ticks;
    const step = tickStep(axis.max - axis.min, count);
    const first = Math.ceil(axis.min / step - 1e-9);
    const number = Math.floor(axis.max / step + 1e-9) - first + 1;
    return Array.from({ length: number }, (_, i) => [
      (first + i) * step, String(+((first + i) * step).toPrecision(6)).replace("-", "−")]);
  }

  /**
   * Lines over an axis. Options: title and description (for those who cannot see it), x and y as
   * { label, min, max, ticks: [[value, text]] } (without ticks it finds round ones), height,
   * points (draw a mark at each point; default for up to 30 points).
   * Returns { element, update([{ name, points: [[x, y]] }], { x, y, description }), mark(x) }.
   */
  function lines({ title, description = "", x, y, height = 240, points: withMarks }) {
    const svg = h("svg", { role: "img", class: "bw-lines" });
    const legend = h("div", { class: "bw-legend", "aria-hidden": "true" });
    const element = h("figure", { class: "bw-figure" }, legend, svg);
    let held = { series: [], x, y, description, at: null };

    function paint() {
      const width = Math.max(240, element.clientWidth || 480);
      const box = { left: 46, right: width - 14, top: 12, bottom: height - 44 };
      const px = (value) => box.left
        + ((value - held.x.min) / (held.x.max - held.x.min || 1)) * (box.right - box.left);
      const py = (value) => box.bottom
        - ((value - held.y.min) / (held.y.max - held.y.min || 1)) * (box.bottom - box.top);
      const text = (left, down, words, attributes = {}) =>
        h("text", { x: left, y: down, text: words, ...attributes });
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      svg.replaceChildren(
        h("title", { text: title }), h("desc", { text: held.description }),
        ...ticksOf(held.y, 4).flatMap(([value, label]) => [
          h("line", { class: "bw-grid", x1: box.left, x2: box.right, y1: py(value), y2: py(value) }),
          text(box.left - 8, py(value) + 4, label, { "text-anchor": "end" })]),
        ...ticksOf(held.x, width / 90).map(([value, label]) =>
          text(px(value), box.bottom + 18, label, { "text-anchor": "middle" })),
        text((box.left + box.right) / 2, height - 6, held.x.label,
          { "text-anchor": "middle", class: "bw-axis" }),
        ...(held.at === null ? [] : [
          h("line", { class: "bw-at", x1: px(held.at), x2: px(held.at), y1: box.top,
            y2: box.bottom })]),
        ...held.series.map(({ points }, i) => {
          const marks = withMarks ?? points.length <= 30;
          return h("g", { class: `bw-series bw-series-${(i % 4) + 1}` },
            h("path", { class: "bw-line",
              d: points.map(([a, b], k) => `${k ? "L" : "M"}${px(a)} ${py(b)}`).join("") }),
            points.filter(([a]) => marks || a === held.at).map(([a, b]) => {
              const mark = MARKS[i % 4](px(a), py(b));
              mark.classList.add("bw-mark");
              if (a === held.at) mark.classList.add("bw-mark-current");
              return mark;
            }));
        }));
    }

    new ResizeObserver(paint).observe(element);
    return {
      element,
      update(series, changes = {}) {
        held = { ...held, ...changes, series };
        legend.replaceChildren(
          h("span", { class: "bw-axis-y", text: held.y.label }),
          ...series.map(({ name }, i) =>
            h("span", { class: "bw-legend-item" }, swatch(i), h("span", { text: name }))));
        paint();
      },
      mark(at) {
        held.at = at;
        paint();
      },
    };
  }

  return { shade, heatMap, bars, lines, swatch };
})();
