"""The engine as pages and notebooks load it: all its scripts, and nothing for readers alone."""

import hashlib
import re

import pytest

from build.directives import widgets
from engine import text as engine_text
from engine.text import FOLDER, engine_script, kernels, lean, scripts, worker_text


def test_every_script_of_the_engine_is_in_the_text():
    # In the page, not in its worker
    panel = {
        "bottleneck",
        "language",
        "laboratory",
        "train_now",
        "byte_pairs",
        "counts",
        "sampling",
        "writing",
        *(path.stem for path in FOLDER.glob("lab_*.js")),
    }
    files = scripts()
    assert {path.stem for path in FOLDER.glob("*.js")} - panel == set(files) - {"math"}
    text = worker_text()
    for name in set(files) - {"worker"}:
        assert len(re.findall(rf"^const \${name} = \(\(", text, re.MULTILINE)) == 1, name
    assert text.index("const $math") < text.index("makeRandom") < text.index("onmessage =")
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)


def test_comments_and_indents_are_left_out_and_code_stays():
    script = """// a
    const f = () => { // b
      /**
       * c
       */

      /* d */
      const g = "e // f";
      return `/* i // j`;
    };
    """
    assert lean(script) == 'const f = () => {\nconst g = "e // f";\nreturn `/* i // j`;\n};\n'
    assert lean(lean(script)) == lean(script)


def test_text_over_several_lines_is_refused():
    with pytest.raises(
        ValueError, match="expected texts that end in their line, got 'const a = `b'"
    ):
        lean("const a = `b\n  c`;\n")


def test_pages_get_the_engine_as_a_script(tmp_path, monkeypatch):
    widgets.emit_assets(tmp_path)
    script = (tmp_path / "engine.js").read_text(encoding="utf-8")
    assert script == engine_script()
    form = r"window\.bookEngine = \{ text: `((?:[^`\\]|\\[\\`$])*)`, wasm: \"(.*)\" \};\n"
    found = re.fullmatch(form, script)
    assert found, "a template literal, which no sign of the text ends"
    assert not re.search(r"(?<!\\)\$\{", found[1])
    assert re.sub(r"\\(.)", r"\1", found[1]) == worker_text()
    assert bytes.fromhex(found[2]) == kernels()
    assert kernels().startswith(b"\0asm")
    version = hashlib.sha256(script.encode()).hexdigest()[:8]
    page = (tmp_path / "laboratory.js").read_text(encoding="utf-8")
    assert f'demand.fromPage("engine.js?v={version}",' in page
    names = (path for path in tmp_path.glob("*.js") if path.name != "engine.js")
    assert not [p for p in names if "makeAdam" in p.read_text(encoding="utf-8")], "on demand alone"
    monkeypatch.setattr(engine_text, "WORKER", tmp_path / "worker.js")
    with pytest.raises(ValueError, match="expected a file at"):
        engine_script()
