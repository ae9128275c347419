"""A schematic on its way from a notebook into the page, the reader's notebook and the EPUB."""

import re

import nbformat
import pytest
from docutils import nodes

from build.directives import schematics
from build.pages import figures
from build.readers.reader import code_cell
from chapters.attention_layer.schematics import one_query
from chapters.transformer.schematics import whole
from tests.notebooks.guards import figures_have_alt_text, figures_have_captions
from tests.paths import BOOK

PICTURE = one_query()


def cell(**metadata) -> nbformat.NotebookNode:
    data = PICTURE._repr_mimebundle_()
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    return nbformat.v4.new_code_cell("one_query()", outputs=[output], metadata=metadata)


def test_a_page_has_the_drawing_without_its_panel_style_and_tip():
    text = schematics.inline(PICTURE.svg())
    assert f'role="img" aria-label="{PICTURE.alt}"' in text
    assert f'viewBox="0 0 {PICTURE.width} {PICTURE.height}"' in text
    assert PICTURE.body() in text
    assert not re.search(r"<style|<title|paper|\bid=|xmlns", text)


def test_a_drawing_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="expected a schematic, got '<svg"):
        schematics.inline("<svg><path/></svg>")


class App:
    """As much of Sphinx as is asked."""

    def __init__(self, folder, form="html"):
        self.srcdir, self.builder = folder, self
        self.format = form


@pytest.mark.parametrize(("form", "inlined"), [("html", True), ("latex", False)])
def test_only_schematics_are_put_into_a_page(tmp_path, form, inlined):
    (tmp_path / "a.svg").write_text(PICTURE.svg(), encoding="utf-8")
    (tmp_path / "b.svg").write_text("<svg/>", encoding="utf-8")
    images = [nodes.image(uri=uri) for uri in ("a.svg", "b.svg", "c.png", "https://x.org/d.svg")]
    tree = nodes.section("", *images)
    schematics.on_resolved(App(tmp_path, form), tree, "page")
    assert [type(node) is nodes.raw for node in tree] == [inlined, False, False, False]


def test_storing_a_chapter_leaves_the_schematic_in_it():
    one = cell()
    notebook = nbformat.v4.new_notebook(cells=[one])
    assert figures.take_drawings(notebook) == {}
    assert one.outputs[0].data["image/svg+xml"] == PICTURE.svg()


def test_the_notebook_of_a_reader_shows_it_and_hides_its_code():
    made = code_cell(cell(tags=["remove-input"]), unanswered=False)
    assert made.metadata.jupyter.source_hidden
    assert made.outputs[0].data["image/svg+xml"] == PICTURE.svg()


def test_no_rule_of_the_pages_reaches_into_a_drawing():
    """A rule for `.line`, meant for a line of code, once stretched the dashed frames on a phone."""
    rules = (BOOK / "static" / "book.css").read_text(encoding="utf-8")
    drawn = {
        name for found in re.findall(r'class="(.+?)"', whole().body()) for name in found.split()
    }
    assert {"line", "dash", "box"} <= drawn
    assert [name for name in drawn if re.search(rf"(?m)^ *\.{name}(?![\w-])", rules)] == []


def test_its_description_counts_and_its_caption_is_asked_for():
    notebook = nbformat.v4.new_notebook(cells=[cell()])
    assert figures_have_alt_text(notebook) == []
    assert len(figures_have_captions(notebook)) == 2


def test_a_page_without_code_draws_by_a_name():
    schematic, described = schematics.drawn("attention_layer.schematics.one_query")
    assert schematic.svg() == PICTURE.svg()
    assert described.parts[-2:] == ("attention_layer", "schematics.py")


@pytest.mark.parametrize(
    "name",
    [
        "attention_layer.schematics.no_such_drawing",
        "no_such_room.schematics.one_query",
        "attention_layer.schematics.Schematic",
        "one_query",
        "",
    ],
)
def test_a_name_without_a_drawing_is_refused(name):
    with pytest.raises(ValueError, match=r"expected ROOM\.MODULE\.FUNCTION, got"):
        schematics.drawn(name)
