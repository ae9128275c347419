"""On paper: widgets keep the colours that are data, say what they are set to, and stand whole.

And without scripts: a page has its colours, and a table in place of each widget.
"""

import io

import pytest
from playwright.sync_api import expect
from pypdf import PdfReader

from engine.text import LABORATORIES
from scripts import make_pdf
from tests.gate import some_widgets
from tests.paths import HTML
from tests.widget_samples import SAMPLES

pytestmark = pytest.mark.browser
CHAPTER = HTML / "book" / "04_self_attention.html"


@pytest.mark.parametrize("name", some_widgets(SAMPLES.keys() - set(LABORATORIES)))
def test_widget_stands_on_paper(stage, name):
    """Light, with its colours, with what the controls are set to and without the controls."""
    page = stage.show(SAMPLES[name](), theme="dark", width=750)  # about a sheet of A4
    values = page.locator(".bw-value:visible").all_inner_texts()
    page.emulate_media(media="print")
    frame = page.locator(".bw")
    style = "(node) => { const s = getComputedStyle(node);"
    style += " return [s.colorScheme, s.printColorAdjust, s.backgroundColor]; }"
    assert frame.evaluate(style) == ["light", "exact", "rgb(255, 255, 255)"]
    # A switch stays: it shows what it is set to.
    controls = page.locator(".bw :is(input[type=range], button:not([role=switch])):visible")
    expect(controls).to_have_count(0)
    assert page.locator(".bw-value:visible").all_inner_texts() == values
    assert frame.bounding_box()["height"] < 1150, "much more than a sheet holds"


@pytest.mark.parametrize("name", LABORATORIES)
def test_of_a_laboratory_its_table_stands_on_paper(stage, name):
    """A run is no picture: what is trained, and from which settings, is printed."""
    page = stage.show(SAMPLES[name]())
    page.emulate_media(media="print")
    expect(page.locator(".bw")).to_be_hidden()
    expect(page.locator(".book-widget-static table")).to_be_visible()


@pytest.mark.built
def test_a_dark_page_is_printed_light(page):
    page.emulate_media(color_scheme="dark")
    page.goto(CHAPTER.as_uri())
    page.wait_for_selector(".bw")
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "dark"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {theme}; }})")
    page.pdf()
    assert page.evaluate("printed") == "light"
    page.wait_for_function(f"() => {theme} === 'dark'")


@pytest.mark.built
def test_the_cheat_sheet_is_one_sheet(page):
    page.goto((HTML / "book" / "cheat_sheet.html").as_uri())
    margins = dict.fromkeys(("top", "bottom", "left", "right"), "10mm")
    for paper in ("A4", "Letter"):
        printed = page.pdf(format=paper, margin=margins)
        assert len(PdfReader(io.BytesIO(printed)).pages) == 1


@pytest.mark.built
def test_a_page_without_scripts_has_its_colours_and_its_tables(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(CHAPTER.as_uri())
    assert page.locator("html").get_attribute("data-theme") == "light"
    link = page.locator(".bd-article p a").first
    colours = [link.evaluate("(node) => getComputedStyle(node).color")]
    colours.append(page.evaluate("getComputedStyle(document.body).color"))
    assert colours == ["rgb(20, 80, 127)", "rgb(34, 38, 43)"]
    for widget in page.locator(".book-widget").all():
        assert widget.locator("table").is_visible()
    context.close()


@pytest.mark.built
def test_a_hint_on_paper_has_no_button(page):
    page.goto(CHAPTER.as_uri())
    buttons = page.locator(".toggle-button")
    assert buttons.locator("visible=true").count() > 0
    page.emulate_media(media="print")
    expect(buttons.locator("visible=true")).to_have_count(0)


@pytest.mark.built
def test_a_listing_goes_on_over_the_page(page):
    """Kept whole, each long one left half a sheet empty before it."""
    page.goto(CHAPTER.as_uri())
    page.emulate_media(media="print")
    whole = page.locator(".bd-article .cell pre:visible").evaluate_all(
        """(all) => all.flatMap((pre) => {
          const kept = (node) => {
            const style = getComputedStyle(node);
            return style.breakInside !== "auto" || style.overflow !== "visible"
              || style.display === "flex";
          };
          const found = [];
          for (let node = pre; !node.matches(".cell"); node = node.parentElement)
            if (kept(node)) found.push(node.className);
          return found;
        })"""
    )
    assert whole == []


@pytest.mark.built
def test_each_sheet_of_the_pdf_has_its_pages_title_and_its_number(page):
    names = {"notation": "Notation", "paper_map": "The paper, and where it is here"}
    bound = make_pdf.bind(page, [HTML / "book" / f"{name}.html" for name in names])
    ends = [sheet.extract_text().strip().split("\n")[-1] for sheet in bound.pages]
    titles = [end.rpartition(" ")[0] for end in ends]
    assert ends == [f"{title} {n}" for n, title in enumerate(titles, 1)]
    assert sorted(set(titles), key=titles.index) == list(names.values())
    assert [item.title for item in bound.outline] == list(names.values())
