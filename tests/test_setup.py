"""What the Makefile sets up for its commands, tried as somebody else's machine has it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make with this environment as its own, which it takes for complete."""
    venv = Path(sys.prefix)
    return subprocess.run(
        ["make", *arguments, f"VENV={venv}", f"--assume-old={venv}/test.stamp"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "MPLCONFIGDIR"} | environment,
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.slow
def test_a_chapter_runs_where_the_home_cannot_be_written(tmp_path):
    """matplotlib warns there that it keeps its fonts elsewhere: output that no cell stored."""
    home = tmp_path / "home"
    home.write_text("no folder can be made in a file, not by root either", encoding="utf-8")
    sources = "import matplotlib.pyplot as plt", "plt.close(plt.figure())"
    cells = [nbformat.v4.new_code_cell(one, execution_count=i + 1) for i, one in enumerate(sources)]
    chapter = tmp_path / "plain.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), chapter)
    done = make("notebooks", f"NOTEBOOKS={chapter}", "WORKERS=0", HOME=str(home))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
