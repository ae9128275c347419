"""The self-attention explorer: every number against the library, every control by its effect."""

import math
import re

import pytest
import torch
from playwright.sync_api import expect

from chapters.self_attention.self_attention_explorer import SelfAttentionExplorer
from lib.attention import attention_weights, scaled_dot_product_attention
from lib.masks import causal_mask
from lib.positions import sinusoidal_table
from tasks.bat import FEATURES, SENTENCE, matrices, vectors_of
from tasks.bat import WORDS as BAT
from tests.gate import each_look

pytestmark = pytest.mark.browser
WORDS = {
    "red": [1.0, 0.5, -0.75],
    "fox": [-0.25, 1.5, 0.125],
    "runs": [0.0, -1.0, 2.0],
    "away": [0.375, 0.25, 1.0],
}


def numbers(page, caption: str) -> torch.Tensor:
    """A map as shown: two digits; NaN where it is masked."""
    rows = page.locator(f"table:has(caption:text-is('{caption}')) tbody tr")
    texts = rows.evaluate_all(
        "(rows) => rows.map((row) =>"
        "  [...row.querySelectorAll('td')].map((td) => td.innerText.trim()))"
    )
    return torch.tensor([[math.nan if t == "masked" else float(t) for t in row] for row in texts])


def expected(sentence: str, words=WORDS, *, scaled=False, causal=False, positions=False):
    x = torch.tensor([words[word] for word in sentence.split()], dtype=torch.float64)
    time, width = x.shape
    if positions:
        x = x + sinusoidal_table(time, width, dtype=torch.float64)
    mask = causal_mask(time) if causal else torch.ones(time, time, dtype=torch.bool)
    query = x if scaled else x * width**0.5  # the library always divides
    weights = attention_weights(query, x, mask)
    output = weights @ x
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


def test_with_its_matrices_it_shows_the_numbers_of_the_example(stage):
    """The three maps, the arithmetic and the names of the features; and without the matrices."""
    x, projections = vectors_of(), matrices()
    known = {word: [float(n) for n in row] for word, row in BAT.items()}
    start = {"projections": projections, "projected": True, "features": FEATURES}
    page = stage.show(
        SelfAttentionExplorer(known, " ".join(SENTENCE), scaled=True, key=4, entry=1, **start)
    )
    query, key, value = (x @ w for w in projections)
    weights = attention_weights(query, key)
    for caption, wanted in (
        ("Scores", query @ key.T / 2),
        ("Weights", weights),
        ("Outputs", weights @ value),
    ):
        shown = numbers(page, caption)
        torch.testing.assert_close(shown, wanted.float(), atol=0.0051, rtol=0.0, msg=caption)
    spelt = read_lines(page)
    assert "(8·1 + 0·0 + 0·0 + 0·1) / √4 = 4.0000" in spelt.values()
    assert "Output of bat, equipment" in spelt
    page.get_by_label("Use W^Q, W^K and W^V").uncheck()
    plain = numbers(page, "Weights")
    torch.testing.assert_close(plain, attention_weights(x, x).float(), atol=0.0051, rtol=0.0)
    note = page.get_by_text("Random vectors serve as queries, keys and values themselves")
    expect(note).to_be_hidden()
    page.get_by_role("radio", name="Random").check()
    expect(page.get_by_label("Use W^Q, W^K and W^V")).to_be_hidden()
    expect(note).to_be_visible()


def test_features_with_names_are_not_mixed_with_positions(stage):
    known = {word: [float(n) for n in row] for word, row in BAT.items()}
    page = stage.show(
        SelfAttentionExplorer(known, "bat bites man", features=FEATURES, scaled=True),
        query="?self_attention_explorer.positions=true",
    )
    expect(page.get_by_label("Add positions")).to_be_hidden()
    assert_shown(page, "bat bites man", known, scaled=True)
    page.get_by_role("radio", name="Random").check()
    expect(page.get_by_label("Add positions")).to_be_checked()


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
    page.get_by_label("Divide by √dimension").check()
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


def calculated(text: str) -> float:
    """What a pencil gets from the numbers of a line."""
    text = re.sub(r" \(the .* smaller terms\)", "", text)
    text = re.sub(r"√(\d+)", r"math.sqrt(\1)", text)
    for shown, python in ("−", "-"), ("·", "*"), ("exp", "math.exp"):
        text = text.replace(shown, python)
    return eval(text, {"math": math})


