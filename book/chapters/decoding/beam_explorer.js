// Beam search over a small stored table: the tree, the scores, what was pruned and why it stopped.
import * as controls from "../../widgets/js/controls.js";
import * as ui from "../../widgets/js/ui.js";

const EOS = "<eos>";
const SHOWN = 3; // of the continuations that a step prunes, the likeliest

/** The stored lists as a tree: children and, for each node, its log p from the root and its length. */
export function grow({ tokens, parents, log_p: own }) {
  const tree = { tokens, parents, own, children: tokens.map(() => []), roots: [], total: [], length: [] };
  tokens.forEach((_, i) => {
    const parent = parents[i];
    (parent < 0 ? tree.roots : tree.children[parent]).push(i);
    tree.total.push(own[i] + (parent < 0 ? 0 : tree.total[parent]));
    tree.length.push(1 + (parent < 0 ? 0 : tree.length[parent]));
  });
  return tree;
}

export const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/**
 * The search of lib.decoding. Each step says which nodes were kept, which ended and which were pruned,
 * the likeliest first. Returns { steps, ended, best: { node, score }, reason }.
 */
export function search(tree, beam, alpha, maxLength) {
  const score = (node) => tree.total[node] / penalty(tree.length[node], alpha);
  const steps = [];
  const ended = [];
  let open = [-1];
  let best = null;
  for (let length = 1; length <= maxLength; length += 1) {
    const grown = open.flatMap((node) => {
      const next = node < 0 ? tree.roots : tree.children[node];
      if (!next.length) throw new Error(`the table does not say what follows "${tree.tokens[node]}"`);
      return next;
    }).sort((a, b) => tree.total[b] - tree.total[a]); // stable: of equals the first goes first
    const places = beam - ended.length;
    const kept = grown.slice(0, places);
    const done = kept.filter((node) => tree.tokens[node] === EOS);
    open = kept.filter((node) => tree.tokens[node] !== EOS);
    ended.push(...done);
    for (const node of done) if (!best || score(node) > best.score) best = { node, score: score(node) };
    const bound = open.length ? tree.total[open[0]] / penalty(maxLength, alpha) : null;
    steps.push({ open, ended: done, pruned: grown.slice(places), best, bound });
    if (!open.length) return { steps, ended, best, reason: "full" };
    if (best && best.score >= bound) return { steps, ended, best, reason: "bound" };
  }
  best ??= { node: open[0], score: score(open[0]) };
  return { steps, ended, best, reason: "length" };
}

/** The best sentence of the whole table: every node that ends one is scored. */
export function bestOfAll(tree, alpha, maxLength) {
  let best = null;
  tree.tokens.forEach((token, node) => {
    const score = tree.total[node] / penalty(tree.length[node], alpha);
    const ends = token === EOS && tree.length[node] <= maxLength;
    if (ends && !(score <= best?.score)) best = { node, score };
  });
  return best;
}

/** The nodes from the root to this one. */
export function path(tree, node) {
  return node < 0 ? [] : [...path(tree, tree.parents[node]), node];
}

/** What the tree shows after a step: for each visible node what has become of it. */
function statuses(tree, { steps }, step, all) {
  const status = new Map();
  steps.slice(0, step).forEach(({ open, ended, pruned }, i) => {
    const last = i === step - 1;
    for (const node of open) status.set(node, last ? "open" : "lost");
    for (const node of ended) status.set(node, "ended");
    for (const node of all || last ? pruned.slice(0, SHOWN) : []) status.set(node, "pruned");
  });
  for (const [node, was] of status) {
    if (was !== "open" && was !== "ended") continue;
    for (const before of path(tree, node).slice(0, -1)) status.set(before, "kept");
  }
  return status;
}

/** Where each visible node stands: a first child in its parent's row, the next ones below. */
function layout(tree, status) {
  const places = [];
  let row = 0;
  const visit = (nodes, column, above) => nodes.filter((node) => status.has(node))
    .forEach((node, i) => {
      if (i > 0) row += 1;
      places.push({ node, row, column, up: column ? row - above : 0 });
      visit(tree.children[node], column + 1, row);
    });
  visit(tree.roots, 0, 0);
  return places;
}

