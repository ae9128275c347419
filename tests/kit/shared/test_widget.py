"""What a widget leaves in a notebook's output, and what the build makes of its scripts."""

import json
import re

import numpy as np
import pytest
import torch
import traitlets
from ext import book_widgets

from kit.attention_seq2seq.alignment_player import AlignmentPlayer
from kit.attention_seq2seq.bottleneck_explorer import BottleneckExplorer
from kit.shared import widget as base
from kit.shared.widget import BookWidget, quantise, static_paragraph, static_table
from lib.data import Pair, Vocabulary
from tests.widget_samples import SAMPLES, bins, sentences

DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def knob(tmp_path, monkeypatch):
    """A small widget class of its own, with its module in a folder of its own."""
    (tmp_path / "knob.js").write_text("export default { render() {} };\n")
    (tmp_path / "knob.css").write_text(".knob { color: red; }\n")

    class Knob(BookWidget):
        _module = "knob"
        _folder = tmp_path
        words = traitlets.List().tag(sync=True)
        step = traitlets.Int(0).tag(sync=True)
        private = traitlets.Int(5)

    return Knob


def html_of(widget: BookWidget) -> str:
    return widget._repr_mimebundle_()[0]["text/html"]


def test_bundle_holds_view_text_and_data(knob):
    bundle, _ = knob(words=["a", "b"], step=3)._repr_mimebundle_()
    assert set(bundle) == {VIEW, "text/html", "text/plain"}
    assert bundle["text/plain"] == "Knob widget"
    assert '<div class="book-widget" data-module="knob">' in bundle["text/html"]
    data = json.loads(DATA.search(bundle["text/html"]).group(1))
    assert data == {"step": 3, "words": ["a", "b"]}
    assert "render" not in bundle["text/html"], "data only, no code"


def test_bundle_is_the_same_bytes_each_time_but_for_the_view(knob):
    one, other = knob(words=["a"]), knob(words=["a"])
    assert html_of(one) == html_of(other)
    assert repr(one) == repr(other)
    assert "0x" not in repr(one)


def test_text_cannot_leave_the_script(knob):
    nasty = ["</script><script>alert(1)</script>", "<!--", "é → \u2028 & \"'"]
    html = html_of(knob(words=nasty))
    assert html.count("</script>") == 1
    assert "<!--" not in html
    assert json.loads(DATA.search(html).group(1))["words"] == nasty


def test_module_joins_shared_scripts_and_styles(knob):
    esm, css = str(knob(words=[])._esm), str(knob(words=[])._css)
    positions = [esm.index(part) for part in ("const math", "const ui", "const chart", "export ")]
    assert positions == sorted(positions)
    assert css.index("--bw-ink") < css.index(".knob")


def test_too_much_data_is_refused(knob):
    assert knob(words=["x" * (base.MAX_BYTES - 100)])
    with pytest.raises(ValueError, match="expected at most 200,000 bytes of data in Knob, got"):
        knob(words=["é" * (base.MAX_BYTES // 2)])  # bytes count, not characters


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.ones(2), np.float32(1), {1}])
def test_data_must_be_plain(knob, value):
    with pytest.raises(ValueError, match="expected plain lists, finite numbers and text"):
        knob(words=[value])


def test_quantise_rounds_any_nesting():
    assert quantise(0.12345) == 0.123
    assert quantise([[0.126, 1], (2.0, -0.001)], 2) == [[0.13, 1.0], [2.0, 0.0]]
    assert str(quantise(-0.0001)) == "0.0"
    assert quantise(torch.tensor([[0.25, 0.125]]), 2) == [[0.25, 0.12]]
    assert quantise(np.float32(0.5)) == 0.5


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], "0.5", None, [True]])
def test_quantise_refuses_what_is_no_number(value):
    with pytest.raises(ValueError, match=r"expected (finite )?numbers, got"):
        quantise(value)


def test_static_parts_escape_text():
    assert static_paragraph("a < b") == "<p>a &lt; b</p>"
    html = static_table("<c>", ["row", "x"], [["<r>", 1]])
    assert "&lt;c&gt;" in html
    assert '<th scope="row">&lt;r&gt;</th><td>1</td>' in html
    with pytest.raises(ValueError, match="expected rows of 2 cells, as in the header, got one of"):
        static_table("c", ["row", "x"], [["r", 1, 2]])


