"""Listings of the page's engine: whole definitions, as they stand in their files."""

import re

import pytest

from chapters.training import script_source
from chapters.training.script_source import show_script
from engine.text import scripts


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """An engine of one script, which the test writes."""
    file = tmp_path / "parts.js"
    monkeypatch.setattr(script_source, "scripts", lambda: {"parts": file})
    return file


PARTS = """const { both } = (() => {
  // Says how many: {
  const count = (list) => list.length;

  class Pair extends Base {
    /** Left, then
     *  right. */
    sum(one, other) {
      if (one) {
        return both(one, other);
      }
      return other;
    }

    get size() { return 2; }
  }

  class Other {
    get size() { return 3; }
  }

  function both(one, other) {
    const step = () => ({
      one,
    });
    return step;
  }

  return { both };
})();
"""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "Pair.sum",
            "/** Left, then\n *  right. */\nsum(one, other) {\n  if (one) {\n"
            "    return both(one, other);\n  }\n  return other;\n}",
        ),
        ("Pair.size", "get size() { return 2; }"),
        ("Other.size", "get size() { return 3; }"),
        ("Other", "class Other {\n  get size() { return 3; }\n}"),
        ("both.step", "const step = () => ({\n  one,\n});"),
    ],
)
def test_a_part_is_whole_and_has_its_comment(engine, name, wanted):
    engine.write_text(PARTS, encoding="utf-8")
    assert show_script("parts", name).text == wanted


def test_several_parts_in_the_order_asked_for(engine):
    engine.write_text(PARTS, encoding="utf-8")
    both = show_script("parts", "Other.size", "Pair.size")
    assert both.text == "get size() { return 3; }\n\nget size() { return 2; }"
    assert both._repr_markdown_() == f"```javascript\n{both.text}\n```"
    assert repr(both) == both.text


@pytest.mark.parametrize(
    ("file", "names", "message"),
    [
        (
            "kernels",
            ["product"],
            "script of the engine out of plain, .*, got 'kernels'",
        ),
        ("tensors", [], "expected one name or more, got none"),
        ("tensors", ["Engine.nothing"], "definition of 'Engine.nothing', found 0 of 'nothing'"),
        ("layers", ["forward"], r"definition of 'forward', found \d+ of 'forward'"),
    ],
)
def test_refusals(file, names, message):
    with pytest.raises(ValueError, match=message):
        show_script(file, *names)


@pytest.mark.parametrize("file", scripts())
def test_every_class_and_function_of_the_engine_is_found_and_closed(file):
    text = scripts()[file].read_text(encoding="utf-8")
    names = re.findall(r"^(?:export )?(?:async )?(?:class|function) (\w+)", text, re.MULTILINE)
    dedented = "\n".join(line.removeprefix("  ") for line in text.splitlines())
    for name in names:
        part = show_script(file, name).text
        assert part in text or part in dedented
        code = [line for line in part.splitlines() if not script_source.COMMENT.match(line)]
        assert re.match(rf"(?:export )?(?:async )?(?:class|function) {name}\b", code[0])
        assert code[-1] == "}" or len(code) == 1
