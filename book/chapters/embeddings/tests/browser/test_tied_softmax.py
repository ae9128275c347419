"""The tied softmax explorer: its arithmetic against torch and the library, its controls by use."""

import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from chapters.embeddings.tied_softmax import LIMIT, TiedSoftmaxExplorer
from lib.layers import Embedding, TiedProjection
from lib.training import label_smoothed_loss

pytestmark = pytest.mark.browser
VECTORS = {"un": [1.0, 0.5], "deux": [-0.25, 1.5], "trois": [0.0, -1.0], "<b>": [2.5, -2.0]}
CALL = "(x) => own.tied(x.vectors, x.h, x.target, x.temperature, x.smoothing)"


def explorer(**changes) -> TiedSoftmaxExplorer:
    given = {"vectors": VECTORS, "state": [1.5, -0.75], "target": "deux"} | changes
    return TiedSoftmaxExplorer(**given)


def expected(vectors, h, target: int, temperature: float, smoothing: float) -> dict:
    """By torch, in float64, with the gradient from autograd."""
    matrix = torch.tensor(vectors, dtype=torch.float64)
    state = torch.tensor(h, dtype=torch.float64, requires_grad=True)
    logits = matrix @ state
    right = torch.tensor(target)
    loss = F.cross_entropy(logits / temperature, right, label_smoothing=smoothing)
    (gradient,) = torch.autograd.grad(loss, state)
    wanted = (1 - smoothing) * F.one_hot(right, len(vectors)).double() + smoothing / len(vectors)
    return {
        "logits": logits.detach(),
        "weights": (logits / temperature).softmax(-1).detach(),
        "targets": wanted,
        "loss": loss.detach(),
        "entropy": torch.special.entr(wanted).sum(),
        "gradient": gradient,
        "perplexity": F.cross_entropy(logits / temperature, right).detach().exp(),
    }


def shown(page) -> tuple[torch.Tensor, list[float]]:
    """The table (token x logit, p, target), and the loss and the two entries of the gradient."""
    rows = page.locator(".ts-table tbody tr").all()
    texts = [row.locator("td").all_inner_texts()[1:] for row in rows]
    values = page.locator(".ts-value").all_inner_texts()
    figures = [values[0], *values[3].split(", ")]
    number = lambda text: float(text.replace("−", "-"))  # noqa: E731
    return torch.tensor([[number(t) for t in row] for row in texts]), [number(t) for t in figures]


def assert_shown(page, vectors, h, target, temperature, smoothing):
    wanted = expected(vectors, h, target, temperature, smoothing)
    table, figures = shown(page)
    columns = [wanted[name] for name in ("logits", "weights", "targets")]
    torch.testing.assert_close(
        table, torch.stack(columns, dim=1).float(), atol=0.0051, rtol=0.0, msg="table"
    )
    assert figures[0] == pytest.approx(wanted["loss"].item(), abs=6e-4)
    assert figures[1:] == pytest.approx(wanted["gradient"].tolist(), abs=6e-3)


@pytest.mark.parametrize("n_tokens", [2, 5, 8])
def test_arithmetic_is_torchs(stage, n_tokens):
    page = stage.functions(explorer())
    generator = torch.Generator().manual_seed(n_tokens)
    for temperature in (0.1, 0.7, 1.0, 10.0):  # at 0.1 logits reach 180: no overflow, no ln 0
        for smoothing in (0.0, 0.1, 0.5):
            vectors = 6 * torch.rand(n_tokens, 2, generator=generator, dtype=torch.float64) - 3
            h = (6 * torch.rand(2, generator=generator, dtype=torch.float64) - 3).tolist()
            x = {"vectors": vectors.tolist(), "h": h, "target": 1}
            x |= {"temperature": temperature, "smoothing": smoothing}
            got = page.evaluate(CALL, x)
            for name, value in expected(vectors.tolist(), h, 1, temperature, smoothing).items():
                torch.testing.assert_close(
                    torch.tensor(got[name], dtype=torch.float64), value, atol=1e-5, rtol=1e-5
                )


def test_loss_and_logits_are_the_librarys(stage):
    page = stage.functions(explorer())
    embedding = Embedding(len(VECTORS), 2).double()
    with torch.no_grad():
        embedding.weight.copy_(torch.tensor(list(VECTORS.values())))
    h = torch.tensor([[[1.5, -0.75]]], dtype=torch.float64)
    logits = TiedProjection(embedding)(h)
    x = {"vectors": list(VECTORS.values()), "h": h[0, 0].tolist(), "target": 1}
    got = page.evaluate(CALL, x | {"temperature": 1, "smoothing": 0.1})
    assert got["logits"] == pytest.approx(logits[0, 0].tolist(), abs=1e-5)
    loss = label_smoothed_loss(logits, torch.tensor([[1]]), 0.1)
    assert got["loss"] == pytest.approx(loss.item(), abs=1e-5)


def test_downhill_is_gradient_descent_within_the_limits(stage):
    page = stage.functions(explorer())
    vectors, h = list(VECTORS.values()), [1.5, -0.75]
    at = h
    for _ in range(20):
        gradient = expected(vectors, at, 1, 1.0, 0.1)["gradient"].tolist()
        at = [min(LIMIT, max(-LIMIT, a - 0.5 * g)) for a, g in zip(at, gradient, strict=True)]
    call = "(x) => own.descend(x.vectors, x.h, 1, 1, 0.1, 3)"
    got = page.evaluate(call, {"vectors": vectors, "h": h})
    assert got == pytest.approx(at, abs=1e-5)


