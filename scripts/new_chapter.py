"""Begin a chapter: its notebook, its place in the contents, and its room with all that it needs.

    make chapter NAME=sparse_attention TITLE="Sparse attention" [AFTER=masking] [NUMBER=16]

NAME is the concept; the room, book/chapters/NAME, is called the same. AFTER is the chapter behind
which it stands in the contents, NUMBER that of its file: the last chapter and the next number where
they are not given.
What is written is true but unfinished: the tests of the new chapter fail and say what is missing.
Nothing is overwritten, and nothing written if anything is there already.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

import nbformat

ROOT = Path(__file__).resolve().parent.parent
HIDDEN, EXERCISE, FAILS = ["hide-input"], ["exercise"], ["raises-exception"]

IMPORTS = """\
from chapters.$name.checks import check_$name
from lib.notebook import best_device, seed_everything

seed_everything(0)
device = best_device()"""

OPENING = """\
# $title

*What this chapter builds and shows. Reading: ? minutes. Running: ? minutes on one core.*"""

# The sections in their order, each with what belongs into it.
SECTIONS = {
    "The question": "Two or three sentences, and a cell in which something fails or surprises.",
    "Predict": "A `{predict}`, to which the reader commits; its `{outcome}` stands further down.",
    "By hand": "The smallest example, with every number visible.",
    "The idea": "One clean piece of code, at most 40 lines, beside its formula and its schematic.",
    "For batches, from the library": "What `lib` adds and why. The listing (`show_source`) and "
    "the proofs (`assert_same`) are folded; one visible line says what was tested.",
    "Turn the knobs": "The widget, and a `{seen}` for each question that it is to answer.",
    "The experiment": "A claim that could fail, measured over several seeds, with a figure.",
    "What goes wrong": "Two to four mistakes: symptom, cause, the property that catches it.",
    "Recall": "Five short questions with folded answers, each a `{recall}`.",
}

TASK = """\
## Exercises

```{exercise} The first
:label: ex-$label-first

*Easy, 10 minutes.* What is to be written: `my_$name(x)`, where `x` is `(time, d_model)`.
```

```{hint}
:class: dropdown

What to think of.
```"""

STUB = """\
def my_$name(x):
    # x (time, d_model) -> (time, d_model)
    ..."""

SOLUTION = """\
````{solution} ex-$label-first
:class: dropdown

```python
def my_$name(x):
    raise NotImplementedError("the solution")
```
````"""

SUMMARY = """\
## Summary

- Five lines.

Where it leads. **Sources.**"""

CHECKS = '''\
"""Properties of what the chapter has its readers write."""

from collections.abc import Callable

import torch
from torch import Tensor

from checks.framework import Report, expect_tensor


def check_$name(answer: Callable[[Tensor], Tensor]) -> Report:
    """Check answer(x): say here which property it must have.

    Shapes: x (time, d_model). Returns (time, d_model).
    Errors: CheckFailed.
    """
    for time, d_model in ((5, 3), (1, 2)):
        x = torch.randn(time, d_model, generator=torch.Generator().manual_seed(time))
        expect_tensor(answer(x), (time, d_model))
    raise NotImplementedError("test what the exercise asks for, then return a Report of it")
'''

PLOTS = '''\
"""The figures of the chapter."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from drawing.axes import COLOURS, new_axes


def plot_curve(
    x: Sequence[int | float], y: Sequence[int | float], xlabel: str, ylabel: str
) -> Axes:
    """Draw y over x as one line with named axes.

    Errors: ValueError for lists of different lengths.
    """
    if len(x) != len(y):
        raise ValueError(f"expected as many y as x, got {len(y)} and {len(x)}; give both")
    axes = new_axes()
    axes.plot(x, y, color=COLOURS[0], marker="o")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return axes
'''

TEST_CHECKS = '''\
"""The check of the exercise: it refuses the empty answer, and every one of the wrong shape."""

import pytest

from chapters.$name.checks import check_$name
from checks.framework import CheckFailed


@pytest.mark.parametrize("answer", [lambda x: None, lambda x: x[:-1], lambda x: x.T])
def test_what_is_no_answer_is_refused(answer):
    with pytest.raises(CheckFailed, match="expected"):
        check_$name(answer)
'''

TEST_PLOTS = '''\
"""The figure: the line is where its numbers are, and what cannot be drawn is named."""

import matplotlib.pyplot as plt
import pytest

from chapters.$name.plots import plot_curve


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_line_and_names_of_the_axes():
    axes = plot_curve([1, 2], [3, 4], "step", "loss")
    assert axes.lines[0].get_xydata().tolist() == [[1, 3], [2, 4]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="got 1 and 2"):
        plot_curve([1, 2], [3], "step", "loss")
'''

ANSWERS = '''\
"""Answers to the exercises of the chapter: right ones in several styles, and mistakes."""

