"""The beam explorer: its search is the library's, and the keyboard walks through its tree."""

import pytest
import torch
from playwright.sync_api import expect

from chapters.decoding.beam_explorer import MOST_BEAM, BeamExplorer
from chapters.decoding.tests.samples import ROWS, SAMPLES
from lib.decoding import length_penalty

pytestmark = pytest.mark.browser
RUN = """([data, beam, alpha, maxLength]) => {
  const tree = own.grow(data);
  const run = own.search(tree, beam, alpha, maxLength);
  return { words: own.path(tree, run.best.node).map((i) => tree.tokens[i]), score: run.best.score,
           reason: run.reason, steps: run.steps.length,
           all: own.bestOfAll(tree, alpha, maxLength) };
}"""


def random_rows(seed, depth=4, names="abcd"):
    """A complete table: every beginning of up to `depth` tokens, with odd probabilities."""
    generator = torch.Generator().manual_seed(seed)
    rows, waiting = {}, [()]
    for prefix in waiting:
        last = len(prefix) == depth
        words = ["<eos>"] if last else [*names, "<eos>"]
        p = torch.rand(len(words), generator=generator) ** 2 + 0.01
        rows[prefix] = dict(zip(words, (p / p.sum()).tolist(), strict=True))
        waiting += [] if last else [(*prefix, name) for name in names]
    return rows


@pytest.fixture
def functions(stage):
    return stage.functions(SAMPLES["beam_explorer"]())


@pytest.mark.parametrize("seed", range(3))
def test_search_is_that_of_the_library(functions, seed):
    widget = BeamExplorer({"random": random_rows(seed), "sample": ROWS}, max_length=5)
    for example in range(2):
        data = widget.examples[example]
        for beam in range(1, MOST_BEAM + 1):
            for alpha in (0, 0.35, 0.6, 1, 2):
                got = functions.evaluate(RUN, [data, beam, alpha, 5])
                words, score = widget.found(example, beam, alpha)
                assert got["words"] == words
                assert got["score"] == pytest.approx(score, abs=2e-3)


@pytest.mark.parametrize("max_length", [2, 3])
def test_search_that_is_cut_off_is_that_of_the_library(functions, max_length):
    rows = {("x",) * n: {"x": 0.9, "y": 0.08, "<eos>": 0.02} for n in range(5)}
    rows |= {(*("x",) * n, "y"): {"y": 1.0} for n in range(5)}
    rows |= {(*("x",) * n, *("y",) * m): {"y": 1.0} for n in range(5) for m in range(1, 5)}
    widget = BeamExplorer({"long": rows}, max_length=max_length)
    for beam in range(1, MOST_BEAM + 1):
        got = functions.evaluate(RUN, [widget.examples[0], beam, 0.6, max_length])
        words, score = widget.found(0, beam, 0.6)
        assert got["words"] == words
        assert got["score"] == pytest.approx(score, abs=2e-3)
        assert got["reason"] == "length" or beam > 1


def test_penalty_and_the_best_of_all(functions):
    for length in (1, 7, 30):
        for alpha in (0, 0.6, 2.0):
            got = functions.evaluate("([n, a]) => own.penalty(n, a)", [length, alpha])
            assert got == pytest.approx(length_penalty(length, float(alpha)))
    widget = BeamExplorer({"sample": ROWS})
    for alpha in (0, 0.6, 2):
        got = functions.evaluate(RUN, [widget.examples[0], 5, alpha, 30])
        assert got["all"]["score"] >= got["score"] - 1e-9


def set_slider(page, name, value):
    slider = page.get_by_role("slider", name=name)
    slider.evaluate("(n, v) => { n.value = v; n.dispatchEvent(new Event('input')); }", value)


def found(page):
    return page.locator(".be-table .be-first th").inner_text().removeprefix("✓ ")


def test_beam_and_penalty_are_live(stage):
    widget = SAMPLES["beam_explorer"]()
    page = stage.show(widget)
    for beam in range(1, MOST_BEAM + 1):
        for alpha in (0, 0.5, 1.5):
            set_slider(page, "Beam", beam)
            set_slider(page, "Length penalty α", alpha)
            words, score = widget.found(0, beam, alpha)
            assert found(page) == " ".join(words)
            shown = page.locator(".be-table .be-first td").last.inner_text()
            assert float(shown.replace("−", "-")) == pytest.approx(score, abs=0.006)


