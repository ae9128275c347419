"""What a widget leaves in a notebook's output, and what the build makes of its scripts."""

import json
import os
import re

import numpy as np
import pytest
import torch
import traitlets

from build.directives import widgets
from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.transformer.forward_tracer import ForwardTracer
from tests.widget_samples import SAMPLES
from widgets import base
from widgets.base import BookWidget, static_paragraph, static_table
from widgets.domain import quantise

DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def knob(tmp_path, monkeypatch):
    """A small widget class of its own, with its module in a folder of its own."""
    (tmp_path / "knob.js").write_text(
        f'import {{ h }} from "{os.path.relpath(widgets.JS, tmp_path)}/ui.js";\n'
        "export default { render() { h('p'); } };\n"
    )
    (tmp_path / "knob.css").write_text(".knob { color: red; }\n")

    class Knob(BookWidget):
        _module = "knob"
        _folder = tmp_path
        words = traitlets.List()
        step = traitlets.Int(0, min=0, max=9)
        _private = traitlets.Int(5)

    return Knob


def html_of(widget: BookWidget) -> str:
    return widget._repr_mimebundle_()[0]["text/html"]


def test_bundle_holds_view_text_and_data(knob):
    bundle, _ = knob(words=["a", "b"], step=3)._repr_mimebundle_()
    assert set(bundle) == {VIEW, "text/html", "text/plain"}
    assert bundle["text/plain"] == "Knob widget"
    assert '<div class="book-widget" data-module="knob">' in bundle["text/html"]
    data = json.loads(DATA.search(bundle["text/html"]).group(1))
    domains = {"step": {"least": 0, "most": 9, "whole": True}}
    assert data == {"step": 3, "words": ["a", "b"], "domains": domains}
    assert "render" not in bundle["text/html"], "data only, no code"


def test_bundle_is_the_same_bytes_each_time_but_for_the_view(knob):
    one, other = knob(words=["a"]), knob(words=["a"])
    assert html_of(one) == html_of(other)
    assert repr(one) == repr(other)
    assert "0x" not in repr(one)


def test_text_cannot_leave_the_script(knob):
    nasty = ["</script><script>alert(1)</script>", "<!--", "é → \u2028 & \"'"]
    html = html_of(knob(words=nasty))
    assert html.count("</script>") == 1
    assert "<!--" not in html
    assert json.loads(DATA.search(html).group(1))["words"] == nasty


def test_module_joins_shared_scripts_and_styles(knob):
    esm, css = str(knob(words=[])._esm), str(knob(words=[])._css)
    positions = [esm.index(part) for part in ("const $ui", "const $knob", "export ")]
    assert positions == sorted(positions)
    assert css.index("--bw-ink") < css.index(".knob")


def test_too_much_data_is_refused(knob):
    assert knob(words=["x" * (base.MAX_BYTES - 100)])
    with pytest.raises(ValueError, match="expected at most 200,000 bytes of data in Knob, got"):
        knob(words=["é" * (base.MAX_BYTES // 2)])  # bytes count, not characters


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.ones(2), np.float32(1), {1}])
def test_data_must_be_plain(knob, value):
    with pytest.raises(ValueError, match="expected plain lists, finite numbers and text"):
        knob(words=[value])


def test_quantise_rounds_any_nesting():
    assert quantise(0.12345) == 0.123
    assert quantise([[0.126, 1], (2.0, -0.001)], 2) == [[0.13, 1.0], [2.0, 0.0]]
    assert str(quantise(-0.0001)) == "0.0"
    assert quantise(torch.tensor([[0.25, 0.125]]), 2) == [[0.25, 0.12]]
    assert quantise(np.float32(0.5)) == 0.5


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], "0.5", None, [True]])
def test_quantise_refuses_what_is_no_number(value):
    with pytest.raises(ValueError, match=r"expected (finite )?numbers, got"):
        quantise(value)


def test_static_parts_escape_text():
    assert static_paragraph("a < b") == "<p>a &lt; b</p>"
    html = static_table("<c>", ["row", "x"], [["<r>", 1]])
    assert "&lt;c&gt;" in html
    assert '<th scope="row">&lt;r&gt;</th><td>1</td>' in html
    with pytest.raises(ValueError, match="expected rows of 2 cells, as in the header, got one of"):
        static_table("c", ["row", "x"], [["r", 1, 2]])


def test_every_module_becomes_a_classic_script(tmp_path):
    names = widgets.emit_assets(tmp_path)
    assert names == list(widgets.widgets())
    for name in names:
        text = (tmp_path / f"{name}.js").read_text(encoding="utf-8")
        assert f'bookWidgets.add("{name}", ${name}.default);' in text
        assert not re.search(r"^(export|import)\b", text, re.MULTILINE)
    assert (tmp_path / "base.css").is_file()
    shared = (tmp_path / "shared.js").read_text(encoding="utf-8")
    for script in widgets.SHARED:
        assert shared.count(f"const ${script.stem} = ") == 1
        assert f"const ${script.stem} = " not in text, "a page has it once"


def test_a_page_gets_no_comments_and_no_indents():
    script = """// a
/** b
 *  // c */
const f = "/* d */"; // e
  /** @type {g} */ (f);
  // h
  /* i */
  const k = "// l";
  const m = [ // n
    "o; // p", 'q; // r', `s; // t`,
  ]; // "u"
"""
    kept = """const f = "/* d */";
/** @type {g} */ (f);
const k = "// l";
const m = [
"o; // p", 'q; // r', `s; // t`,
]; // "u"
"""
    assert widgets.bare(script) == kept
    assert widgets.bare(kept) == kept


def test_module_without_a_default_is_refused(tmp_path):
    (tmp_path / "odd.js").write_text("export const render = 1;\n")
    with pytest.raises(
        ValueError, match=r"expected odd.js to hold `export default .*, got the exports render"
    ):
        widgets.widget_script("odd", tmp_path)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_widget_stores_its_data_and_nothing_that_moves(name):
    one, other = html_of(SAMPLES[name]()), html_of(SAMPLES[name]())
    assert one == other
    assert f'data-module="{name}"' in one
    assert "<table>" in one, "a reader without scripts sees something"
    assert "0x" not in repr(SAMPLES[name]())


def test_only_the_scripts_of_the_forward_tracer_hold_the_model():
    folders = widgets.widgets()
    other = widgets.widget_script("alignment_player", folders["alignment_player"])
    script = widgets.widget_script("forward_tracer", folders["forward_tracer"])
    for part in ("transformer", "tracing", "weights", "composer"):
        declared = f"const ${part} = (() => {{"
        assert script.count(declared) == str(ForwardTracer._esm).count(declared) == 1
        assert declared not in other
        assert declared not in str(AlignmentPlayer._esm)
        assert declared not in widgets.shared_script()