def test_every_module_becomes_a_classic_script(tmp_path):
    names = book_widgets.emit_assets(tmp_path)
    assert names == list(book_widgets.widgets())
    for name in names:
        text = (tmp_path / f"{name}.js").read_text(encoding="utf-8")
        assert f'bookWidgets.add("{name}", module' in text
        assert not re.search(r"^(export|import)\b", text, re.MULTILINE)
    assert (tmp_path / "base.css").is_file()
    assert tuple(f"{name}.js" for name in book_widgets.SHARED) == base.SHARED


@pytest.mark.parametrize(
    "text",
    [
        "export default {};\nexport const other = 1;\n",
        'import x from "./x.js";\nexport default {};\n',
        "const render = 1;\n",
        "export default {};\nexport default {};\n",
    ],
)
def test_module_of_another_form_is_refused(tmp_path, text):
    (tmp_path / "odd.js").write_text(text)
    with pytest.raises(ValueError, match=r"expected odd.js to hold one `export default` and no"):
        book_widgets.widget_script("odd", tmp_path)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_widget_stores_its_data_and_nothing_that_moves(name):
    one, other = html_of(SAMPLES[name]()), html_of(SAMPLES[name]())
    assert one == other
    assert f'data-module="{name}"' in one
    assert "<table>" in one, "a reader without scripts sees something"
    assert "0x" not in repr(SAMPLES[name]())


# --- alignment player -------------------------------------------------------------------------


def spoilt(change) -> list[dict]:
    found = sentences()
    change(found[1])
    return found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("weights"), r"sentences\[1\]: expected a mapping with \['candidates'"),
        (lambda s: s.update(source="canadian"), r"\[1\].source: expected a list of at least one"),
        (lambda s: s.update(output=[]), r"\[1\].output: expected a list of at least one entry"),
        (lambda s: s.update(reference=[3]), r"\[1\].reference: expected tokens as text, got 3"),
        (
            lambda s: s.update(weights=np.array(s["weights"]).T),
            r"\[1\].weights: expected 4 rows of 5 numbers, got 5 rows of lengths \[4\]",
        ),
        (lambda s: s["weights"].pop(), r"expected 4 rows of 5 numbers, got 3 rows"),
        (
            lambda s: s["weights"].__setitem__(2, [0.2] * 4 + [1.0]),
            r"weights\[2\]: expected numbers of at least 0 that sum to 1, got the sum 1.800",
        ),
        (lambda s: s["weights"].__setitem__(0, [2.0, -1, 0, 0, 0]), r"weights\[0\]: expected numb"),
        (lambda s: s["weights"][0].__setitem__(0, float("nan")), r"weights: expected finite"),
        (lambda s: s["candidates"].pop(), r"one list for each of 4 output tokens, got 3"),
        (
            lambda s: s.update(candidates=[[("a", 0.2), ("b", 0.5)]] * 4),
            r"candidates\[0\]: expected the likeliest candidate first, got \[0.2, 0.5\]",
        ),
        (lambda s: s.update(candidates=[[("a", 2)]] * 4), "expected a number from 0 to 1, got 2"),
        (lambda s: s.update(candidates=[["ab"]] * 4), r"expected \(token, probability\), got 'ab'"),
    ],
)
def test_player_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        AlignmentPlayer(spoilt(change))


@pytest.mark.parametrize("start", [{"sentence": 2}, {"sentence": -1}, {"step": 2}])
def test_player_starts_within_its_data(start):
    with pytest.raises(ValueError, match="expected a whole number from 0 to 1, got"):
        AlignmentPlayer(sentences(), **start)


