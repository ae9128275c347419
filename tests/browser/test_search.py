"""The search page: what it finds first, from a server and from a file, and how it can be used."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from tests.browser.axe import violations
from tests.browser.fixtures import Tabs
from tests.gate import each_look
from tests.paths import BOOK, HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]

MISSPELT = "transfomer"  # codespell:ignore
# What a newcomer types, and how the address of the right section begins.
FIRST = {
    "padding mask": "06_masking.html#two-masks",
    "RoPE": "08_positions.html#rotary",
    "KV cache": "12_decoding.html#the-cache",
    "warm-up": "11_training.html#the-learning-rate",
    "bpe": "11_training.html#your-own-files",
    MISSPELT: "10_transformer.html#the-transformer",
    "label smoothing": "09_embeddings.html#targets",
    "beam search": "12_decoding.html#beam-search",
    "layer normalization": "07_feed_forward_norm.html#layer-norm",
    "sinusoidal": "08_positions.html#the-naive-version",
    "teacher forcing": "01_seq2seq.html#training",
    "why divide by sqrt(d_k)": "03_attention_layer.html#why-divide",
    "bleu": "12_decoding.html#measures",
    "Causal masks": "06_masking.html#two-masks",
    "residual conection": "07_feed_forward_norm.html#residual-connections",  # codespell:ignore
    "tied embeddings": "09_embeddings.html#one-matrix",
    "head dimension": "05_multi_head.html#what-heads-cost",
    "cross attention": "03_attention_layer.html#self-attention-and-cross-attention",
    "learning rate schedule": "11_training.html#the-learning-rate",
    "quadratic cost": "13_complexity.html#table-1",
    "positonal encodding": "08_positions.html#positional-encodings",  # codespell:ignore
    "what is warmup": "11_training.html#the-learning-rate",
    "softmx": "03_attention_layer.html#one-query",
    "MultiHeadAttention": "05_multi_head.html#all-heads-at-once",
}
RESULTS = ".search-results li"
ADDRESSES = f"() => [...document.querySelectorAll('{RESULTS} a')].map((a) => a.href)"


@pytest.fixture
def search(tabs: Tabs, site: str) -> Iterator[Page]:
    """The search page; a test fails if it wrote an error to the console."""
    tab = tabs.take(1280, 720)
    tab.page.goto(f"{site}/search.html")
    yield tab.page
    assert tab.problems == []
    tabs.give(tab)


def ask(page: Page, question: str) -> list[str]:
    """Ask by the keyboard, and return where the results lead."""
    page.locator(".book-search input").fill(question)
    page.keyboard.press("Enter")
    return page.evaluate(ADDRESSES)


def test_what_is_asked_is_found_first_and_opens_at_its_section(search: Page):
    """All questions on one page: the first result is the right page and the right section."""
    wrong = {}
    for question, place in FIRST.items():
        first = [*ask(search, question), ""][0]
        if not first.split("/book/")[-1].startswith(place):
            wrong[question] = first
    assert wrong == {}


def test_a_result_opens_at_its_heading(search: Page):
    """By the keyboard alone: the first link is the next stop behind the field."""
    ask(search, "padding mask")
    search.keyboard.press("Tab")
    search.keyboard.press("Enter")
    search.wait_for_url("**/06_masking.html#two-masks*")
    search.wait_for_function(
        "() => { const { y } = document.querySelector(':target > h2').getBoundingClientRect();"
        " return 0 <= y && y < 200; }"
    )


@pytest.mark.parametrize("question", ["RoPE", MISSPELT, "why divide by sqrt(d_k)"])
def test_it_works_from_a_file_and_asks_nobody(page: Page, question: str):
    asked, problems = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda m: m.type == "error" and problems.append(m.text))
    page.goto(f"{(HTML / 'search.html').as_uri()}?q={quote(question)}")
    first = page.locator(f"{RESULTS} a").first.evaluate("link => link.href")
    assert FIRST[question] in first
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    found = ask(page, "beam search")
    assert FIRST["beam search"] in found[0]
    page.goto(found[0])
    assert page.locator(":target > h2").count() == 1
    assert problems == []


def test_every_result_leads_to_a_place_that_is_there():
    """Each anchor of the index stands on its page."""
    script = (HTML / "_static" / "search-index.js").read_text(encoding="utf-8")
    data = json.loads(script.removeprefix("window.bookIndex = ").removesuffix(";\n"))
    texts = [(HTML / address).read_text(encoding="utf-8") for address, *_ in data["pages"]]
    lost = [s[:3] for s in data["sections"] if f'id="{s[1]}"' not in texts[s[0]]]
    assert lost == []
    chapters = [address for address, _, chapter in data["pages"] if chapter]
    assert len(chapters) == len(list(BOOK.glob("[0-9]*.ipynb")))


def test_excerpts_are_prose_with_the_words_marked(search: Page):
    for question in ("padding mask", "KV cache", "beam search"):
        ask(search, question)
        texts = search.locator(f"{RESULTS} > p:last-child").all_inner_texts()
        assert all(texts)
        assert not [text for text in texts if "import " in text or ".pdf" in text or "#" in text]
        marked = search.locator(f"{RESULTS}:first-child mark").all_inner_texts()
        assert {word.lower() for word in marked} & set(question.lower().split())
    assert "explains “beam search”" in search.locator(".search-place").first.inner_text()


def test_the_question_stands_in_the_address(search: Page, site: str):
    search.goto(f"{site}/search.html?q=causal+mask")
    assert search.locator(".book-search input").input_value() == "causal mask"
    assert "06_masking" in search.evaluate(ADDRESSES)[0]
    ask(search, "a & b #c? 100%")
    search.reload()
    assert search.locator(".book-search input").input_value() == "a & b #c? 100%"
    ask(search, "")
    assert search.url == f"{site}/search.html"
    assert search.locator(RESULTS).count() == 0
    assert search.locator(".search-examples").is_visible()
    assert search.locator("[role=status]").inner_text() == ""
    assert search.locator(".search-help").is_hidden()


def test_it_answers_while_one_types_and_says_how_much_it_found(search: Page):
    search.locator(".book-search input").press_sequentially("label smoo")
    search.wait_for_selector(f"{RESULTS} a[href*='09_embeddings']")
    status = search.locator("[role=status]")
    assert status.inner_text().endswith("results for “label smoo”.")
    ask(search, MISSPELT)
    assert status.inner_text().endswith(f"for “{MISSPELT}”, read as “transformer”.")
    ask(search, "qqqq zzzz")
    assert status.inner_text() == "Nothing found for “qqqq zzzz”."
    assert search.locator(".search-help a").count() == 2
    assert search.locator(".search-help").is_visible()


def test_an_empty_page_gives_examples(search: Page):
    links = search.locator(".search-examples a")
    questions = links.all_inner_texts()
    assert len(questions) == 3
    links.last.click()
    search.wait_for_selector(RESULTS)
    assert search.locator(".book-search input").input_value() == questions[-1]
    assert search.locator(".search-examples").is_hidden()


def test_more_results_come_by_a_button_that_hands_on_the_focus(search: Page):
    found = ask(search, "attention")
    search.locator(".search-more").press("Enter")
    more = search.evaluate(ADDRESSES)
    assert more[: len(found)] == found
    assert len(more) > len(found)
    assert search.evaluate("document.activeElement.href") == more[len(found)]
    while search.locator(".search-more").is_visible():
        search.locator(".search-more").click()
    count = search.locator(RESULTS).count()
    assert search.locator("[role=status]").inner_text().startswith(f"{count} results")


@pytest.mark.parametrize(
    "question",
    [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(1)</script>",
        "(((+*?[^$|\\",
        "constructor __proto__ toString",
        "“ ” … — \u202e \U0001f600",
        "   ",
        "mask " * 4000,
        "x" * 20000,
    ],
)
def test_no_question_breaks_it(search: Page, site: str, question: str):
    said = []
    search.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    search.goto(f"{site}/search.html?q={quote(question[:4000])}")
    assert search.locator(".book-search :is(img, script)").count() == 0
    search.locator(".book-search input").evaluate(
        "(input, text) => { input.value = text; }", question
    )
    search.locator(".book-search input").press("Enter")
    assert search.evaluate("document.documentElement.scrollWidth") <= 1280
    assert FIRST["bleu"] in ask(search, "bleu")[0]
    assert said == []


def test_the_dialog_of_any_page_leads_to_it(page: Page, site: str):
    page.goto(f"{site}/book/06_masking.html")
    loaded = page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert not [name for name in loaded if "search" in name or "sphinx_highlight" in name]
    page.keyboard.press("Control+k")
    page.keyboard.type("KV cache")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=KV+cache")
    assert FIRST["KV cache"] in page.locator(f"{RESULTS} a").first.evaluate("link => link.href")
    assert page.evaluate("document.activeElement.closest('.book-search') !== null")


def test_sphinxs_own_search_is_gone(search: Page):
    assert not (HTML / "searchindex.js").exists()
    loaded = search.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if "search-index.js" in name]
    assert not [name for name in loaded if "searchtools" in name or "language_data" in name]


def test_the_magnifier_covers_no_letter(search: Page):
    icon = search.locator(".book-search .fa-magnifying-glass").bounding_box()
    field = search.locator(".book-search input").bounding_box()
    assert icon["x"] + icon["width"] <= field["x"] + 0.5


@each_look
@pytest.mark.parametrize("question", ["padding mask", "qqqq"])
def test_results_are_accessible_and_fit(
    tabs: Tabs, site: str, theme: str, width: int, question: str
):
    tab = tabs.take(width, 900)
    tab.page.emulate_media(color_scheme=theme)
    tab.page.goto(f"{site}/search.html?q={question}")
    tab.page.wait_for_function(
        "(theme) => document.documentElement.dataset.theme === theme", arg=theme
    )
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.problems == []  # before axe, which fetches style sheets on its own account
    assert violations(tab.page, whole=theme == "light") == []
    tabs.give(tab)


def test_without_scripts_it_says_what_to_do(tabs: Tabs, site: str):
    context = tabs.browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{site}/search.html")
        text = page.locator(".book-search").inner_text()
        assert "Searching needs JavaScript" in text
        assert page.locator(".book-search input").is_hidden()
        page.locator(".book-search a", has_text="index").first.click()
        page.wait_for_url("**/book/genindex.html")
    finally:
        context.close()


def test_paper_shows_the_results_alone(search: Page):
    ask(search, "padding mask")
    search.emulate_media(media="print")
    assert search.locator(".book-search form").is_hidden()
    assert search.locator(".search-more").is_hidden()
    assert search.locator(RESULTS).first.is_visible()
