"""What `make house` measures, on small files whose answer is known, and on the book."""

import pytest

from scripts import house


def test_lines_of_code_leave_out_what_is_silent(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""A docstring\n\nof three lines."""\n\n'
        "# a comment\n"
        "import math  # another\n\n"
        "def f(x):\n"
        '    """One more."""\n'
        "    text = '''two\nlines'''\n"
        "    return (\n        x\n        # inside\n    )\n",
        encoding="utf-8",
    )
    assert house.lines_of_code(path) == 1 + 1 + 2 + 3


@pytest.mark.parametrize(
    ("source", "code", "checks"),
    [
        ("raise ValueError('no')", 1, 1),
        ("raise ValueError(\n    'one'\n    'two'\n)", 1, 1),
        ("if x:\n    raise ValueError('no')\ny = 1", 3, 2),
        ("if (\n    x\n    or y\n):\n    raise ValueError('no')", 5, 5),
        ("if x:\n    got = 1\n    raise ValueError(got)", 3, 3),
        ("if x:\n    got = 1\n    if y:\n        got = 2\n    raise ValueError(got)", 5, 5),
        ("if x:\n    y()\n    raise ValueError('no')", 3, 1),
        ("if x:\n    for one in x:\n        got = one\n    raise ValueError(got)", 4, 1),
        ("if x:\n    y = 1\nelse:\n    raise ValueError('no')", 4, 1),
        ("try:\n    f()\nexcept OSError as e:\n    raise ValueError('no') from e", 4, 2),
        ("try:\n    f()\nexcept OSError:\n    pass", 4, 0),
        ("def _require_x(x):\n    # why\n    if x:\n        y = 1", 3, 3),
        ("_require_x(\n    1\n)", 3, 3),
        ("self._require_x(1)", 1, 1),
        ("y = required(1)", 1, 0),
        ("class C(Exception):\n    def f(self):\n        return 1", 3, 0),
    ],
)
def test_lines_that_only_validate(source, code, checks, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    assert (house.lines_of_code(path), house.lines_that_validate(path)) == (code, checks)


@pytest.mark.parametrize(
    ("name", "source", "wanted"),
    [
        ("chapters.masking.plots", "from lib.masks import causal_mask", {"lib.masks"}),
        ("chapters.masking.plots", "from lib import masks", {"lib.masks"}),
        ("chapters.masking.plots", "from lib import unknown", {"lib"}),
        ("chapters.masking.plots", "import lib.masks as m, torch", {"lib.masks"}),
        ("chapters.masking.plots", "from .checks import check", {"chapters.masking.checks"}),
        ("chapters.masking.plots", "from ..training import axes", {"chapters.training"}),
        ("chapters.masking.plots", "def f():\n    import tests.paths", {"tests.paths"}),
        ("chapters.masking.plots", "importlib.import_module('drawing.axes')", {"drawing.axes"}),
        ("chapters.masking.plots", "from libcst import lib", set()),
        ("chapters.masking", "from . import checks", {"chapters.masking.checks"}),
    ],
)
def test_imports_are_found_in_every_form(name, source, wanted, tmp_path):
    path = tmp_path / ("__init__.py" if name == "chapters.masking" else "plots.py")
    path.write_text(source, encoding="utf-8")
    known = {"lib", "lib.masks", "chapters.masking.checks", "drawing.axes"}
    assert house.imported(name, path, known) == wanted


def test_a_name_within_a_package_is_not_one_that_begins_alike():
    assert house.within("chapters.masking.checks", ("chapters.masking",))
    assert not house.within("chapters.masking_more.checks", ("chapters.masking",))


def test_users_of_the_library_as_the_book_has_them():
    users = house.users()
    assert "masking" in users["lib.masks"][0]
    assert "lib.attention" in users["lib.masks"][1]
    assert not any(name.startswith("chapters.masking") for name in users["lib.masks"][1])


def test_the_way_to_the_softmax_is_short():
    files = house.path_to_softmax()
    assert files[0] == "transformer.py"
    assert files[-1] == "attention.py"
    assert len(files) <= 4


def test_main_prints_every_bar(capsys):
    house.main()
    printed = capsys.readouterr().out
    for line in ("lib: ", "used by chapters", "tests and experiments included", "chapters"):
        assert line in printed
    assert "from Transformer(...) to the softmax: transformer.py" in printed