const MEANING = { open: "open", ended: "ended", pruned: "pruned", kept: "kept",
  lost: "kept, then all that continued it was pruned" };
const MARK = { open: "", ended: " ✓", pruned: " ✗", kept: "", lost: " ✗" };
const number = (value) => value.toFixed(2).replace("-", "−");

export default {
  render({ model, el }) {
    return ui.widget({
      model, el,
      title: "Beam-search explorer",
      lead: "Each step continues what is open and keeps the likeliest. Change the beam and the length "
        + "penalty; walk through the tree with the arrow keys or by a click.",
    }, (w) => {
      const [examples, maxLength] = [w.data("examples"), w.data("max_length")];
      const trees = examples.map(grow);
      w.state({
        example: ui.integer(0, examples.length - 1),
        step: ui.integer(1, Math.max(maxLength, w.data("step"))), // past the last: the last
      });
      let run = null;
      const stepOf = (state) => Math.min(state.step, run.steps.length);
      w.draw((state) => { run = search(trees[state.example], state.beam, +state.alpha, maxLength); });
      const options = examples.map(({ name }, i) => [i, name]);
      const select = options.length > 1 && controls.select(w, "example", { label: "Table", options });
      const beam = controls.slider(w, "beam", { label: "Beam" });
      const alpha = controls.slider(w, "alpha", { label: "Length penalty α", step: 0.05,
        format: (value) => (+value).toFixed(2) });
      const step = controls.slider(w, "step", { label: "Step",
        format: (value) => `${Math.min(value, run.steps.length)} of ${run.steps.length}` });
      const all = controls.toggle(w, "pruned", { label: "Show what every step pruned" });
      const view = ui.h("div", { class: "be-tree", role: "tree", keydown: move, focusin: pick, click: pick });
      const scroller = ui.h("div", { class: "bw-scroll be-scroll" }, view);
      const detail = ui.h("p", { class: "be-detail" });
      const body = ui.h("tbody", {});
      const table = ui.h("table", { class: "be-table" },
        ui.h("caption", { class: "bw-hidden", text: "Hypotheses that have ended" }),
        ui.h("thead", {}, ui.h("tr", {}, ["sentence", "tokens", "log p", "÷ lp", "score"].map((text) =>
          ui.h("th", { scope: "col", text })))), body);
      const none = ui.h("p", { class: "be-none", text: "Nothing has ended yet." });
      const [reason, verdict] = ["be-reason", "be-verdict"].map((name) => ui.h("p", { class: name }));
      let active = null; // the node that the Tab key reaches
      const words = (tree, node) => path(tree, node).map((i) => tree.tokens[i]).join(" ");
      const itemOf = (node) => view.querySelector(`[data-node="${node}"]`);

      function explain(state) {
        const tree = trees[state.example];
        const status = statuses(tree, run, stepOf(state), state.pruned);
        const sum = path(tree, active).map((i) => `− ${(-tree.own[i]).toFixed(2)}`).join(" ");
        const [length, total] = [tree.length[active], tree.total[active]];
        const lp = penalty(length, +state.alpha);
        const score = status.get(active) === "ended"
          ? ` Divided by lp(${length}) = ${lp.toFixed(2)}: ${number(total / lp)}.` : "";
        detail.replaceChildren(ui.h("strong", { text: words(tree, active) }),
          `: ${MEANING[status.get(active)]}. log p = ${length > 8 ? "" : `${sum} = `}${number(total)}.${score}`);
      }

      function activate(item, focus) {
        for (const [one, on] of [[itemOf(active), false], [item, true]]) {
          one?.setAttribute("aria-selected", on);
          one?.setAttribute("tabindex", on ? 0 : -1);
        }
        active = +item.dataset.node;
        explain(w.snapshot());
        if (focus) item.focus();
      }
      function pick(event) {
        const item = event.target.closest("[role=treeitem]");
        const clicked = event.type === "click";
        if (item && (clicked || +item.dataset.node !== active)) activate(item, clicked);
      }
      function move(event) {
        const item = event.target.closest("[role=treeitem]");
        const tree = trees[w.get("example")];
        const inside = tree.children[+item.dataset.node].map(itemOf).find(Boolean);
        const go = {
          ArrowDown: () => item.nextElementSibling, ArrowUp: () => item.previousElementSibling,
          Home: () => view.firstElementChild, End: () => view.lastElementChild,
          ArrowRight: () => inside, ArrowLeft: () => itemOf(tree.parents[+item.dataset.node]),
        }[event.key];
        if (!go) return;
        event.preventDefault();
        if (go()) activate(go(), true);
      }

      let shown = null;
      function paint(tree, status, way) {
        const places = layout(tree, status);
        const looks = places.map(({ node }) => [node, status.get(node), way.has(node)]);
        if (shown === (shown = `${w.get("example")}: ${looks}`)) return; // nothing to draw anew
        view.replaceChildren(...places.map(({ node, row, column, up }) => {
          const is = status.get(node);
          const [look, note] = way.has(node) ? [" be-best", ", on the way to the best"] : ["", ""];
          const item = ui.h("div", { role: "treeitem", class: `be-node be-${is}${look}`,
            "data-node": node, tabindex: "-1", "aria-selected": "false", "aria-level": column + 1,
            "aria-label": `${tree.tokens[node]}, ${MEANING[is]}, log p ${number(tree.total[node])}${note}` },
          ui.h("span", { class: "be-token", text: tree.tokens[node] + MARK[is] }),
          ui.h("span", { class: "be-number", text: number(tree.total[node]) }));
          item.style.cssText = `grid-area: ${row + 1} / ${column + 1}; --up: ${up}`;
          return item;
        }));
        scroller.scrollLeft = scroller.scrollWidth;
      }

      w.draw((state) => {
        const tree = trees[state.example];
        const now = stepOf(state);
        const last = now === run.steps.length;
        step.limits(1, run.steps.length);
        const status = statuses(tree, run, now, state.pruned);
        const best = last ? run.best : run.steps[now - 1].best;
        const way = new Set(best ? path(tree, best.node) : []);
        view.setAttribute("aria-label", `Search tree after step ${now}`);
        paint(tree, status, way);
        activate(itemOf(best?.node ?? run.steps[now - 1].open[0]));

        const lp = (node) => penalty(tree.length[node], +state.alpha);
        const ended = run.ended.filter((node) => tree.length[node] <= now)
          .map((node) => ({ node, score: tree.total[node] / lp(node) }))
          .sort((a, b) => b.score - a.score);
        body.replaceChildren(...ended.map(({ node, score }, i) => ui.h("tr", { class: i === 0 && "be-first" },
          ui.h("th", { scope: "row", text: `${i === 0 ? "✓ " : ""}${words(tree, node)}` }),
          [tree.length[node], number(tree.total[node]), lp(node).toFixed(2), number(score)]
            .map((text) => ui.h("td", { text })))));
        [table.hidden, none.hidden] = [!ended.length, ended.length > 0];
        const { bound, open, pruned } = run.steps[now - 1];
        reason.textContent = !last
          ? `Step ${now}: ${open.length} open, ${pruned.length} continuations pruned.`
          : { full: `The search is over after step ${now}: every hypothesis of the beam has ended.`,
            bound: `Stopped early after step ${now}: what is open can reach at most `
              + `${number(bound ?? 0)}, and the best that ended has ${number(best.score)}.`,
            length: `Cut off after ${now} tokens.` }[run.reason];
        const top = bestOfAll(tree, +state.alpha, maxLength);
        verdict.textContent = !last || !top ? "" : top.score <= best.score
          ? "✓ No sentence in the table has a better score."
          : `✗ The table holds a better one: ${words(tree, top.node)}, ${number(top.score)}.`;
        w.say(last ? `Found ${words(tree, best.node)}, score ${number(best.score)}. ${verdict.textContent}`
          : reason.textContent);
      });

      w.add(
        ...(select ? [select.element] : []),
        ui.row(beam.element, alpha.element),
        step.element,
        ui.part("The tree: each token with log p from the start", scroller, detail, all.element),
        ui.part("Ended", none, ui.h("div", { class: "bw-scroll", tabindex: "0", role: "region",
          "aria-label": "Hypotheses that have ended" }, table), reason, verdict),
      );
      w.foot();
    });
  },
};