@pytest.mark.parametrize(
    "widget",
    [
        SelfAttentionExplorer(WORDS, "red fox runs fox", query=1, key=2),
        SelfAttentionExplorer(WORDS, "red fox away", scaled=True, positions=True, entry=1),
        SelfAttentionExplorer(WORDS, "red", random=(13, 16), seed=3, query=2, key=2),
        SelfAttentionExplorer(WORDS, "red", random=(7, 512), spread=0.2, key=5, scaled=True),
    ],
    ids=["plain", "positions", "random", "largest"],
)
def test_an_equals_sign_stands_where_the_shown_numbers_give_the_shown_result(stage, widget):
    page = stage.show(widget)
    lines = list(read_lines(page).values())
    assert len(lines) == 3
    for line in lines:
        *_, left, sign, right = re.split(r" ([=≈]) ", line)
        number = calculated(right)
        assert calculated(left) == pytest.approx(number, abs=2e-3)
        assert (sign == "=") == (f"{calculated(left):.4f}" == f"{number:.4f}"), line
    exponential, ratio, _ = re.split(r" [=≈] ", lines[1])
    from_score = calculated(exponential.removesuffix(" / sum over the row"))
    assert from_score == pytest.approx(calculated(ratio.split(" / ")[0]), rel=1e-4, abs=1e-4)


