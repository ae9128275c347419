"""What models write without a part, in a browser: the marks, the figures, what loads on request."""

import gzip
import json
import re

import pytest
from playwright.sync_api import Page, expect

from chapters.transformer.tests.samples import PAIRS, WROTE, written
from chapters.transformer.written_without import WrittenWithout

pytestmark = pytest.mark.browser
LIMIT = 60_000  # bytes of the record as a page loads it, packed with gzip
SOURCES = [*PAIRS]


def widget(part: str = "positions", **start) -> WrittenWithout:
    return WrittenWithout(part, record=written(), **start)


def lines(page: Page) -> list[list[str]]:
    """Of each sentence the four lines, without what is for screen readers alone."""
    return page.locator(".ww-list > li").evaluate_all(
        """(all) => all.map((li) => [...li.querySelectorAll(".ww-text")].map((one) => {
          const copy = one.cloneNode(true);
          for (const hidden of copy.querySelectorAll(".bw-hidden")) hidden.remove();
          return copy.textContent.trim();
        }))"""
    )


def said(page: Page, line: int) -> list[str]:
    """What a model writes: line 2 is the whole one's, line 3 the other's."""
    return [
        re.sub(r" ?(· .*|✓ .*)$", "", one[line]).replace("‸ ", "").strip() for one in lines(page)
    ]


def test_both_models_stand_below_what_is_right(stage):
    page = stage.show(widget())
    assert [one[:2] for one in lines(page)] == [list(pair) for pair in PAIRS.items()]
    assert said(page, 2) == WROTE["nothing", 0]
    assert said(page, 3) == WROTE["positions", 0]
    assert page.evaluate("() => window.bookRecords === undefined"), "nothing is loaded before"
    third = page.locator(".ww-list > li").nth(2).locator(".ww-text")
    expect(third.nth(2).locator("mark")).to_have_text(["sit"])
    expect(third.nth(2).locator(".ww-gap")).to_have_text("‸(left out: small)")
    expect(third.nth(2).locator(".ww-count")).to_have_text("· 1 other word, 1 left out")
    expect(page.locator(".ww-text[lang=de]").first).to_have_text(SOURCES[0])
    style = third.locator("mark").first.evaluate(
        "(node) => [getComputedStyle(node).textDecorationLine, getComputedStyle(node).fontWeight]"
    )
    assert style == ["underline", "600"], "not by colour alone"


def test_the_figures_are_those_of_the_seeds(stage):
    page = stage.show(widget())
    bars = page.locator(".ww-bleu li")
    bleu = {run["part"]: [] for run in written()["runs"]}
    for run in written()["runs"]:
        bleu[run["part"]].append(run["bleu"])
    expect(bars).to_have_count(2)
    for bar, (part, name) in zip(
        bars.all(),
        (("nothing", "the whole model"), ("positions", "without positions")),
        strict=True,
    ):
        values = bleu[part]
        expect(bar).to_contain_text(name)
        expect(bar).to_contain_text(" and ".join(f"{value:.1f}" for value in values))
        expect(bar.locator(".bw-bar-value")).to_have_text(f"{sum(values) / len(values):.1f}")


def test_a_model_of_one_head_is_called_so(stage):
    page = stage.show(WrittenWithout("heads"))
    expect(page.locator(".ww-bleu li").nth(1)).to_contain_text("with one head alone")


@pytest.mark.parametrize(
    ("text", "told"),
    [("a dog .", "Whatever it reads, it writes the same."), ("", "It always ends at once.")],
)
def test_one_answer_to_everything_is_said_to_be_one(stage, text, told):
    record = written()
    for one in record["runs"]:
        if one["part"] == "positions":
            one["said"] = [text] * len(PAIRS)
    page = stage.show(WrittenWithout("positions", record=record))
    expect(page.locator(".ww-look")).to_contain_text(told)


def test_what_there_is_to_notice_is_counted(stage):
    page = stage.show(widget())
    look = page.locator(".ww-look")
    expect(look).to_have_text(
        "The right English has 20 words. The whole model gets 13 of them in order, the other "
        'model 9. (Words such as "a" and "in" count too, so even nonsense gets a few.) In one of '
        "these sentences both write the same. It has only two different translations for the "
        "three sentences. In two of these sentences it has the words of the whole "
        "model, or the right ones, in another order."
    )
    page.get_by_label("Sentence", exact=True).select_option("2")
    expect(page.locator(".ww-list > li")).to_have_count(1)
    expect(look).to_contain_text(
        "It has the words of the whole model, or the right ones, in another"
    )
    expect(look).to_contain_text("Other words can be right too")
    expect(look).not_to_contain_text("The right English has")


@pytest.mark.parametrize("via", ["http", "file"])
def test_another_model_comes_on_request(stage, via):
    page = stage.show(widget(), via=via)
    page.get_by_label("1", exact=True).check(force=True)
    expect(page.locator(".ww-list > li").first.locator(".ww-text").nth(3)).to_contain_text(
        "a cat is chasing"
    )
    expect(page.locator(".ww-list > li").first.locator(".ww-count").last).to_have_text(
        "· the right words in another order"
    )
    assert said(page, 2) == WROTE["nothing", 1]
    assert said(page, 3) == WROTE["positions", 1]
    page.get_by_label("0", exact=True).check(force=True)
    page.get_by_label("Trained without").select_option("norms")
    expect(page.locator(".ww-list > li").nth(1)).to_contain_text("(it ends at once)")
    expect(page.get_by_label("1", exact=True)).to_be_disabled()
    expect(page.locator(".ww-look")).to_contain_text(
        "In one of these sentences it says something twice"
    )
    expect(page.locator(".ww-list > li").nth(2)).to_contain_text("✓ as the right one")
    page.get_by_role("button", name="Reset").click()
    assert said(page, 3) == WROTE["positions", 0]
    assert stage.violations(page) == []


