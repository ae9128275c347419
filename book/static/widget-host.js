// Mounts the widgets of a published page, where no kernel runs.
// The page holds each widget's data in a div; the build names here the modules that draw them.
"use strict";

window.bookWidgets = window.bookWidgets ?? (() => {
  const modules = new Map();

  /** What a kernel's model offers to a widget, kept in the page. */
  function localModel(data) {
    const listeners = new Map();
    const of = (event) => listeners.get(event) ?? listeners.set(event, new Set()).get(event);
    return {
      get: (name) => data[name],
      set(name, value) {
        if (Object.is(data[name], value)) return;
        data[name] = value;
        for (const call of [...of(`change:${name}`), ...of("change")]) call();
      },
      on: (event, call) => { of(event).add(call); },
      off: (event, call) => { if (call) of(event).delete(call); else of(event).clear(); },
      save_changes() {},
    };
  }

  function complain(div, error) {
    const note = document.createElement("p");
    note.className = "book-widget-error";
    note.setAttribute("role", "alert");
    note.textContent = `This widget could not start: ${error.message}.`;
    div.prepend(note);
  }

  async function mount(div, id) {
    const name = div.dataset.module;
    const view = document.createElement("div");
    try {
      const module = modules.get(name);
      if (!module) throw new Error(`its script widgets/${name}.js did not load`);
      const data = JSON.parse(div.querySelector("script[type='application/json']").textContent);
      view.id = id;
      view.dataset.widget = id; // tells the widget that it stands in a page with an address
      div.append(view);
      await module.render({ model: localModel(data), el: view });
      const text = div.querySelector(".book-widget-static");
      if (text && !view.dataset.failed) text.hidden = true;
      if (location.hash === `#${id}`) view.scrollIntoView();
    } catch (error) {
      view.remove();
      complain(div, error);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const seen = new Map();
    for (const div of document.querySelectorAll("div.book-widget")) {
      const name = div.dataset.module;
      seen.set(name, (seen.get(name) ?? 0) + 1);
      mount(div, seen.get(name) === 1 ? name : `${name}-${seen.get(name)}`);
    }
  });

  return {
    add(name, module) { modules.set(name, module); },
  };
})();