def statuses(page):
    nodes = page.locator(".be-node").evaluate_all(
        "(all) => all.map((n) => [n.children[0].textContent, n.className.split(' ')[1]])"
    )
    return [(token.strip(), kind.removeprefix("be-")) for token, kind in nodes]


def test_tree_shows_what_is_kept_pruned_and_ended(stage):
    page = stage.show(BeamExplorer({"sample": ROWS}, beam=2, alpha=0, step=1))
    assert statuses(page) == [("no", "open"), ("yes", "open"), ("<b> ✗", "pruned")]
    expect(page.locator(".be-none")).to_be_visible()
    set_slider(page, "Step", 2)
    # 0.24 yes <eos>, 0.225 no <eos>, then 0.16 yes yes, 0.135 no no, 0.09 no yes
    assert statuses(page) == [
        ("no", "kept"),
        ("<eos> ✓", "ended"),
        ("no ✗", "pruned"),
        ("yes ✗", "pruned"),
        ("yes", "kept"),
        ("<eos> ✓", "ended"),
        ("yes ✗", "pruned"),
    ]
    assert found(page) == "yes <eos>"
    expect(page.locator(".be-reason")).to_contain_text("every hypothesis of the beam has ended")
    expect(page.locator(".be-verdict")).to_contain_text("✓ No sentence in the table has a better")
    page.get_by_role("checkbox").check()
    assert ("<b> ✗", "pruned") in statuses(page)


def test_it_says_what_it_missed_and_when_it_stopped_early(stage):
    page = stage.show(BeamExplorer({"sample": ROWS}, beam=1, alpha=0))
    expect(page.locator(".be-verdict")).to_contain_text("✗ The table holds a better one: yes <eos>")
    set_slider(page, "Beam", 5)
    expect(page.locator(".be-reason")).to_contain_text("Stopped early after step 2")
    set_slider(page, "Length penalty α", 2)
    expect(page.locator(".be-verdict")).to_contain_text("✓")
    assert found(page) == "yes yes no <eos>"


def test_keyboard_walks_through_the_tree(stage):
    page = stage.show(BeamExplorer({"sample": ROWS}, beam=2, alpha=0))
    tree = page.get_by_role("tree", name="Search tree after step 2")
    expect(tree.get_by_role("treeitem")).to_have_count(7)
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("Tab")  # the best sentence's end
    focused = page.locator("[role=treeitem]:focus")
    expect(focused).to_have_attribute(
        "aria-label", "<eos>, ended, log p −1.43, on the way to the best"
    )
    for key, start in (
        ("ArrowLeft", "yes, kept"),
        ("ArrowRight", "<eos>, ended"),
        ("ArrowDown", "yes, pruned"),
        ("Home", "no, kept"),
        ("ArrowDown", "<eos>, ended, log p −1.49"),
        ("End", "yes, pruned, log p −1.83"),
        ("ArrowDown", "yes, pruned, log p −1.83"),
    ):
        page.keyboard.press(key)
        assert focused.get_attribute("aria-label").startswith(start), key
    expect(page.locator(".be-detail")).to_have_text(
        "yes yes: pruned. log p = − 0.92 − 0.92 = −1.83."
    )
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    page.locator(".be-node").first.click()
    expect(page.locator(".be-detail")).to_contain_text("no: kept.")
    assert stage.violations(page) == []


def test_tables_can_be_changed_and_tokens_are_text(stage):
    other = {(): {"x": 0.9, "<eos>": 0.1}, ("x",): {"<eos>": 1.0}}
    page = stage.show(BeamExplorer({"sample": ROWS, "other <i>": other}))
    page.get_by_role("combobox").select_option("1")
    assert found(page) == "x <eos>"
    page.get_by_role("combobox").select_option("0")
    set_slider(page, "Step", 1)
    expect(page.locator(".be-token").last).to_have_text("<b> ✗")


def test_bad_state_in_the_address_is_ignored(stage):
    query = "?beam_explorer.beam=9&beam_explorer.alpha=-1&beam_explorer.step=0"
    page = stage.show(SAMPLES["beam_explorer"](), query=query)
    expect(page.get_by_role("slider", name="Beam")).to_have_value("2")
    page = stage.show(
        SAMPLES["beam_explorer"](), query="?beam_explorer.beam=1&beam_explorer.alpha=0"
    )
    assert found(page) == "no <eos>"
