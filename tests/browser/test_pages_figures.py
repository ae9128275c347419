"""A figure of a page: it follows the theme, and opens large by pointer, key and finger."""

import io

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.axe import violations
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
ADDRESS = (HTML / "book" / "10_transformer.html").as_uri()
SIZE = "(node) => node.getBoundingClientRect().width"


@pytest.fixture(params=[900, 390])
def page(request, browser: Browser):
    """The page on a desktop, and on a telephone."""
    phone = request.param == 390
    page = browser.new_page(viewport={"width": request.param, "height": 800}, has_touch=phone)
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(ADDRESS, wait_until="networkidle")
    yield page
    page.close()
    assert problems == []


def figure(page: Page) -> Locator:
    link = page.locator("a.figure").first
    link.scroll_into_view_if_needed()
    return link


def view(page: Page) -> Locator:
    return page.locator("dialog.figure-view")


def pixels(shot: bytes) -> Image.Image:
    return Image.open(io.BytesIO(shot)).convert("RGB")


def test_a_figure_has_the_ground_of_its_page_in_both_themes(page):
    means = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(f"() => document.documentElement.dataset.theme === '{theme}'")
        picture = pixels(figure(page).screenshot())
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        expected = [int(part) for part in ground[4:-1].split(",")]
        corner = picture.getpixel((2, 2))
        assert max(abs(a - b) for a, b in zip(corner, expected, strict=True)) <= 4, theme
        means[theme] = picture.convert("L").resize((1, 1)).getpixel((0, 0))
    assert means["dark"] < 80 < 200 < means["light"]


def test_it_opens_by_key_is_labelled_and_gives_the_focus_back(page):
    link = figure(page)
    alt = link.locator("img").get_attribute("alt")
    link.focus()
    page.keyboard.press("Enter")
    expect(view(page)).to_be_visible()
    assert view(page).get_attribute("aria-label") == alt
    expect(page.get_by_role("dialog", name=alt)).to_be_visible()
    assert [one for one in violations(page, whole=False) if "figure" in one] == []
    page.keyboard.press("Escape")
    expect(view(page)).to_be_hidden()
    expect(link).to_be_focused()
    assert page.url == ADDRESS


def test_back_closes_it_and_the_page_stays_where_it_was(page):
    link = figure(page)
    before = link.bounding_box()["y"]  # what stands above may still load, and scrollY follows it
    link.tap() if page.viewport_size["width"] == 390 else link.click()
    expect(view(page)).to_be_visible()
    page.go_back()
    expect(view(page)).to_be_hidden()
    assert page.url == ADDRESS
    assert abs(link.bounding_box()["y"] - before) <= 2
    expect(link).to_be_focused()


def test_closed_by_its_button_it_leaves_no_step_in_the_history(page):
    steps = page.evaluate("history.length")
    for _ in range(2):
        figure(page).click()
        view(page).get_by_role("button", name="Close").click()
        expect(view(page)).to_be_hidden()
        page.wait_for_function("() => !history.state?.figure")
    assert page.evaluate("history.length") <= steps + 1


def test_its_letters_can_be_read_on_a_phone_and_it_can_be_made_to_fit(page):
    link = figure(page)
    natural = int(link.locator("img").get_attribute("width"))
    link.click()
    shown, larger = view(page).locator("img"), view(page).get_by_role("button", name="Larger")
    width = page.viewport_size["width"]
    if width < natural:
        expect(larger).to_have_attribute("aria-pressed", "true")
        assert shown.evaluate(SIZE) >= natural
        larger.click()
        assert shown.evaluate(SIZE) <= width
    else:
        expect(larger).to_have_attribute("aria-pressed", "false")
        fitting = shown.evaluate(SIZE)
        shown.click()  # the picture itself is a switch, too
        assert shown.evaluate(SIZE) >= 1.5 * fitting
        stage = view(page).locator(".figure-stage")
        assert stage.evaluate("(node) => node.scrollWidth > node.clientWidth")


def test_without_scripts_a_figure_is_a_link_to_its_file(browser: Browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(ADDRESS, wait_until="networkidle")
    figure(page).click()
    page.wait_for_url("**/_images/*.svg")
    context.close()