def test_scale_says_where_a_map_goes_below_zero(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    scales = page.locator(".bw-scale")
    assert [min(values.flatten()) < 0 for values in expected("red fox runs")] == [True, False, True]
    expect(scales).to_have_text([re.compile(f"^{low}\\d") for low in ("≤ 0", "0", "≤ 0")])
    page.get_by_label("Sentence").fill("red")
    expect(scales.first).to_have_text(re.compile(r"^0\d"))


# --- by the keyboard --------------------------------------------------------------------------


def read_lines(page) -> dict[str, str]:
    """The arithmetic as shown: what is spelt out, and the text."""
    terms, texts = (page.locator(f".sa-lines {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(terms, texts, strict=True))


def dashed(value: float) -> str:
    """The end of a line of the arithmetic."""
    return f" {value:.4f}".replace("-", "−")


def test_each_map_is_one_stop_of_the_tab_key(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs", query=1, key=2, entry=1))
    expect(page.get_by_role("grid")).to_have_count(3)
    expect(page.locator("td[tabindex='0']")).to_have_count(3)
    page.get_by_label("Key (column)").focus()
    titles = []
    for _ in range(3):
        page.keyboard.press("Tab")
        titles.append(page.evaluate("document.activeElement.title"))
    scores, weights, output = expected("red fox runs")
    assert titles == [
        f"fox → runs: {scores[1, 2]:.2f}",
        f"fox → runs: {weights[1, 2]:.2f}",
        f"fox → 2: {output[1, 1]:.2f}",
    ], "a map is entered where the reader left it"
    page.keyboard.press("Tab")
    expect(page.get_by_label("Entry 1")).to_be_focused()


def test_every_number_is_spelt_out_by_the_keyboard_alone(stage):
    """A walk through all cells of the three maps reads the same arithmetic as a pointer does."""
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs fox"))
    scores, weights, output = expected("red fox runs fox")
    page.get_by_label("Key (column)").focus()
    for which, values in enumerate((scores, weights, output)):
        page.keyboard.press("Tab")
        page.keyboard.press("Control+Home")
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                by_key = read_lines(page)
                shown = float(list(by_key.values())[which].split(" ")[-1].replace("−", "-"))
                assert shown == pytest.approx(value.item(), abs=6e-5), (which, i, j)
                cell = page.locator(".bw-map").nth(which).locator("tbody tr").nth(i).locator("td")
                if i == j:  # the pointer over another cell, and back
                    cell.nth(2 - i % 2).hover()
                    cell.nth(j).hover()
                    assert read_lines(page) == by_key
                    page.mouse.move(1, 1)
                page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Home")


def test_screen_reader_hears_the_arithmetic_of_the_cell(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    grid = page.get_by_role("grid", name="Outputs")
    grid.locator("td[tabindex='0']").focus()
    page.keyboard.press("Control+End")
    output = expected("red fox runs")[2]
    status = page.get_by_role("status")
    expect(status).to_contain_text("Output of runs, entry 3: ")
    expect(status).to_contain_text(dashed(output[2, 2]))
    expect(grid.locator("td:focus")).to_have_text(f"{output[2, 2]:.2f}")
    assert stage.violations(page) == []


def test_enter_keeps_a_cell_and_escape_or_leaving_lets_go(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    start = read_lines(page)
    page.get_by_label("Key (column)").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    walked = read_lines(page)
    assert "Score, fox → runs" in walked
    expect(page.get_by_label("Query (row)")).to_have_value("0")  # reading changes nothing
    page.keyboard.press("Escape")
    assert read_lines(page) == start
    expect(page.locator("td:focus")).to_have_attribute("title", "red → red: 1.81")
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert read_lines(page) == start, "once the focus has left, the chosen pair is back"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.get_by_label("Key (column)").focus()
    assert "Output of red, entry 3" in read_lines(page)
    page.get_by_role("grid", name="Weights").locator("td[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(page.get_by_label("Query (row)")).to_have_value("1")
    expect(page.get_by_label("Key (column)")).to_have_value("1")


# --- up to 64 tokens of 512 numbers -----------------------------------------------------------


def drawn(page, tokens: int, width: int, spread: float, seed: int) -> torch.Tensor:
    """The vectors as the shared generator draws them."""
    rows = page.evaluate(
        "([n, width, seed]) => { const draw = bookWidgets.shared.$math.normal(seed);"
        " return Array.from({ length: n }, () => Array.from({ length: 512 }, draw)"
        ".slice(0, width)); }",
        [tokens, width, seed],
    )
    return spread * torch.tensor(rows, dtype=torch.float64)


def large(page, caption: str):
    return page.get_by_role("grid", name=caption)


@pytest.mark.parametrize(("tokens", "width"), [(64, 512), (37, 8), (13, 128)])
def test_large_maps_hold_the_librarys_numbers(stage, tokens, width):
    widget = SelfAttentionExplorer(
        WORDS, "red", random=(tokens, width), spread=0.3, seed=7, scaled=True, causal=True
    )
    page = stage.show(widget)
    x = drawn(page, tokens, width, 0.3, 7)
    weights = attention_weights(x, x, causal_mask(tokens))
    output = weights @ x
    choose = torch.Generator().manual_seed(tokens)
    for _ in range(5):
        i = torch.randint(1, tokens, (), generator=choose).item()
        j = torch.randint(0, i, (), generator=choose).item()
        k = torch.randint(0, width, (), generator=choose).item()
        page.evaluate(
            "([query, key, entry]) => { const url = new URL(location.href);"
            " for (const [name, value] of Object.entries({ query, key, entry }))"
            "   url.searchParams.set(`self_attention_explorer.${name}`, value);"
            " history.replaceState(null, '', url); }",
            [i, j, k],
        )
        page.reload()
        page.wait_for_selector(".bw")
        texts = list(read_lines(page).values())
        assert dashed((x[i] @ x[j]) / width**0.5) in texts[0]
        assert dashed(weights[i, j]) in texts[1]
        assert dashed(output[i, k]) in texts[2]
        cell = large(page, "Weights").get_by_role("gridcell")
        expect(cell).to_have_attribute("aria-label", f"t{i} → t{j}: {weights[i, j]:.2f}")


def test_large_map_is_walked_by_the_keyboard(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red", random=(64, 512), spread=0.2))
    x = drawn(page, 64, 512, 0.2, 0)
    output = scaled_dot_product_attention(x * 512**0.5, x, x)
    page.get_by_label("Key (column)").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    grid = large(page, "Outputs")
    expect(grid.locator(":focus")).to_have_count(1)
    assert (grid.get_attribute("aria-rowcount"), grid.get_attribute("aria-colcount")) == (
        "64",
        "512",
    )
    for key in ("PageDown", "ArrowDown", "ArrowDown", "End", "ArrowLeft"):
        page.keyboard.press(key)
    cell = grid.locator("[role=gridcell]:focus")
    expect(cell).to_have_attribute("aria-label", f"t10 → 511: {output[10, 510]:.2f}")
    expect(cell).to_have_attribute("aria-colindex", "511")
    expect(grid.get_by_role("row")).to_have_attribute("aria-rowindex", "11")
    assert dashed(output[10, 510]) in read_lines(page)["Output of t10, entry 511"]
    box, view = cell.bounding_box(), page.locator(".bw").bounding_box()
    assert view["x"] < box["x"] < view["x"] + view["width"], "the cell is scrolled into view"
    expect(page.get_by_role("status")).to_contain_text("Output of t10, entry 511")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Query (row)")).to_have_attribute("aria-valuetext", "t10")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Escape")
    expect(grid.locator("[role=gridcell]:focus")).to_have_attribute("aria-colindex", "511")
    assert stage.violations(page) == []


def test_pointer_reads_and_picks_in_a_large_map(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red", random=(32, 16)))
    body = large(page, "Scores").locator(".bw-raster-body")
    box = body.bounding_box()
    spot = {"x": box["width"] * 20.5 / 32, "y": box["height"] * 5.5 / 32}
    body.hover(position=spot)
    assert "Score, t5 → t20" in read_lines(page)
    page.mouse.move(1, 1)
    assert "Score, t0 → t0" in read_lines(page)
    body.click(position=spot)
    expect(page.get_by_label("Query (row)")).to_have_value("5")
    expect(page.get_by_label("Key (column)")).to_have_value("20")


def test_picture_shows_the_weights_in_the_shades_of_the_tables(stage):
    """The pixels rise with the weights, masked ones are clear, and the theme repaints them."""
    page = stage.show(SelfAttentionExplorer(WORDS, "red", random=(40, 4), causal=True))
    pixels = """(canvas) => { const { width, height } = canvas;
      return [...canvas.getContext("2d").getImageData(0, 0, width, height).data]; }"""
    canvas = large(page, "Weights").locator("canvas")
    page.wait_for_timeout(100)
    x = drawn(page, 40, 4, 1.0, 0)
    weights = attention_weights(x * 2, x, causal_mask(40))
    light = torch.tensor(canvas.evaluate(pixels)).view(40, 40, 4)
    assert ((light[..., 3] == 255) == causal_mask(40)).all()
    seen = light[..., 1][causal_mask(40)].float()  # the green of #edf3f9 falls to that of #002a55
    share = weights[causal_mask(40)].float()
    order = share.argsort()
    assert (seen[order].diff()[share[order].diff() > 1 / 64] <= 0).all()
    assert seen.max() == 0xF3
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(200)
    dark = torch.tensor(canvas.evaluate(pixels)).view(40, 40, 4)
    assert dark[39, 0, 0] != light[39, 0, 0]
    assert dark[..., 1][causal_mask(40)].min() == 0x2A


def test_sizes_change_in_the_page_and_the_sentence_comes_back(stage):
    page = stage.show(SelfAttentionExplorer(WORDS, "red fox runs"))
    expect(page.get_by_label("Tokens")).to_be_hidden()
    page.get_by_role("radio", name="Random").check()
    expect(page.get_by_role("textbox", name="Sentence")).to_be_hidden()
    page.get_by_label("Tokens").press("End")
    page.get_by_role("slider", name="Dimension").press("End")
    assert large(page, "Outputs").get_attribute("aria-colcount") == "512"
    before = read_lines(page)
    page.get_by_label("Draw").press("ArrowRight")
    assert read_lines(page) != before
    page.get_by_label("Tokens").press("Home")
    expect(page.locator(".bw-map").first.locator("tbody td")).to_have_count(1)
    page.get_by_role("radio", name="Known words").check()
    assert_shown(page, "red fox runs")


@each_look
def test_largest_is_accessible_and_fits(stage, theme, width):
    widget = SelfAttentionExplorer(WORDS, "red", random=(64, 512), causal=True)
    page = stage.show(widget, theme=theme, width=width)
    assert stage.violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_long_sentence_of_known_words_is_a_picture_too(stage):
    sentence = " ".join(["red", "fox", "runs", "away"] * 16)
    page = stage.show(SelfAttentionExplorer(WORDS, sentence, query=63, key=62))
    _, weights, _ = expected(sentence)
    cell = large(page, "Weights").get_by_role("gridcell")
    expect(cell).to_have_attribute("aria-label", f"away → runs: {weights[63, 62]:.2f}")
