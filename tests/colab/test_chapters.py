"""Every chapter as readers open it on Colab: alone in an empty folder, with Colab's versions.

`make colab` prepares the environment (requirements.txt beside this file) and names its Python in
COLAB_PYTHON. The first cell fetches the book from a folder of this machine and installs what is
missing, held to the lower bounds of requirements/colab.txt. Torch must stay as it was.
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
from tests.colab.mirror import CHAPTERS, FOLDER, environment, redirected, setup_cell, snapshot
from tests.paths import ROOT

PYTHON = os.environ.get("COLAB_PYTHON")
CELL, CHAPTER = 300, 600  # seconds that one cell and one chapter may take
BOUNDS = (ROOT / "requirements" / "colab.txt").read_text(encoding="utf-8")
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
    """What a reader has: the served book, an environment with the packages at the lower bounds.

    Its kernels are Colab's. What was installed before the first cell ran comes along.
    """
    folder = tmp_path_factory.mktemp("colab")
    lowest = folder / "lowest.txt"
    lowest.write_text(BOUNDS.replace(">=", "=="), encoding="utf-8")
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    spec = KERNEL | {"display_name": "Colab", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    served = snapshot(folder)
    variables = environment(folder / "home") | {
        "JUPYTER_PATH": str(folder),
        "PIP_CONSTRAINT": str(lowest),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    before = versions()
    (folder / "first").mkdir()
    subprocess.run(
        [PYTHON, "-c", redirected(setup_cell(), served)],
        cwd=folder / "first",
        env=variables,
        check=True,
        timeout=600,
    )
    return served, variables, before


def test_environment_has_the_lower_bounds_and_the_same_torch(colab):
    *_, before = colab
    after = versions()
    assert before["torch"] == after["torch"], "the first cell installed torch again"
    for name, bound in re.findall(r"^([\w-]+)>=(\S+)$", BOUNDS, re.M):
        version, bound = (re.sub(r"(\.0)+$", "", text) for text in (after[name][0], bound))
        assert version == bound, name


@pytest.mark.timeout(CHAPTER + 60)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_alone(chapter, colab, tmp_path):
    served, variables, before = colab
    content = tmp_path / "content"
    content.mkdir()
    alone = content / chapter.name
    notebook = reader_notebook(chapter, Places(ROOT))
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = redirected(first.source, served)
    notebook.cells.append(nbformat.v4.new_code_cell(PROBE))
    nbformat.write(notebook, alone)
    done = subprocess.run(
        [*EXECUTE, "--inplace", "--kernel_name=colab", f"--timeout={CELL}", alone.name],
        cwd=content,
        env=variables,
        capture_output=True,
        text=True,
        timeout=CHAPTER,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    probe = nbformat.read(alone, as_version=4).cells[-1].outputs[0].text
    library, torch = probe.split()
    assert Path(library).is_relative_to(content / FOLDER)
    assert torch == before["torch"][0].split("+")[0]
    assert sorted(path.name for path in content.iterdir()) == [chapter.name, FOLDER]
