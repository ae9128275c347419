"""What somebody may put into a link, a search or a line of a widget to do harm, and how to see it.

Used by `tests/browser` in Chromium and by `check_engines.py` in Firefox and WebKit. A text that got
to run would set `window.harmed`.
"""

NAMES = ("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf")
NUMBERS = (
    "NaN",
    "Infinity",
    "-1e308",
    "1e999",
    "99999999999999999999",
    "-100",
    "0x7fffffff",
    "१२३",
)
MARKUP = (
    "<script>window.harmed=1</script>",
    '"><img src=x onerror=window.harmed=1>',
    "'><svg onload=window.harmed=1>",
    "javascript:window.harmed=1",
    "${window.harmed=1}",
    "//other.example/x.js",
)
SIGNS = (
    "",
    " ",
    "\0",
    "\u202egnp.exe\u2066",
    "e\u0301\u0301\u0301\U0001f469\u200d\U0001f680",
    "%00",
    ";,=&#",
)
SHAPES = ("__proto__=1,1", "constructor=1,1;red=1", "1.2.", "a=" * 20, "cat cat", "{}", "null")
LONGEST = "<b>" * 150
TEXTS = (*NAMES, *NUMBERS, *MARKUP, *SIGNS, *SHAPES, LONGEST)

# Notes the names that objects have by nature; `window.touched()` tells which came since, or went.
WATCH = """(() => {
  const kinds = { Object, Array, String, Number, Function, Map, Element, EventTarget };
  const names = () => Object.entries(kinds).flatMap(([kind, { prototype }]) =>
    Reflect.ownKeys(prototype).map((name) => `${kind}.${String(name)}`));
  const before = new Set(names());
  window.touched = () => {
    const now = new Set(names());
    return [...now, ...before].filter((name) => !now.has(name) || !before.has(name));
  };
})();"""
# Uses every control of the widgets among `frames`, and types each text into each line.
USE = """async (frames, texts) => {
  const pause = () => new Promise((next) => setTimeout(next));
  const send = (node, ...events) => {
    for (const event of events) node.dispatchEvent(new Event(event, { bubbles: true }));
  };
  for (const frame of frames) {
    const all = (selector) => [...frame.querySelectorAll(selector)]
      .filter((node) => node.checkVisibility());
    for (const line of all("input[type=text]:not([readonly])")) {
      for (const text of texts) {
        line.value = text;
        send(line, "input", "change");
        line.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
        await pause();
      }
    }
    for (const button of all("button:not(:disabled)")) button.click();
    await pause();
    for (const list of all("select")) {
      for (const option of list.options) {
        list.value = option.value;
        send(list, "input", "change");
      }
      await pause();
    }
    for (const choice of all("input:is([type=radio], [type=checkbox])")) choice.click();
    await pause();
    for (const slider of all("input[type=range]")) {
      for (const value of [slider.max, slider.min]) {
        slider.value = value;
        send(slider, "input", "change");
        await pause();
      }
    }
  }
}"""
