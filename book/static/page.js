// Mends what the theme leaves unclear to a screen reader. The page reads the same without it.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  // The book's title stands outside every landmark.
  const title = document.querySelector(".sidebar-primary-item:has(.navbar-brand)");
  title?.setAttribute("role", "navigation");
  title?.setAttribute("aria-label", "Book title");

  // Escape takes a word's explanation away until pointer and focus have left the word.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const term of document.querySelectorAll(".term:is(:hover, :focus-within)")) {
      term.classList.add("dismissed");
    }
  });
  const restore = () => {
    const left = ".term.dismissed:not(:hover, :focus-within)";
    for (const term of document.querySelectorAll(left)) term.classList.remove("dismissed");
  };
  for (const leave of ["pointerout", "focusout"]) {
    document.addEventListener(leave, () => setTimeout(restore));
  }

  // Paper is white: the dark theme's pale letters would hardly show on it.
  const root = document.documentElement;
  let theme = root.dataset.theme;
  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => { root.dataset.theme = theme; });
});