def test_every_control_changes_what_it_says(stage):
    page = stage.show(explorer())
    vectors = [list(row) for row in VECTORS.values()]
    assert_shown(page, vectors, [1.5, -0.75], 1, 1.0, 0.0)
    page.get_by_label("Right token").select_option("un")
    assert_shown(page, vectors, [1.5, -0.75], 0, 1.0, 0.0)
    page.get_by_label("Temperature").press("ArrowRight")
    assert_shown(page, vectors, [1.5, -0.75], 0, 1.5, 0.0)
    page.get_by_label("Smoothing").press("End")
    assert_shown(page, vectors, [1.5, -0.75], 0, 1.5, 0.5)
    page.get_by_label("h, entry 1").press("Home")
    page.get_by_label("h, entry 2").press("ArrowRight")
    assert_shown(page, vectors, [-3, -0.74], 0, 1.5, 0.5)
    page.get_by_label("Token to move").select_option("<b>")
    page.get_by_label("Its entry 2").press("End")
    vectors[3] = [2.5, 3.0]
    assert_shown(page, vectors, [-3, -0.74], 0, 1.5, 0.5)
    page.get_by_role("button", name="Reset").click()
    assert_shown(page, list(VECTORS.values()), [1.5, -0.75], 1, 1.0, 0.0)


def test_points_can_be_dragged(stage):
    page = stage.show(explorer())
    vectors = [list(row) for row in VECTORS.values()]
    box = page.locator(".ts-plane").bounding_box()
    unit = box["width"] / (2 * LIMIT + 0.6)
    place = lambda a, b: (  # noqa: E731
        box["x"] + box["width"] / 2 + a * unit,
        box["y"] + box["height"] / 2 - b * unit,
    )
    for start, end in (((1.5, -0.75), (2.0, 1.0)), ((0.0, -1.0), (-2.0, -1.0))):
        page.mouse.move(*place(*start))
        page.mouse.down()
        page.mouse.move(*place(*end), steps=3)
        page.mouse.up()
    page.mouse.move(*place(0, 0))  # the button is up: nothing follows
    expect(page.get_by_label("Token to move")).to_have_value("trois")
    vectors[2] = [-2.0, -1.0]
    table, _ = shown(page)
    wanted = expected(vectors, [2.0, 1.0], 1, 1.0, 0.0)["logits"]
    torch.testing.assert_close(table[:, 0], wanted.float(), atol=0.06, rtol=0.0)


def test_downhill_ends_at_the_target_only_with_smoothing(stage):
    """Without smoothing the state runs on to the limit; with it, it stops where p = target."""
    ends = {}
    for smoothing in (0.0, 0.3):
        page = stage.show(
            explorer(vectors={"un": [1, 0], "deux": [-1, 0]}, target="un", smoothing=smoothing)
        )
        button = page.get_by_role("button", name="20 steps downhill")
        button.click()
        button.evaluate("(node) => { for (let k = 1; k < 30; k += 1) node.click(); }")
        ends[smoothing] = shown(page)[0]
    assert ends[0.0][0, 0] == pytest.approx(3.0, abs=0.4)
    assert ends[0.3][0, 1] == pytest.approx(0.85, abs=0.006)
    expect(page.locator(".ts-right th")).to_have_text("un")


def test_the_entropy_of_the_target_is_named_and_not_always_reached(stage):
    """Six vectors in a plane cannot give every p: the lowest loss stays above the entropy."""
    vectors = {"a": [2.0, 0.6], "b": [1.8, 1.3], "c": [1.2, 2.2]}
    vectors |= {"d": [-1.6, 1.2], "e": [-2.1, 0.5], "f": [0.2, -2.0]}
    page = stage.show(explorer(vectors=vectors, state=[0.4, -0.9], target="b", smoothing=0.1))
    button = page.get_by_role("button", name="20 steps downhill")
    button.evaluate("(node) => { for (let k = 0; k < 30; k += 1) node.click(); }")
    figures = page.locator(".ts-figure").all_inner_texts()
    values = dict(figure.split("\n") for figure in figures)
    assert float(values["Entropy of the target"]) == pytest.approx(0.421, abs=6e-4)
    assert float(values["Loss"]) == pytest.approx(1.213, abs=6e-4)


@pytest.mark.parametrize(
    ("query", "row"),
    [("deux=1,1", [1.0, 1.0]), ("deux=1", None), ("deux=1,9", None), ("cat=1,1", None)],
)
def test_an_address_moves_only_what_fits(stage, query, row):
    page = stage.show(explorer(), query=f"?tied_softmax.edited={query}")
    vectors = {**VECTORS, "deux": row or VECTORS["deux"]}
    assert_shown(page, list(vectors.values()), [1.5, -0.75], 1, 1.0, 0.0)


def test_reading_says_which_way_it_is_wrong(stage):
    reading = stage.show(explorer(state=[0.0, 0.0])).locator(".ts-reading")
    expect(reading).to_have_text("deux has probability 0.250, its target is 1.000: too low.")
    page = stage.show(explorer(state=[-1.0, 3.0], smoothing=0.2))
    expect(page.locator(".ts-reading")).to_contain_text("its target is 0.850: too high.")