def test_a_link_opens_another_model(stage):
    query = "?written_without.part=norms&written_without.sentence=1"
    page = stage.show(widget(), query=query)
    expect(page.locator(".ww-list > li")).to_have_count(1)
    expect(page.locator(".ww-text").nth(3)).to_contain_text("a dog dog is chasing")
    expect(page.get_by_role("link", name="Chapter 7 builds this part")).to_have_attribute(
        "href", "07_feed_forward_norm.html"
    )


def test_a_model_that_there_is_not_is_said(stage):
    page = stage.show(widget(), query="?written_without.part=norms&written_without.seed=1")
    expect(page.locator(".ww-missing")).to_have_text(
        "There is no model without the layer norms of seed 1."
    )
    expect(page.locator(".ww-look")).to_be_hidden()
    expect(page.get_by_role("button", name="Try again")).to_be_hidden()


def test_texts_that_do_not_come_are_said_and_asked_for_again(stage):
    one = widget()
    page = stage.show(one)
    page.route(
        "**/records/*.js", lambda route: route.fulfill(body="", content_type="text/javascript")
    )
    page.get_by_label("Trained without").select_option("norms")
    expect(page.locator(".ww-missing")).to_have_text(
        "✗ The sentences did not load. Try again when you are online."
    )
    assert said(page, 2) == WROTE["nothing", 0], "what is there stays"
    page.unroute("**/records/*.js")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".ww-list > li").nth(2)).to_contain_text("✓ as the right one")
    expect(page.locator(".ww-missing")).to_be_hidden()


def test_a_notebook_asks_its_kernel(stage):
    one = widget()
    page = stage.show(one, via="module")
    page.get_by_label("Trained without").select_option("norms")
    expect(page.locator(".ww-missing")).to_contain_text("There is no kernel to ask")
    texts = one._record.texts
    page.evaluate(
        """(record) => { window.model.send = (message) => {
          window.asked = message;
          window.model.answer({ id: message.id, record });
        };
        const calls = [];
        const { on, off } = window.model;
        window.model.on = (event, f) => (event === "msg:custom" ? calls.push(f) : on(event, f));
        window.model.off = (event, f) => event !== "msg:custom" && off(event, f);
        window.model.answer = (answer) => setTimeout(() => calls.forEach((f) => f(answer, [])), 0);
      }""",
        texts,
    )
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".ww-list > li").nth(2)).to_contain_text("✓ as the right one")
    assert page.evaluate("window.asked.wanted") == one.packed["id"]


def test_a_finger_and_a_narrow_screen_lose_nothing(phone):
    page = phone.show(widget())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(
        """[...document.querySelectorAll(".bw *")].filter((node) =>
          node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0
          && /auto|scroll/.test(getComputedStyle(node).overflowX)).length"""
    ) == 0  # fmt: skip


def test_on_paper_the_two_models_stand_plainly(stage):
    page = stage.show(widget(), theme="dark", width=750)
    page.emulate_media(media="print")
    assert said(page, 3) == WROTE["positions", 0]
    expect(page.locator(".ww-list")).to_be_visible()
    expect(page.get_by_label("Trained without")).to_have_value("positions")
    expect(page.get_by_role("button")).to_have_count(0)


def test_the_parts_of_a_difference(stage):
    page = stage.functions(widget())
    compare = """([words, right]) => window.own.differences(words.split(" ").filter(Boolean),
      right.split(" ")).map(({ kind, text }) => `${kind} ${text}`)"""
    for words, right, wanted in (
        ("a b c", "a b c", ["same a", "same b", "same c"]),
        ("a x c", "a b c", ["same a", "other x", "same c"]),
        ("a c", "a b b c", ["same a", "gap b b", "same c"]),
        ("a b c d", "d a b", ["gap d", "same a", "same b", "other c d"]),
        ("", "a b", ["gap a b"]),
        ("x", "a", ["other x"]),
    ):
        assert page.evaluate(compare, [words, right]) == wanted, (words, right)
    repeats = "(text) => window.own.repeats(text.split(' '))"
    assert [
        page.evaluate(repeats, text) for text in ("a a", "a b a b", "a b c a b c", "a b a")
    ] == [
        True,
        True,
        True,
        False,
    ]
    reordered = "([one, other]) => window.own.reordered(one.split(' '), other.split(' '))"
    for one, other, wanted in (("a b", "b a", True), ("a b", "a b", False), ("a b", "a c", False)):
        assert page.evaluate(reordered, [one, other]) is wanted


def test_the_texts_of_the_record_are_light():
    packed = WrittenWithout()._record
    assert len(gzip.compress(packed.script().encode())) < LIMIT
    assert json.loads(packed.json) == packed.texts
