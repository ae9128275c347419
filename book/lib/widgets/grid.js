// A matrix to read cell by cell and, where cells can be picked, to walk in with the arrow keys.
const grid = (() => {
  const { h, hidden } = ui;

  /**
   * A matrix of signs. Options: caption, rowTitle, columnTitle; onMove(row), onPick(row, column),
   * with which the cells are a grid: arrows move, Space and a click pick.
   * Returns { element, update(cells, rows, columns, row) }, where a cell is { kind, sign, words }.
   */
  function cells({ caption, rowTitle, columnTitle, onMove, onPick }) {
    const table = h("table", {
      class: "bw-map bw-cells", role: onPick && "grid", "aria-label": caption });
    const scroll = h("div", onPick ? { class: "bw-scroll" }
      : { class: "bw-scroll", role: "group", "aria-label": caption }, table);
    const element = h("figure", { class: "bw-figure" }, scroll, h("figcaption",
      { class: "bw-caption" }, h("span", { text: `Rows: ${rowTitle}. Columns: ${columnTitle}.` })));
    let nodes = [];
    let at = [0, 0]; // the cell that the Tab key reaches
    if (!onPick) {
      new ResizeObserver(() => { // only what scrolls needs a stop of the Tab key
        if (scroll.scrollWidth > scroll.clientWidth) scroll.tabIndex = 0;
        else scroll.removeAttribute("tabindex");
      }).observe(scroll);
    }

    function move(i, j, focus) {
      nodes[at[0]]?.[at[1]]?.setAttribute("tabindex", -1);
      at = [[i, nodes.length], [j, nodes[0].length]]
        .map(([place, size]) => Math.min(size - 1, Math.max(0, place)));
      const cell = nodes[at[0]][at[1]];
      cell.tabIndex = 0;
      if (focus) cell.focus();
    }
    function onKey(event) {
      const [i, j] = at;
      const [last, end] = [nodes.length - 1, nodes[0].length - 1];
      const far = event.ctrlKey || event.metaKey;
      const moves = { ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1],
        ArrowRight: [i, j + 1], Home: [far ? 0 : i, 0], End: [far ? last : i, end] };
      if (moves[event.key]) move(...moves[event.key], true);
      else if (event.key === " " || event.key === "Enter") onPick(i, j);
      else return;
      event.preventDefault();
    }
    const placeOf = (event) => {
      const cell = event.target.closest("td[role=gridcell]");
      return cell && [cell.parentNode.rowIndex - 1, cell.cellIndex - 1];
    };
    if (onPick) {
      table.addEventListener("keydown", onKey);
      table.addEventListener("focusin", (event) => {
        const place = placeOf(event);
        if (place) { move(...place); onMove(place[0]); }
      });
      table.addEventListener("click", (event) => {
        const place = placeOf(event);
        if (place) { move(...place, true); onPick(...place); }
      });
    }

    function rebuild(rows, columns) {
      table.style.setProperty("--columns", columns);
      nodes = Array.from({ length: rows }, () => Array.from({ length: columns }, () =>
        h("td", { role: onPick && "gridcell", tabindex: onPick && -1 },
          h("span", { "aria-hidden": "true" }), !onPick && hidden(""))));
      const head = (scope) => h("th", { scope }, h("span", {}));
      table.replaceChildren(
        h("thead", {}, h("tr", {}, h("td", { class: "bw-corner" }),
          Array.from({ length: columns }, () => head("col")))),
        h("tbody", {}, nodes.map((line) => h("tr", {}, head("row"), line))));
      if (onPick) move(...at);
    }

    return { element, update(cells, rows, columns, row) {
      if (nodes.length !== rows.length || nodes[0].length !== columns.length) {
        rebuild(rows.length, columns.length);
      }
      const heads = table.querySelectorAll("th > span");
      [...columns, ...rows].forEach((text, k) => {
        if (heads[k].textContent !== text) heads[k].textContent = text;
      });
      cells.forEach((line, i) => {
        nodes[i][0].parentNode.classList.toggle("bw-current", i === row);
        line.forEach(({ kind, sign, words }, j) => {
          const title = `${rows[i]} → ${columns[j]}: ${words}`;
          if (nodes[i][j].className === kind && nodes[i][j].title === title) return;
          const [shown, read] = nodes[i][j].children;
          Object.assign(nodes[i][j], { className: kind, title });
          shown.textContent = sign;
          if (read) read.textContent = words; // for screen readers
          else nodes[i][j].ariaLabel = words;
        });
      });
    } };
  }

  return { cells };
})();