class Repeater(torch.nn.Module):
    """A model with known behaviour: writes the source's tokens, each looking at its own."""

    def __init__(self, attends: bool = True):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.attends = attends

    def start(self, source, source_lengths):
        assert source_lengths.tolist() == [source.shape[1]]
        return source, 0

    def step(self, token, state):
        source, time = state
        weights = torch.eye(source.shape[1])[time : time + 1] if self.attends else None
        logits = torch.zeros(1, 7)
        logits[0, source[0, time]] = 3.0
        logits[0, 6] = 1.0
        return logits, weights, (source, time + 1)


def test_player_shows_what_a_model_does():
    vocabulary = Vocabulary(["a", "b", "c"])
    model = Repeater().train()
    pair = Pair(("b", "a"), ("b", "c"))
    player = AlignmentPlayer.from_model(model, [pair], vocabulary, vocabulary, k=2)
    [one] = player.sentences
    assert one["source"] == ["b", "a", "<eos>"]
    assert one["output"] == ["b", "a", "<eos>"]
    assert one["reference"] == ["b", "c", "<eos>"]
    assert one["weights"] == torch.eye(3).tolist()
    best, other = torch.tensor([3.0, 1.0]).exp() / torch.tensor([3.0, 1, 0, 0, 0, 0, 0]).exp().sum()
    assert [token for token, _ in one["candidates"][0]] == ["b", "c"]
    assert [p for _, p in one["candidates"][0]] == quantise([best.item(), other.item()])
    assert model.training, "the model is left as it came"
    short = AlignmentPlayer.from_model(model, [pair], vocabulary, vocabulary, max_length=2, k=1)
    assert short.sentences[0]["output"] == ["b", "a"]


def test_player_needs_a_model_with_attention():
    vocabulary = Vocabulary(["a", "b", "c"])
    pair = Pair(("b",), ("b",))
    with pytest.raises(ValueError, match="expected a model whose steps return weights"):
        AlignmentPlayer.from_model(Repeater(attends=False), [pair], vocabulary, vocabulary)


# --- bottleneck explorer ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.pop("count"), r"bins\[2\]: expected a mapping with \['accuracy', 'count'"),
        (lambda b: b.update(count=0), r"bins\[2\].count: expected a whole number above 0, got 0"),
        (lambda b: b.update(accuracy=[0.5]), "expected one share for each of 2 models"),
        (lambda b: b.update(accuracy=[0.5, 98]), "expected a number from 0 to 1, got 98"),
        (lambda b: b.update(examples=[]), "examples: expected a list of at least one entry"),
        (lambda b: b["examples"][0].update(outputs=[["x"]]), "the tokens of 2 models, got 1"),
        (lambda b: b["examples"][0].update(reference="x y"), "reference: expected a list"),
    ],
)
def test_explorer_says_what_is_wrong(change, message):
    found = bins()
    change(found[2])
    with pytest.raises(ValueError, match=message):
        BottleneckExplorer(found)


def test_explorer_needs_two_names_and_a_bin_within():
    with pytest.raises(ValueError, match="names: expected the names of two models"):
        BottleneckExplorer(bins(), names=["one"])
    with pytest.raises(ValueError, match="bin: expected a whole number from 0 to 2, got 3"):
        BottleneckExplorer(bins(), bin=3)


def test_explorer_sorts_predictions_into_bins():
    pairs = [Pair(("s",) * n, (f"t{n}", f"u{i}")) for i, n in enumerate([1, 5, 2, 7, 3, 5, 6])]
    right = [pair.target for pair in pairs]
    wrong = [("x",) if len(pair.source) > 2 else pair.target for pair in pairs]
    explorer = BottleneckExplorer.from_predictions(pairs, wrong, right, (1, 3, 7), examples=2)
    first, second = explorer.bins
    assert (first["label"], first["count"], first["accuracy"]) == ("1 to 3", 3, [0.67, 1.0])
    assert (second["label"], second["count"], second["accuracy"]) == ("4 to 7", 4, [0.0, 1.0])
    assert [len(e["source"]) for e in second["examples"]] == [5, 7], "the first ones, in order"
    assert second["examples"][0]["outputs"] == [["x"], ["t5", "u1"]]
    with pytest.raises(ValueError, match="expected sentences of 8 to 9 tokens, got none"):
        BottleneckExplorer.from_predictions(pairs, wrong, right, (1, 7, 9))
