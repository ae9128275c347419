"""What axe-core finds wrong on a page, at the least cost that leaves none of it out.

Nearly all of axe's time goes into contrast, word for word. But words that look alike, on grounds
that look alike, have one contrast; so that rule gets a few words of each look. Every other rule
sees the whole page. A theme changes nothing but looks, so a second theme needs that rule alone.
"""

from functools import cache

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Page

LOOKS = ["color-contrast", "link-in-text-block"]
EACH = 3  # words of one look that are tried: the first, the last, and one between
RUN = """async ({ looks, each, whole, targets }) => {
  // A theme that has just been switched may still be on its way.
  for (const one of document.getAnimations()) {
    if (Number.isFinite(one.effect.getComputedTiming().endTime)) one.finish();
  }
  // Two elements look alike if their names, classes and colours, and those of all that holds them,
  // are the same.
  const numbers = new Map();
  const memory = new WeakMap();
  const look = (node) => {
    if (!node) return 0;
    if (!memory.has(node)) {
      const style = getComputedStyle(node);
      const text = [look(node.parentElement), node.tagName, node.getAttribute("class"),
        node.getAttribute("style"), style.color, style.backgroundColor, style.backgroundImage,
        style.fontSize, style.fontWeight, style.opacity].join();
      if (!numbers.has(text)) numbers.set(text, numbers.size + 1);
      memory.set(node, numbers.get(text));
    }
    return memory.get(node);
  };
  const alike = new Map();
  for (const node of document.body.querySelectorAll("*")) {
    const says = node.matches("input, select, textarea")
      || [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!says || !node.checkVisibility({ visibilityProperty: true })) continue;
    const key = look(node);
    if (!alike.has(key)) alike.set(key, []);
    alike.get(key).push(node);
  }
  const some = [...alike.values()].flatMap((nodes) => (nodes.length <= each ? nodes
    : Array.from({ length: each }, (_, k) =>
      nodes[Math.round((k * (nodes.length - 1)) / Math.max(each - 1, 1))])));
  // Without style sheets, which axe would fetch: the pages' policy lets no script do that.
  const options = { resultTypes: ["violations"], preload: false };
  const rest = Object.fromEntries(looks.map((rule) => [rule, { enabled: false }]));
  const runs = [];
  if (some.length) runs.push(await axe.run({ include: some },
    { ...options, runOnly: { type: "rule", values: looks } }));
  if (whole) runs.push(await axe.run(document,
    { ...options, rules: { ...rest, "target-size": { enabled: targets } } }));
  return runs.flatMap(({ violations }) => violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`)));
}"""


@cache
def script() -> str:
    return AXE_FILE_PATH.read_text(encoding="utf-8")


def violations(page: Page, *, whole: bool = True, thorough: bool = True) -> list[str]:
    """One line for each element that breaks a rule; `whole=False` asks for its looks alone.

    Less than `thorough`, it tries one word of each look and leaves out the size of targets, which
    is half of the time that the other rules take.
    """
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(script())
    each = EACH if thorough else 1
    given = {"looks": LOOKS, "each": each, "whole": whole, "targets": thorough}
    return page.evaluate(RUN, given)
