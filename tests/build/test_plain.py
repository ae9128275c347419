"""MyST becomes plain Markdown: each form where it stood, and an error for the rest."""

from collections import Counter

import nbformat
import pytest

from build.readers.plain import Chapter, to_plain
from build.source.places import Place, Places, UnknownMarkup
from tests.paths import ROOT

BASE = Places(ROOT).base
PAGE = "book/05_multi_head"
PAPER = "https://arxiv.org/abs/1706.03762"


@pytest.fixture(scope="module")
def places():
    return Places(ROOT)


@pytest.fixture
def chapter(places):
    return Chapter(places, PAGE, 5)


@pytest.mark.parametrize(
    "text",
    [
        "# A title with $d_k$\n\n- a *list* of $x$\n  and `code`\n\n1. one\n2. two",
        "| a | b |\n| --- | --- |\n| $x$ | `y` |",
        "$$\n\\begin{aligned} a &= b \\\\ c &= d \\end{aligned}\n$$",
        "```python\nx = '{cite}`a`'  # [3](03_attention_layer.ipynb)\n```",
        "Code such as `{cite:t}` and `[a](b.md)`, a brace {here}, 5 * 3.",
        "[elsewhere](https://example.org/a?b=c) and <https://example.org>",
    ],
)
def test_what_is_plain_stays_as_it_is(text, chapter):
    assert to_plain(text, chapter) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("As {cite:t}`vaswani2017attention` says", f"As [Vaswani et al. (2017)]({PAPER}) says"),
        ("so {cite:p}`vaswani2017attention`.", f"so ([Vaswani et al., 2017]({PAPER}))."),
        (
            "{cite}`vaswani2017attention,hochreiter1997long`",
            f"([Vaswani et al., 2017]({PAPER}); "
            f"[Hochreiter and Schmidhuber, 1997]({Places(ROOT).paper('hochreiter1997long')}))",
        ),
        (
            "See [3](03_attention_layer.ipynb), "
            "*[the end](06_masking.ipynb#summary)*,\n[n](notation.md).",
            f"See [3]({BASE}book/03_attention_layer.html), "
            f"*[the end]({BASE}book/06_masking.html#summary)*,\n[n]({BASE}book/notation.html).",
        ),
        ("[here](#summary)", f"[here]({BASE}{PAGE}.html#summary)"),
        ("[that](#ex-masks-prefix)", f"[that]({BASE}book/06_masking.html#ex-masks-prefix)"),
        (
            "[so {cite:t}`vaswani2017attention`](glossary.md)",
            f"[so [Vaswani et al. (2017)]({PAPER})]({BASE}book/glossary.html)",
        ),
        ("{doc}`06_masking`", f"[Masking]({BASE}book/06_masking.html)"),
        ("{doc}`that <06_masking>`", f"[that]({BASE}book/06_masking.html)"),
        ("{ref}`ex-heads-merge`", f"[The way back]({BASE}{PAGE}.html#ex-heads-merge)"),
        ("{numref}`task <ex-heads-merge>`", f"[task]({BASE}{PAGE}.html#ex-heads-merge)"),
        ("{term}`causal mask`", f"[causal mask]({BASE}book/glossary.html#term-causal-mask)"),
        ("![A map](static/map.svg)", f"![A map]({BASE}_images/map.svg)"),
        ("- a\n  {cite:t}`vaswani2017attention`", f"- a\n  [Vaswani et al. (2017)]({PAPER})"),
        (
            "| {cite:t}`vaswani2017attention` | b |\n| --- | --- |\n| [c](notation.md) | d |",
            f"| [Vaswani et al. (2017)]({PAPER}) | b |\n| --- | --- |\n"
            f"| [c]({BASE}book/notation.html) | d |",
        ),
    ],
)
def test_roles_and_links_become_links_that_hold_everywhere(text, plain, chapter):
    assert to_plain(text, chapter) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("$$\nx = y\n$$ (eq-x)", "$$\nx = y\n$$"),
        ("```{math}\n:label: eq-x\nx = y\n```", "$$\nx = y\n$$"),
        (
            "\\begin{align*}\na &= b \\label{eq-a} \\\\\nc &= d\n\\end{align*}",
            "$$\n\\begin{aligned}\na &= b  \\\\\nc &= d\n\\end{aligned}\n$$",
        ),
        ("\\begin{equation}\na\n\\end{equation}", "$$\na\n$$"),
        ("(sec-x)=\n## A section", "\n## A section"),
        ("a\n\n% a comment\n\nb", "a\n\n\n\nb"),
    ],
)
def test_formulas_keep_their_text_and_lose_their_labels(text, plain, chapter):
    assert to_plain(text, chapter) == plain


EXERCISES = """\
## Exercises

```{exercise} The way back
:label: ex-a

*Medium, 20 minutes, code.* Write $W^O$, see [3](03_attention_layer.ipynb).
```

```{hint}
:class: dropdown

Use `flatten`.
```

````{solution} ex-a
:class: dropdown

```python
x = 1
```

As $x$ is.
````

Behind."""


def test_an_exercise_has_a_heading_and_its_hint_and_solution_are_folded(chapter):
    assert to_plain(EXERCISES, chapter) == (
        "## Exercises\n\n"
        "### Exercise 5.1: The way back (medium, 20 minutes, code)\n\n"
        f"Write $W^O$, see [3]({BASE}book/03_attention_layer.html).\n\n"
        "<details>\n<summary>Hint</summary>\n\nUse `flatten`.\n\n</details>\n\n"
        "<details>\n<summary>Solution of exercise 5.1</summary>\n\n"
        "```python\nx = 1\n```\n\nAs $x$ is.\n\n</details>\n\n"
        "Behind."
    )


