"""The index of the search page: what of a page can be found, and which section explains a word."""

import json

import pytest
import yaml
from sphinx.errors import ExtensionError

from build.pages.search import ALIASES, collect_terms, make_index, plain, read_page, write_index
from tests.paths import ROOT

CHAPTER = """<nav><p>Contents</p></nav><article class="bd-article">
<section id="masks"><h1><span class="section-number">6. </span>Masks<a class="headerlink">#</a></h1>
<p>A <span class="term"><a href="g.html">mask</a><span role="tooltip" hidden>the tip</span></span>
says who attends.</p>
<div class="cell"><div class="cell_input"><pre>import math</pre></div><p>an output</p></div>
<section id="two-kinds"><h2>Two <em>kinds</em></h2>
<p>Divide by <math alttext="\\sqrt{d_k}"><mi>d</mi></math>.</p>
<div class="math-block"><math alttext="a=b" display="block"><mi>a</mi></math></div>
<table><tr><th><p>mask</p></th><th><p>hides</p></th></tr></table>
<aside class="margin sidebar"><p class="sidebar-title"></p><p>An aside.</p></aside>
<section id="exercises"><h2>Exercises</h2>
<div class="exercise admonition" id="ex-one"><p class="admonition-title">Exercise 1 (Rows)</p>
<section id="exercise-content"><p>Write <code>rows</code>.</p></section></div>
<div class="hint admonition"><p class="admonition-title">Hint</p><p>Think.</p></div>
<div class="solution admonition"><p class="admonition-title">Solution</p><p>Done.</p></div>
<p>After it.</p></section></section></section></article><footer><p>The end</p></footer>"""
GLOSSARY = """<article><section id="glossary"><h1>Glossary</h1><dl class="glossary">
<dt id="term-mask">mask</dt><dd><p>Who may attend. <a href="06_masks.html#two-kinds">6</a></p></dd>
<dt id="term-key">key</dt><dd><p>What is asked. <a href="06_masks.html#masks">6</a></p></dd>
</dl></section></article>"""
INDEX = """<article><section id="index"><h1>Index</h1><ul>
<li><p>Mask, <a href="06_masks.html#masks">6</a>, <a href="06_masks.html#gone">6</a></p></li>
<li><p>rows</p><ul><li><p>of a map, <a href="06_masks.html#two-kinds">6</a></p></li></ul></li>
</ul></section></article>"""
PAGES = {"book/06_masks": CHAPTER, "book/glossary": GLOSSARY, "book/genindex": INDEX}


def test_a_page_gives_its_sections_with_their_prose_and_nothing_else():
    found = [
        (entry.anchor, entry.title, [(one.text, one.row) for one in entry.paragraphs])
        for entry in read_page(CHAPTER)
    ]
    assert found == [
        ("masks", "6. Masks", [("A mask says who attends.", False)]),
        (
            "two-kinds",
            "Two kinds",
            [("Divide by √d_k.", False), ("mask · hides", True), ("An aside.", False)],
        ),
        ("exercises", "Exercises", [("After it.", False)]),
        ("ex-one", "Exercise 1 (Rows)", [("Write rows.", False)]),
    ]


def test_an_element_that_is_never_closed_hides_nothing_behind_its_parent():
    page = '<article><section id="a"><h1>A</h1><div class="cell"><li><p>x</div><p>y</p></section>'
    (entry,) = read_page(f"{page}</article>")
    assert [one.text for one in entry.paragraphs] == ["y"]


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\frac{1}{\sqrt{d_k}}", "1/√d_k"),
        (r"O(n^2 \cdot d_{\mathrm{model}})", "O(n^2 · d_model)"),
        (r"j \le i,\; \varepsilon > 0", "j ≤ i, ε > 0"),
        (r"\Phi(x)\,\operatorname{softmax}", "Φ(x) softmax"),
    ],
)
def test_a_formula_is_written_as_a_line(latex, text):
    assert plain(latex) == text


def test_words_lead_to_the_sections_that_explain_them():
    index = make_index(PAGES, {"Mask": ["who may attend"]})
    assert index["pages"] == [
        ("book/06_masks.html", "6. Masks", 1),
        ("book/glossary.html", "Glossary", 0),
    ]
    anchors = [section[1] for section in index["sections"]]
    assert anchors == [
        *("masks", "two-kinds", "exercises", "ex-one"),
        *("glossary", "term-mask", "term-key"),
    ]
    assert index["sections"][5] == (1, "term-mask", "mask", "Who may attend.", "")
    # The glossary's place comes before the index's; a place that is not there is left out.
    assert index["terms"] == [
        (["mask", "who may attend"], [1, 0]),
        (["key"], [0]),
        (["rows of a map"], [1]),
    ]


def test_an_alias_of_an_unknown_word_stops_the_build():
    with pytest.raises(ExtensionError, match=r"aliases\.yml: expected words .* got \['musk'\]"):
        collect_terms([("mask", ["a#b"])], {"a#b": 0}, {"musk": ["odour"], "mask": []})


def test_the_index_is_a_script_of_one_line(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / ALIASES).write_text("key: [QKV]\n", encoding="utf-8")
    for name, text in PAGES.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    write_index(tmp_path, PAGES, tmp_path)
    script = (tmp_path / "_static" / "search-index.js").read_text(encoding="utf-8")
    assert script.startswith("window.bookIndex = {")
    data = json.loads(script.removeprefix("window.bookIndex = ").removesuffix(";\n"))
    assert [["key", "QKV"], [0]] in data["terms"]


def test_no_two_words_have_the_same_alias():
    aliases = yaml.safe_load((ROOT / ALIASES).read_text(encoding="utf-8"))
    names = [name.lower() for others in aliases.values() for name in others]
    assert len(set(names)) == len(names)
    assert [*aliases] == sorted(aliases, key=str.lower)
