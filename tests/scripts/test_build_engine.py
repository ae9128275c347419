"""kernels.wasm is what kernels.c gives; with the compiler at hand, byte for byte."""

import importlib.util
import re
import subprocess
import sys

import pytest

from scripts import build_engine
from tests.paths import ROOT

TOOLS = ROOT / ".venv-tools" / "bin" / "python"


def compilers() -> list[str]:
    """Every Python here that has the package ziglang."""
    found = [sys.executable] if importlib.util.find_spec("ziglang") else []
    has_it = [TOOLS, "-c", "import ziglang"]
    if TOOLS.exists() and not subprocess.run(has_it, capture_output=True).returncode:
        found.append(str(TOOLS))
    return found


def test_the_committed_file_is_of_this_source():
    built = build_engine.BUILT.read_bytes()
    assert built.startswith(b"\0asm\1\0\0\0")
    assert built.endswith(build_engine.mark(build_engine.SOURCE)), "run `make engine`"


def test_another_source_has_another_mark(tmp_path):
    other = tmp_path / "kernels.c"
    other.write_bytes(build_engine.SOURCE.read_bytes() + b"\n")
    assert build_engine.mark(other) != build_engine.mark(build_engine.SOURCE)
    assert len(build_engine.mark(other)) == len(build_engine.mark(build_engine.SOURCE))


@pytest.mark.skipif(
    not compilers(), reason="the compiler is in the environment that `make unit` brings"
)
def test_the_compiler_gives_the_committed_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(build_engine, "COMPILER", [compilers()[0], "-m", "ziglang", "cc"])
    built = build_engine.build(build_engine.SOURCE, tmp_path / "kernels.wasm")
    assert built == build_engine.BUILT.read_bytes()


def test_the_plain_kernels_have_the_same_names():
    def names(pattern: str, file: str) -> set[str]:
        return set(re.findall(pattern, (build_engine.ENGINE / file).read_text(encoding="utf-8")))

    in_c = names(r"KERNEL\((?!name)(\w+)\)", "kernels.c")
    assert in_c == names(r"\n  function (\w+)\(", "plain.js") - {"exponentials"}