def test_exercises_are_counted_through_the_cells_of_a_chapter(chapter):
    for label in ("ex-a", "ex-b"):
        text = to_plain(
            f"```{{exercise}} T\n:label: {label}\n\n*Easy, 5 minutes.* Do.\n```", chapter
        )
    assert text.startswith("### Exercise 5.2: T (easy, 5 minutes)")
    assert "exercise 5.1" in to_plain("```{solution} ex-a\nSo.\n```", chapter)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("```{margin}\nA note on $x\n= y$ over\nlines.\n```", "> A note on $x = y$ over lines."),
        ("```{margin} Title\nA note.\n```", "> **Title**\n>\n> A note."),
        (
            "````{admonition} Why\n```{math}\na\n```\n"
            "- one $b\n  c$\n- two\n\n```python\nx\n```\n````",
            "> **Why**\n>\n> $$ a $$\n> - one $b c$\n> - two\n>\n> ```python\n> x\n> ```",
        ),
        ("```{note} At once.\nMore.\n```", "> **Note**\n>\n> At once. More."),
        (
            ":::{admonition} Why `x` is\n:class: tip dropdown\nSo.\n:::",
            "<details>\n<summary>Why <code>x</code> is</summary>\n\nSo.\n\n</details>",
        ),
        (
            "- one\n\n  ```{margin}\n  A note.\n  ```\n\n- two",
            "- one\n\n  > A note.\n\n- two",
        ),
        (":::{margin}\nA note.\n:::", "> A note."),
        (
            "```{figure} static/map.svg\n:alt: A map of heads\n:name: fig-map\nThe *map*.\n```",
            f"![A map of heads]({BASE}_images/map.svg)\n\n**Figure 5.1.** The *map*.",
        ),
    ],
)
def test_notes_are_quotations_and_pictures_pictures(text, plain, chapter):
    assert to_plain(text, chapter) == plain


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("```{unheard-of} x\n```", "directive {unheard-of}"),
        ("{unheard}`x`", "role {unheard}"),
        ("```{hint}\n:open: true\nx\n```", "open"),
        ("{cite:t}`nobody1999nothing`", "nobody1999nothing"),
        ("{ref}`no-such-label`", "no-such-label"),
        ("{doc}`no_such_page`", "no_such_page"),
        ("[x](no_such_page.md)", "no_such_page"),
        ("[x](../scripts/refresh.py)", "refresh.py"),
        ("[x][y]\n\n[y]: notation.md", "[x][y]"),
        ("```{solution} ex-none\nx\n```", "ex-none"),
        ("```{exercise} T\n:label: ex-x\nNo difficulty.\n```", "Difficulty"),
        ("{{ substitution }}", "substitution"),
        ("Word\n: definition", "dl"),
        ("{.class}\nA paragraph.", "class"),
        ("A [span]{.class}.", "class"),
        ("A note.[^a]\n\n[^a]: The note.", "footnote"),
        ("<div class='x'>raw</div>", "html_block"),
        ("\\begin{alignat}\nx\n\\end{alignat}", "alignat"),
        ("> ```{margin}\n> x\n> ```", "lines of its own"),
    ],
)
def test_what_has_no_plain_form_is_named(text, named, chapter):
    with pytest.raises(UnknownMarkup) as error:
        to_plain(text, chapter)
    assert named in str(error.value)


def test_labels_are_found_on_every_page_with_their_titles(tmp_path):
    contents = "root: book/intro\nparts:\n- chapters:\n  - file: book/01_a\n"
    text = "(sec-a)=\n\n## One\n\n$$\nx\n$$ (eq-b)\n\n```{figure} x.png\n:name: fig_c\n```\n"
    task = "````{note}\n```{exercise} Do\n:label: ex-d\n*Easy, 5 minutes.* So.\n```\n````"
    metadata = {"mystnb": {"figure": {"name": "fig-e", "caption": "What is seen."}}}
    drawing = nbformat.v4.new_code_cell("plt.show()", metadata=metadata)
    cells = [nbformat.v4.new_markdown_cell(task), drawing]
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text(contents, encoding="utf-8")
    (tmp_path / "book" / "intro.md").write_text(text, encoding="utf-8")
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "book" / "01_a.ipynb")
    assert Places(tmp_path).labels == {
        "sec-a": Place("book/intro", "sec-a", "One"),
        "eq-b": Place("book/intro", "equation-eq-b", ""),
        "fig_c": Place("book/intro", "fig-c", ""),
        "ex-d": Place("book/01_a", "ex-d", "Do"),
        "fig-e": Place("book/01_a", "fig-e", ""),
    }


def test_names_in_a_citation_are_letters_and_not_latex(places):
    assert places.cite("cho2014learning", in_text=True).startswith("[Cho et al. (2014a)](")
    latex = [key for key in places.entries if set("{}\\") & set(places.cite(key, in_text=False))]
    assert not latex


def test_no_two_works_are_cited_alike(places):
    shown = Counter(places.cite(key, in_text=True).partition("](")[0] for key in places.entries)
    assert [name for name, count in shown.items() if count > 1] == []
