"""What `make form` counts, on a small chapter whose numbers are known."""

import json

import pytest

from scripts import form


def text(*lines):
    return {"cell_type": "markdown", "metadata": {}, "source": "\n".join(lines)}


def code(source, *tags, kind=None, data="", **mystnb):
    outputs = [{"output_type": "display_data", "data": {kind: data}}] if kind else []
    metadata = {"tags": list(tags), "mystnb": mystnb}
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": outputs}


def measured(*cells):
    return form.measure({"cells": list(cells)})


WIDGET = code("Explorer()", kind="text/html", data='<div class="book-widget" data-module="x">')


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("# One two\n\nThree, *four* and `five`.", 6),
        ("The root $\\sqrt{d_k}$ is {cite:t}`vaswani2017attention`.\n\n$$\na b c\n$$\n", 5),
        ("```python\na = 1\n```\n", 0),
        ("| one | two |\n| --- | --- |\n| 3 | - |", 3),
        ("```{table} A caption\n:name: tab-x\n\n| one |\n| --- |\n| two |\n```", 4),
        ("```{exercise} With a pencil\n:label: ex-x\n\nTry it.\n```", 5),
        ("```{hint}\n:class: dropdown\n\nTry it.\n```", 0),
        ("````{solution} ex-x\n:class: dropdown\n\nTry it.\n````", 0),
        ("```{admonition} Why?\n:class: dropdown\n\nBecause.\n```", 0),
        ("```{admonition} Why?\n\nBecause.\n```", 2),
        ("```{margin}\nAside.\n```", 0),
        ("```{seen}\nOne goes up.\n```", 0),
        ("```{recall} rc-x\nWhat for?\n---\nFor this.\n```", 2),
        ("```{predict} pr-x\nHow much?\n- a lot\n- little\n```", 5),
        ("```{outcome} pr-x\n:right: 2\nLittle.\n```", 1),
    ],
)
def test_visible_words_are_those_that_stand_open(markdown, words):
    assert form.count_words(markdown) == words


def test_schematics_are_drawn_by_the_chapter_or_stand_without_code():
    imports = code("from chapters.masking.schematics import staircase as stairs", "hide-input")
    module = code("from chapters.masking import schematics", "hide-input")
    called = code("stairs(3)", "remove-input")
    through = code("schematics.staircase(3)", "remove-input")
    drawn = code("x", "remove-input", kind="image/svg+xml", data="<svg/>")
    figure = code("x", "remove-input", kind="image/png", data="")
    in_text = code("x", kind="image/svg+xml", data="<svg/>")
    assert measured(imports, called, module, through, drawn).schematics == 3
    assert measured(called, through, figure, in_text).schematics == 0


def test_recall_questions_are_found_inside_other_directives():
    inner = "```{recall} rc-x\nWhat?\n---\nThat.\n```"
    outer = f"````{{container}} box\n{inner}\n````"
    counted = measured(text(outer), text(inner, "", "```{predict} pr-x\nHow much?\n```"))
    assert counted.recalls == 2


QUESTIONS = [
    ("Where does it begin to err? Why there?", 2),
    ("- Move the heads from 1 to 16.\n- Without the scale, raise the dimension.", 2),
    ("1. **Drag** the query: which key wins? And now?\n2. It stays.", 1),
    ("It shows what `f(x) ? a : b` does. Nothing is asked.", 0),
]


@pytest.mark.parametrize(("asked", "number"), QUESTIONS)
def test_questions_about_a_widget_need_an_answer_in_their_section(asked, number):
    seen = text("```{seen}", "This?", "```")
    after = text("## Next?", "", "```{seen}", "Too late.", "```")
    for cells in ([text("## Try", "", asked), WIDGET], [text("## Try"), WIDGET, text(asked)]):
        assert measured(*cells).unanswered == number
        assert measured(*cells, after).unanswered == number
        assert measured(*cells, seen).unanswered == 0
        assert measured(*cells[:1], text("# Two"), *cells[1:2]).unanswered == 0
    assert measured(text("## Try", "", asked)).unanswered == 0
    assert measured(text("## Try"), seen, WIDGET, text(asked)).unanswered == number


def test_a_question_of_an_exercise_is_none_about_the_widget():
    exercise = text("```{exercise} Why?", ":label: ex-x", "", "What is it?", "```")
    assert measured(WIDGET, exercise).unanswered == 0


def test_code_cells_need_a_word_between_them():
    margin = text("```{margin}", "Aside.", "```")
    told = code("assert x", "proof", code_prompt_show="Tested: equal to the loop.")
    untold = code("import x", "hide-input")
    figure = code("plot()", "remove-input", figure={"caption": "Two curves."})
    one, two = code("1"), code("2")
    assert measured(one, two, one).adjacent == 2
    assert measured(one, margin, two).adjacent == 1
    assert measured(one, untold, two).adjacent == 1
    assert measured(one, text("Now:"), two).adjacent == 0
    assert measured(one, told, two).adjacent == 1  # on the page it stands elsewhere
    assert measured(one, figure, two).adjacent == 0
    assert measured(code("...", "exercise"), code("check()", "raises-exception")).adjacent == 0


def test_each_bar_is_missed_by_one_too_many_or_too_few():
    at_the_bars = form.Form(3, 5, 0, 0)
    assert form.misses(at_the_bars) == []
    step = form.Form(-1, -1, 1, 1)
    for name in form.Form._fields:
        spoilt = at_the_bars._replace(**{name: getattr(at_the_bars, name) + getattr(step, name)})
        assert form.misses(spoilt) == [name]


AT_THE_LIMITS = form.PageForm(1700, 1700, 0, 3, 0, 18, 140, 72, 10, 0)


@pytest.mark.parametrize("name", form.PageForm._fields)
def test_each_limit_of_a_page_is_exceeded_by_one(name):
    assert form.beyond(AT_THE_LIMITS) == []
    spoilt = AT_THE_LIMITS._replace(**{name: getattr(AT_THE_LIMITS, name) + 1})
    assert form.beyond(spoilt) == [name]
    assert form.beyond(AT_THE_LIMITS._replace(predictions=0)) == ["predictions"]


def test_the_table_marks_what_is_beyond_and_fails_for_chapters_in_form(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "book").mkdir()
    path = tmp_path / "book" / "01_one.ipynb"
    path.write_text(json.dumps({"cells": [text("Two words.")]}), encoding="utf-8")
    monkeypatch.setattr(form, "ROOT", tmp_path)
    monkeypatch.setattr(form, "HTML", tmp_path)
    with pytest.raises(SystemExit, match=r"01_one\.html is missing: run make book first"):
        form.main()
    (tmp_path / "book" / "01_one.html").touch()
    counted = {"page": AT_THE_LIMITS._replace(unasked=1, lines=200)}
    monkeypatch.setattr(form, "measure_page", lambda page, path: counted["page"])
    monkeypatch.setattr(form, "IN_FORM", ())
    assert form.main() == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    of_page = ("1,700", "1,700", "0", "3", "1*", "18", "200*", "72", "10", "0")
    assert row == ["01_one", *of_page, "0*", "0*", "0", "0"]
    monkeypatch.setattr(form, "IN_FORM", ("one",))
    assert form.main() == 1
