"""Every chapter as readers open it on Colab: alone in an empty folder, with Colab's versions.

`make colab` prepares the environment (requirements.txt beside this file) and names its Python in
COLAB_PYTHON. The first cell clones the book from a folder of this machine and installs what is
missing, held to the lower bounds of requirements-colab.txt. Torch must stay as it was.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from build.readers.reader import reader_notebook
from build.source.places import Places
from tests.colab.mirror import CHAPTERS, FOLDER, redirected, setup_cell, snapshot
from tests.paths import ROOT

PYTHON = os.environ.get("COLAB_PYTHON")
CELL, CHAPTER = 300, 600  # seconds that one cell and one chapter may take
BOUNDS = (ROOT / "requirements-colab.txt").read_text(encoding="utf-8")
EXECUTE = [sys.executable, "-c", "from nbclient.cli import main; main()"]
KERNEL = {"argv": [PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
PROBE = "import lib, torch\nprint(lib.__file__, torch.__version__.split('+')[0])"

pytestmark = [
    pytest.mark.colab,
    pytest.mark.skipif(not PYTHON, reason="needs an environment as Colab's: run `make colab`"),
]


def versions() -> dict[str, str]:
    """What the environment would import, by package."""
    code = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps({d.metadata['Name'].lower(): [d.version, d._path.stat().st_mtime]"
        " for d in reversed(list(m.distributions()))}))"
    )
    done = subprocess.run([PYTHON, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """The environment of a reader: git redirected, packages held to the lower bounds.

    Its kernels are Colab's. What was installed before the first cell ran comes along.
    """
    folder = tmp_path_factory.mktemp("colab")
    lowest = folder / "lowest.txt"
    lowest.write_text(BOUNDS.replace(">=", "=="), encoding="utf-8")
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    spec = KERNEL | {"display_name": "Colab", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    environment = redirected(snapshot(folder), folder / "home") | {
        "JUPYTER_PATH": str(folder),
        "PIP_CONSTRAINT": str(lowest),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    before = versions()
    (folder / "first").mkdir()
    subprocess.run(
        [PYTHON, "-c", setup_cell()], cwd=folder / "first", env=environment, check=True, timeout=600
    )
    return environment, before


def test_environment_has_the_lower_bounds_and_the_same_torch(colab):
    _, before = colab
    after = versions()
    assert before["torch"] == after["torch"], "the first cell installed torch again"
    for name, bound in re.findall(r"^([\w-]+)>=(\S+)$", BOUNDS, re.M):
        version, bound = (re.sub(r"(\.0)+$", "", text) for text in (after[name][0], bound))
        assert version == bound, name


@pytest.mark.timeout(CHAPTER + 60)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_alone(chapter, colab, tmp_path):
    content = tmp_path / "content"
    content.mkdir()
    alone = content / chapter.name
    notebook = reader_notebook(chapter, Places(ROOT))
    notebook.cells.append(nbformat.v4.new_code_cell(PROBE))
    nbformat.write(notebook, alone)
    done = subprocess.run(
        [*EXECUTE, "--inplace", "--kernel_name=colab", f"--timeout={CELL}", alone.name],
        cwd=content,
        env=colab[0],
        capture_output=True,
        text=True,
        timeout=CHAPTER,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    probe = nbformat.read(alone, as_version=4).cells[-1].outputs[0].text
    library, torch = probe.split()
    assert Path(library).is_relative_to(content / FOLDER)
    assert torch == colab[1]["torch"][0]
    assert sorted(path.name for path in content.iterdir()) == [chapter.name, FOLDER]
