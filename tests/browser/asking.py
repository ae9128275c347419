"""Sentences typed into the page of a run, in Chromium by playwright or in another engine."""

import json
from collections.abc import Sequence

from playwright.sync_api import Page

from scripts.check_engines import Engine

# Types each sentence into the line and reads what is written below, without the chances.
ASK = """async ([texts, place]) => {
  const root = document.querySelectorAll('[data-module="forward_tracer"]')[place];
  const input = root.querySelector(".co-own input");
  const found = [];
  for (const text of texts) {
    input.value = text;
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    for (let n = 0; n < 100 && root.querySelector(".co-form button.bw-primary").textContent
      !== "Translate"; n += 1) await new Promise((resolve) => setTimeout(resolve, 100));
    await new Promise((resolve) => setTimeout(resolve));
    found.push([...root.querySelectorAll(".ft-said .ft-token")].map((node) =>
      node.firstChild.textContent));
  }
  return found;
}"""
AT_ONCE = 5  # sentences that another engine is given: its driver waits for half a minute


def ask(page: Page, texts: Sequence[str], place: int = 0) -> list[list[str]]:
    """The tokens of each translation, by the tracer `place` of the page."""
    return page.evaluate(ASK, [list(texts), place])


def ask_in(engine: Engine, texts: Sequence[str]) -> list[list[str]]:
    """As `ask`, of the first tracer on the page that the engine has opened."""
    found = []
    for at in range(0, len(texts), AT_ONCE):
        given = json.dumps([texts[at : at + AT_ONCE], 0])
        found += engine.run(
            f"const done = arguments[arguments.length - 1]; ({ASK})({given}).then(done, done);",
            later=True,
        )
    return found
