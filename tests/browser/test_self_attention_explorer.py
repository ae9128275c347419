"""The self-attention explorer: every number against the library, every control by its effect."""

import math

import pytest
import torch

from lib.attention import scaled_dot_product_attention
from lib.masks import causal_mask
from lib.positions import sinusoidal_table
from lib.widgets.self_attention_explorer import SelfAttentionExplorer

pytestmark = pytest.mark.browser
WORDS = {
    "red": [1.0, 0.5, -0.75],
    "fox": [-0.25, 1.5, 0.125],
    "runs": [0.0, -1.0, 2.0],
    "away": [0.375, 0.25, 1.0],
}


def numbers(page, caption: str) -> torch.Tensor:
    """A map as shown: two digits; NaN where it is masked."""
    rows = page.locator(f"table:has(caption:text-is('{caption}')) tbody tr").all()
    texts = [[cell.inner_text().strip() for cell in row.locator("td").all()] for row in rows]
    return torch.tensor([[math.nan if t == "masked" else float(t) for t in row] for row in texts])


def expected(sentence: str, words=WORDS, *, scaled=False, causal=False, positions=False):
    x = torch.tensor([words[word] for word in sentence.split()], dtype=torch.float64)
    time, width = x.shape
    if positions:
        x = x + sinusoidal_table(time, width, dtype=torch.float64)
    mask = causal_mask(time) if causal else torch.ones(time, time, dtype=torch.bool)
    query = x if scaled else x * width**0.5  # the library always divides
    output, weights = scaled_dot_product_attention(query, x, x, mask, return_weights=True)
    scores = (x @ x.T) / (width**0.5 if scaled else 1.0)
    return scores.masked_fill(~mask, math.nan), weights.masked_fill(~mask, math.nan), output


def assert_shown(page, *arguments, **settings):
    wanted = dict(
        zip(("Scores", "Weights", "Outputs"), expected(*arguments, **settings), strict=True)
    )
    for caption, values in wanted.items():
        shown = numbers(page, caption)
        torch.testing.assert_close(
            shown, values.float(), atol=0.0051, rtol=0.0, equal_nan=True, msg=caption
        )


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("sentence", ["red fox runs fox", "away"])
def test_every_number_is_the_librarys(stage, sentence, scaled, causal, positions):
    settings = {"scaled": scaled, "causal": causal, "positions": positions}
    page = stage.show(SelfAttentionExplorer(WORDS, sentence, **settings))
    assert_shown(page, sentence, **settings)


def test_toggles_and_typing_change_the_numbers(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    page.get_by_label("Sentence").fill("away runs red red")
    page.get_by_label("Add positions").check()
    page.get_by_label("Causal mask").check()
    page.get_by_label("Divide by √width").check()
    assert_shown(page, "away runs red red", scaled=True, causal=True, positions=True)


def test_an_unknown_word_is_named_and_the_last_sentence_stays(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    page.get_by_label("Sentence").fill("red cat")
    assert "got cat" in page.locator(".bw-problem").inner_text()
    assert_shown(page, "red fox runs")


def test_editing_an_embedding_changes_it_wherever_the_word_stands(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "fox red fox", query=2))
    page.get_by_label("Entry 2").press("ArrowRight")
    assert_shown(page, "fox red fox", {**WORDS, "fox": [-0.25, 1.501, 0.125]})
    assert page.evaluate("bookWidgets !== undefined")


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("fox=1,1,1", {"fox": [1.0, 1.0, 1.0]}),
        ("fox=1,1", {}),  # too few
        ("fox=1,1,9", {}),  # out of range
        ("cat=1,1,1", {}),  # not known
        ("fox", {}),
    ],
)
def test_an_address_edits_only_what_fits(stage, query, held):
    widget = SelfAttentionExplorer(WORDS, "red fox runs")
    page = stage.show(widget, query=f"?self_attention_explorer.edited={query}")
    assert_shown(page, "red fox runs", {**WORDS, **held})


def test_arithmetic_follows_sliders_and_pointer(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    scores = expected("red fox runs")[0]
    lines = page.locator(".sa-lines")
    page.get_by_label("Key (column)").press("End")
    assert f"= {scores[0, 2]:.4f}".replace("-", "−") in lines.inner_text()
    cell = page.locator("table:has(caption:text-is('Scores')) tbody tr").nth(2).locator("td").nth(1)
    cell.hover()
    assert f"= {scores[2, 1]:.4f}".replace("-", "−") in lines.inner_text()
    assert "Score, runs → fox" in lines.inner_text()


def test_a_masked_score_says_so(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox", causal=True, key=1))
    assert "masked" in page.locator(".sa-lines").inner_text()
