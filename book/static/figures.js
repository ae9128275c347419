// Opens a figure large, over the page. Without it the figure is a link to its file.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const view = document.createElement("dialog");
  view.className = "figure-view";
  const make = (tag, className = "") => Object.assign(document.createElement(tag), { className });
  const [tools, stage] = [make("div", "figure-tools"), make("div", "figure-stage")];
  const [larger, close] = ["Larger", "Close"].map((text) =>
    Object.assign(make("button"), { type: "button", textContent: text }));
  const image = make("img");
  larger.setAttribute("aria-pressed", "false");
  stage.tabIndex = 0;
  image.alt = "";
  tools.append(larger, close);
  stage.append(image);
  view.append(tools, stage);
  document.body.append(view);

  let link, natural;
  // As large as the window allows, or so large that its letters can be read, to be scrolled. Of
  // the larger figure, `at` comes into view: shares of its width and height.
  const resize = (full, at = { x: 0, y: 0 }) => {
    const room = Math.min(stage.clientWidth, (stage.clientHeight * natural.width) / natural.height);
    image.style.width = `${Math.floor(full ? Math.max(natural.width, 1.6 * room) : room)}px`;
    larger.setAttribute("aria-pressed", full);
    stage.scrollTo(
      at.x * image.clientWidth - stage.clientWidth / 2,
      at.y * image.clientHeight - stage.clientHeight / 2,
    );
    return room;
  };
  const isFull = () => larger.getAttribute("aria-pressed") === "true";

  const open = (from) => {
    const shown = from.querySelector("img");
    link = from;
    natural = { width: Number(shown.getAttribute("width")), height: Number(shown.getAttribute("height")) };
    image.src = from.href;
    view.setAttribute("aria-label", shown.alt);
    view.showModal();
    if (resize(false) < 0.9 * natural.width) resize(true);
    history.pushState({ figure: true }, ""); // "back" closes the figure, not the page
  };

  for (const figure of document.querySelectorAll("a.figure")) {
    figure.setAttribute("aria-haspopup", "dialog");
    figure.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in a tab of its own
      event.preventDefault();
      open(figure);
    });
  }
  larger.addEventListener("click", () => resize(!isFull()));
  image.addEventListener("click", ({ offsetX, offsetY }) => resize(!isFull(), {
    x: offsetX / image.clientWidth, y: offsetY / image.clientHeight,
  }));
  close.addEventListener("click", () => view.close());
  stage.addEventListener("click", (event) => { if (event.target === stage) view.close(); });
  view.addEventListener("close", () => {
    if (history.state?.figure) history.back();
    link.focus({ preventScroll: true });
  });
  window.addEventListener("popstate", () => { if (view.open) view.close(); });
  window.addEventListener("resize", () => { if (view.open) resize(isFull()); });
});