RIGHT = {
    "my_$name": [],  # at least three
}
WRONG = {
    "my_$name": {},  # at least four, each with a piece of the message that it must get
}
'''

WORDS = """\
# What the rest of the book says of this chapter; book/build/source/rooms.py explains each part.
here: what it is on the map of the book
glossary: []
index: {}
"""


def chapters(root: Path) -> list[Path]:
    return sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))


def notebook(root: Path, words: dict[str, str]) -> nbformat.NotebookNode:
    """The skeleton: the set-up cell of all chapters, the sections in their order, an exercise."""
    first = nbformat.read(chapters(root)[0], as_version=4)
    setup = next(cell.source for cell in first.cells if cell.cell_type == "code")
    sections = [(f"## {title}\n\n*{what}*", None) for title, what in SECTIONS.items()]
    parts = [
        (OPENING, None),
        (setup, HIDDEN),
        (IMPORTS, HIDDEN),
        *sections,
        (TASK, None),
        (STUB, EXERCISE),
        ("check_$name(my_$name)", FAILS),
        (SOLUTION, None),
        (SUMMARY, None),
    ]
    cells = []
    for number, (text, tags) in enumerate(parts):
        source = text if text is setup else Template(text).substitute(words)
        make = nbformat.v4.new_markdown_cell if tags is None else nbformat.v4.new_code_cell
        metadata = {"tags": tags} if tags else {}
        cells.append(make(source, id=f"part-{number:02}", metadata=metadata))
    return nbformat.v4.new_notebook(cells=cells, metadata=first.metadata)


def with_entry(contents: str, after: str, stem: str) -> str:
    """_toc.yml with the new chapter in the line behind the other."""
    entry = re.search(rf"^( *- file: book/){re.escape(after)}$\n?", contents, re.MULTILINE)
    if entry is None:
        raise ValueError(
            f"expected book/{after} in _toc.yml, got no such line; name another chapter"
        )
    line = f"{entry.group(1)}{stem}\n"
    head = contents[: entry.end()]
    return head + ("" if head.endswith("\n") else "\n") + line + contents[entry.end() :]


def new_chapter(
    root: Path, name: str, title: str, after: str | None = None, number: int | None = None
) -> list[Path]:
    """Write a chapter's files and return their paths.

    Errors: ValueError for a name that is no concept in small letters, no title, a number that is
    taken, an unknown chapter before it, or a file that is there already.
    """
    if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name):
        raise ValueError(f"expected a name like sparse_attention, got {name!r}; use small letters")
    if not title.strip() or '"' in title:
        raise ValueError(f"expected a title without quotation marks, got {title!r}; give TITLE=...")
    stems = {path.stem[3:]: path.stem for path in chapters(root)}
    numbers = {int(stem[:2]): stem for stem in stems.values()}
    number = number or max(numbers) + 1
    if number in numbers or not 0 < number < 100:
        free = max(numbers) + 1
        taken = numbers.get(number, "no number of two digits")
        raise ValueError(f"expected a free number, got {number} ({taken}); {free} is free")
    after = after or max(stems, key=stems.__getitem__)
    if after not in stems:
        raise ValueError(f"expected after one of {', '.join(stems)}, got {after!r}")
    stem = f"{number:02}_{name}"
    room = root / "book" / "chapters" / name
    words = {"name": name, "title": title.strip(), "label": name.replace("_", "-")}
    files = {
        room / "checks.py": CHECKS,
        room / "plots.py": PLOTS,
        room / "answers.py": ANSWERS,
        room / "words.yml": WORDS,
        room / "tests" / "test_checks.py": TEST_CHECKS,
        room / "tests" / "test_plots.py": TEST_PLOTS,
    }
    page = root / "book" / f"{stem}.ipynb"
    there = [path for path in (page, room, *files) if path.exists()]
    if name in stems or there:
        got = ", ".join(str(path.relative_to(root)) for path in there) or stems[name]
        raise ValueError(f"expected a new chapter, got {got}, which is there; choose another name")
    contents = root / "_toc.yml"
    entries = with_entry(contents.read_text(encoding="utf-8"), stems[after], stem)
    text = nbformat.writes(notebook(root, words)) + "\n"
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(template).substitute(words), encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    contents.write_text(entries, encoding="utf-8")
    return [page, *files, contents]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="the concept, such as sparse_attention")
    parser.add_argument("title", help="the heading of its page")
    parser.add_argument("--after", help="the chapter before it in the contents, such as masking")
    parser.add_argument("--number", type=int, help="of its file")
    options = parser.parse_args(arguments)
    try:
        files = new_chapter(ROOT, options.name, options.title, options.after, options.number)
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(str(path.relative_to(ROOT)) for path in files))
    page = files[0].relative_to(ROOT)
    print(
        f"\nWrite, give it its part of the map in book/drawing/book_map.py, run:\n"
        f"    make refresh CHAPTER={page}\n"
        f"and see what is missing:\n"
        f"    make check CHAPTER={options.name}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
