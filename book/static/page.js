// Mends what the theme leaves unclear to a screen reader. The page reads the same without it.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  // The book's title stands outside every landmark.
  const title = document.querySelector(".sidebar-primary-item:has(.navbar-brand)");
  title?.setAttribute("role", "navigation");
  title?.setAttribute("aria-label", "Book title");

  // Docutils gives citations a role that ARIA has withdrawn.
  for (const entry of document.querySelectorAll('[role="doc-biblioentry"]')) {
    entry.setAttribute("role", "listitem");
  }
});
