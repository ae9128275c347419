// Opens a test or a listing below the text whose mark was pressed. Without it a mark is a link to its
// entry at the end of the page.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const opened = new Map(); // of each mark whose entry is open in the text, the panel that shows it

  function make(tag, properties, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  const entryOf = (mark) => document.getElementById(mark.hash.slice(1));
  const foldOf = (mark) => entryOf(mark).querySelector("details");

  /** What a panel stands behind: the paragraph of the mark, or the figure or the table it is in. */
  function textOf(mark) {
    const table = mark.closest("table");
    return table?.closest(".pst-scrollable-table-container") ?? table ?? mark.closest("figure")
      ?? mark.closest("p, li, dd, div");
  }

  function open(mark) {
    const fold = foldOf(mark);
    const line = fold.querySelector("summary").cloneNode(true);
    const panel = make("div", { className: "check-open", id: `${entryOf(mark).id}-open` });
    const title = make("p", { className: "check-line", id: `${panel.id}-line` }, ...line.childNodes);
    const shut = make("button", { type: "button" }, "Close");
    shut.addEventListener("click", () => close(mark));
    panel.setAttribute("role", "group");
    panel.setAttribute("aria-labelledby", title.id);
    panel.append(title, fold.querySelector(".ask-inside"), shut);
    fold.open = false;
    const text = textOf(mark);
    if (text.matches("li, dd, div")) text.append(panel);
    else if (text.nextElementSibling?.matches(".check-open")) text.nextElementSibling.before(panel);
    else text.after(panel);
    opened.set(mark, panel);
    window.dispatchEvent(new Event("resize")); // what scrolls gets a stop for the keyboard
    mark.setAttribute("aria-expanded", "true");
  }

  /** Back to the entry, which is complete again; the mark keeps its place on the screen. */
  function close(mark) {
    const panel = opened.get(mark);
    const hadFocus = panel.contains(document.activeElement);
    const before = mark.getBoundingClientRect().top;
    foldOf(mark).append(panel.querySelector(".ask-inside"));
    panel.remove();
    opened.delete(mark);
    mark.setAttribute("aria-expanded", "false");
    if (!hadFocus) return;
    mark.focus({ preventScroll: true });
    if (before < 0) mark.scrollIntoView({ block: "center" });
  }

  const toggle = (mark) => (opened.has(mark) ? close(mark) : open(mark));

  for (const mark of document.querySelectorAll("a.check:not(.library)")) {
    mark.setAttribute("role", "button");
    mark.setAttribute("aria-expanded", "false");
    mark.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      toggle(mark);
    });
    mark.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      toggle(mark);
    });
    // Whoever opens the entry at the page's end reads it there.
    foldOf(mark).addEventListener("toggle", () => {
      if (foldOf(mark).open && opened.has(mark)) close(mark);
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const [mark, panel] of opened) {
      if (mark === document.activeElement || panel.contains(document.activeElement)) close(mark);
    }
  });
});
