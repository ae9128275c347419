// Mends what the theme leaves unclear to a screen reader, and listens for its buttons. The page
// reads the same without it.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  // The book's title stands outside every landmark.
  const title = document.querySelector(".sidebar-primary-item:has(.navbar-brand)");
  title?.setAttribute("role", "navigation");
  title?.setAttribute("aria-label", "Book title");

  // The theme's buttons, whose inline handlers no policy lets run: see build/pages/policy.py.
  const actions = new Map([
    ["fullscreen", () => window.toggleFullScreen()],
    ["print", () => window.print()],
  ]);
  for (const button of document.querySelectorAll("[data-action]")) {
    button.addEventListener("click", actions.get(button.dataset.action));
  }

  // Bootstrap draws the theme's menus and tooltips. It comes when a reader reaches for one, who then
  // goes on as if it had been there: still over the button or on it, or with a menu pressed.
  const menus = /** @type {HTMLMetaElement | null} */ (document.querySelector("meta[name=menus]"));
  const REACHES = ["pointerover", "focusin", "click"];
  const BUTTON = "[data-bs-toggle]";
  let script, pressed;
  function reach(event) {
    const button = /** @type {Element} */ (event.target).closest(BUTTON);
    if (!button) return;
    if (event.type === "click" && button.matches(".dropdown-toggle")) pressed = button;
    if (script) return;
    script = document.createElement("script");
    script.src = menus.content;
    script.addEventListener("load", () => {
      for (const type of REACHES) document.removeEventListener(type, reach);
      for (const [state, type] of [["hover", "mouseover"], ["focus-visible", "focusin"]]) {
        document.querySelector(`${BUTTON}:${state}`)?.dispatchEvent(new Event(type, { bubbles: true }));
      }
      pressed?.click();
    });
    document.head.append(script);
  }
  if (menus) for (const type of REACHES) document.addEventListener(type, reach);

  // The theme's way back to the top, which Bootstrap's file brings as well: it shows while one scrolls up.
  const back = document.getElementById("pst-back-to-top");
  const below = document.getElementById("pst-header")?.offsetHeight ?? 0;
  let height = scrollY;
  back?.addEventListener("click", () => scrollTo(0, 0));
  window.addEventListener("scroll", () => {
    const shown = scrollY < height && scrollY > below;
    if (back) back.style.display = shown ? "block" : "none";
    height = scrollY;
  }, { passive: true });

  // Escape takes a word's explanation away until pointer and focus have left the word.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const term of document.querySelectorAll(".term:is(:hover, :focus-within)")) {
      term.classList.add("dismissed");
    }
    document.querySelectorAll(".term.tapped").forEach(shut);
  });
  const restore = () => {
    const left = ".term.dismissed:not(:hover, :focus-within)";
    for (const term of document.querySelectorAll(left)) term.classList.remove("dismissed");
  };
  for (const leave of ["pointerout", "focusout"]) {
    document.addEventListener(leave, () => setTimeout(restore));
  }

  // A finger cannot hover: its first tap explains a word in place, with the way to the glossary.
  const shut = (term) => {
    term.classList.remove("tapped");
    term.querySelector(".term-more").remove();
  };
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    const touched = /** @type {PointerEvent} */ (event).pointerType === "touch";
    const link = touched
      ? /** @type {HTMLAnchorElement | null} */ (target.closest(".term > a")) : null;
    const term = link?.parentElement;
    const wasOpen = term?.classList.contains("tapped");
    for (const open of document.querySelectorAll(".term.tapped")) {
      if (!open.querySelector(".term-tip").contains(target)) shut(open);
    }
    if (!term) return;
    event.preventDefault();
    term.classList.toggle("dismissed", wasOpen);
    if (wasOpen) return;
    const more = document.createElement("a");
    more.className = "term-more";
    more.href = link.href;
    more.textContent = "In the glossary";
    term.querySelector(".term-tip").append(more);
    term.classList.add("tapped");
  });

  // A formula that is wider than the screen is set smaller, so that nobody scrolls through it.
  const formulas = [...document.querySelectorAll(".math-block > math")].map((math) => ({
    math: /** @type {HTMLElement} */ (math), box: math.parentElement, width: 0,
  }));
  const SIZE = 1.03; // a little less than in book.css
  function fit() {
    for (const one of formulas) one.math.style.fontSize = "";
    for (const one of formulas) one.width = one.math.scrollWidth;
    for (const { box, math, width } of formulas) {
      if (width > box.clientWidth) math.style.fontSize = `${((SIZE * box.clientWidth) / width).toFixed(3)}em`;
    }
  }
  fit();
  document.fonts?.ready.then(fit);
  window.addEventListener("resize", fit);

  // What a link leads to is opened, with all that holds it; "reveal" asks scripts to do their part.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const wasHidden = !target.checkVisibility?.({ contentVisibilityAuto: false });
    const entry = target.matches(".check-entry") ? target.querySelector("details") : target;
    if (entry instanceof HTMLDetailsElement) entry.open = true;
    for (let node = target.parentElement; node; node = node.parentElement) {
      if (node instanceof HTMLDetailsElement) node.open = true;
      if (node.matches(".toggle-hidden")) {
        /** @type {HTMLElement | null} */ (node.querySelector(".toggle-button"))?.click();
      }
    }
    target.dispatchEvent(new Event("reveal", { bubbles: true }));
    if (wasHidden) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  window.addEventListener("load", reveal);
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest("a[href]");
    // The address stays the same, so the browser tells nobody.
    if (link instanceof HTMLAnchorElement && link.href === location.href && link.hash) setTimeout(reveal);
  });

  // Paper is white: the dark theme's pale letters would hardly show on it.
  const root = document.documentElement;
  let theme = root.dataset.theme;
  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => { root.dataset.theme = theme; });
});
