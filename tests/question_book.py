"""A small book that asks its reader, built as the real one is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.paths import BOOK, ROOT

TOC = """\
format: jb-book
root: book/intro
parts:
  - caption: Chapters
    numbered: 1
    chapters:
      - file: book/03_layer
      - file: book/04_self
  - caption: Reference
    chapters:
      - file: book/review
      - file: book/bibliography
"""
LAYER = """\
# The layer

A first sentence that is long enough to say what this page is about, before anything is asked.

```{predict} pr-layer-largest
How much weight does the best of $n = 16$ keys get, if `score` is far above the others?
- about 0.1
- about $1/2$
- about `0.95`
```

## By hand

Some text stands between a question and what happened, and it may be read without an answer.

```{outcome} pr-layer-largest
:right: 3
The softmax is **steep**: $e^3$ is about 20. See [chapter 4](04_self.ipynb).
```

```{predict} pr-layer-entropy
:number:
What is the entropy, in nats, of two equal weights?
```

```{outcome} pr-layer-entropy
:right: 0.69
:within: 0.1
It is $\\ln 2$.
```

```{seen}
The weights move to one key as the scale grows.
```

```{seen} What happens at temperature $T \\to 0$
One key takes *all* of the weight.
```

The layer equals its naive version.
"""
RECALL = """\
## Recall

```{recall} rc-layer-variance
Why are the scores divided by $\\sqrt{d_k}$?
---
Their variance would be $d_k$.

- It would grow with `d_k` {cite:p}`vaswani2017attention`.
```

```{recall} rc-layer-softmax
What do the weights of one query add up to?
---
To 1, see [the layer](#by-hand).
```
"""
SELF = """\
# Every word asks

```{recall} rc-self-order
Does self-attention know the order of its inputs?
---
No: permuted inputs give permuted outputs, as {cite:t}`vaswani2017attention` note.
```
"""
REVIEW = "# Review\n\nAll recall questions of the book.\n\n```{review}\n```\n"


def code(source: str, tags: list[str], printed: str = "", said: str = "") -> nbformat.NotebookNode:
    """A cell with one printed output, and the line that a fold shows."""
    metadata: dict = {"tags": tags}
    if said:
        metadata["mystnb"] = {"code_prompt_show": said}
    outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
    return new_code_cell(source, metadata=metadata, outputs=outputs, execution_count=1)


def failed() -> nbformat.NotebookNode:
    """The check of an exercise that nobody has answered."""
    cell = code("check_layer(my_layer)", ["raises-exception"])
    error = {"ename": "CheckFailed", "evalue": "write it", "traceback": ["CheckFailed: write it"]}
    cell.outputs = [new_output("error", **error)]
    return cell


def heading(text: str) -> nbformat.NotebookNode:
    return new_markdown_cell(f"# {text}")


def notebook(*cells: nbformat.NotebookNode) -> nbformat.NotebookNode:
    language = {"name": "python", "pygments_lexer": "ipython3"}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": language}
    return new_notebook(cells=[*cells], metadata=metadata)


def chapter() -> nbformat.NotebookNode:
    """The first chapter: set-up, questions, two tests, a listing, an exercise without an answer."""
    tested = "Tested: equal to `naive`, within $10^{-10}$."
    return notebook(
        new_markdown_cell(LAYER),
        code("import math", ["hide-input"]),
        code("assert 1 == 1", ["proof"], "equal\n", tested),
        code("assert 2 == 2", ["proof"], "", "Tested: and once more."),
        new_markdown_cell("Between the two."),
        code("print('def')", ["listing"], "def attention\n", "the attention of the library."),
        new_markdown_cell(RECALL),
        code("def my_layer(x):\n    ...", ["exercise"]),
        failed(),
    )


def write(folder: Path, **pages: str) -> Path:
    """Lay the small book's sources down in a folder; `pages` replaces or adds pages of Markdown."""
    book = folder / "book"
    book.mkdir(parents=True)
    shutil.copy(ROOT / "_config.yml", folder)
    (folder / "_toc.yml").write_text(TOC, encoding="utf-8")
    for name in (
        "build",
        "chapters",
        "engine",
        "widgets",
        "drawing",
        "static",
        "templates",
        "references.bib",
    ):
        (book / name).symlink_to(BOOK / name)
    (book / "aliases.yml").write_text("{}\n", encoding="utf-8")
    (folder / "requirements").symlink_to(ROOT / "requirements")
    nbformat.write(chapter(), book / "03_layer.ipynb")
    nbformat.write(notebook(new_markdown_cell(SELF), code("1", [])), book / "04_self.ipynb")
    sources = "# References\n\n```{bibliography}\n```\n"
    (book / "bibliography.md").write_text(sources, encoding="utf-8")
    (book / "intro.md").write_text("# A small book\n\nIt asks.\n", encoding="utf-8")
    (book / "review.md").write_text(REVIEW, encoding="utf-8")
    return folder


def build(folder: Path) -> Path:
    """Write and build the small book; the folder of its pages. Errors: what the build prints."""
    write(folder)
    run = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", run, "build", ".", "-n", "-W", "--keep-going"]
    options = {"cwd": folder, "capture_output": True, "text": True, "timeout": 200}
    done = subprocess.run([*command, "--quiet"], env={**os.environ}, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "_build" / "html"
