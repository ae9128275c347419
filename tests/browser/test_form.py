"""What a reader meets on the built pages: nothing folded between paragraphs, nothing to scroll."""

import json

import pytest

from scripts import form

pytestmark = [pytest.mark.browser, pytest.mark.built]
CHAPTERS = form.chapters()
SMALLEST = 0.6  # of a formula that is set smaller to fit a phone


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_page_meets_the_bars(chapter, browser):
    context = browser.new_context()  # that has kept no answers
    page = context.new_page()
    counted = form.measure_page(page, form.HTML / "book" / f"{CHAPTERS[chapter].stem}.html")
    assert {name: getattr(counted, name) for name in form.ZERO} == dict.fromkeys(form.ZERO, 0)
    assert counted.scroll <= form.LIMITS["scroll"]
    sizes = page.locator(".math-block > math").evaluate_all(
        "(all) => all.map((math) => parseFloat(math.style.fontSize) || 1)"
    )
    assert min(sizes, default=1) >= SMALLEST
    if chapter in form.IN_FORM:
        notebook = json.loads(CHAPTERS[chapter].read_text(encoding="utf-8"))
        assert not {*form.misses(form.measure(notebook))} & {*form.HELD}
        assert counted.predictions > 0
    context.close()
