"""The head ablation widget's data: those of the model and of the recorded measurement."""

import pytest

from chapters.multi_head.ablation import head_codes
from chapters.multi_head.head_ablation import HeadAblation
from chapters.multi_head.tests.samples import measured
from lib.data import Pair
from measure.records import read_results
from tasks.translation import translation_pairs
from tests.packed import packed
from train.checkpoints import load_published

PAIRS = [Pair(("six", "days"), ("six", "jours"))]


@pytest.fixture(scope="module")
def published():
    model, *vocabs = load_published()
    pairs = translation_pairs()[1][:50]
    return HeadAblation.from_model(model, pairs, *vocabs, read_results("head_ablation"))


def test_it_holds_the_model_s_heads_and_the_recorded_figures(published):
    results = read_results("head_ablation")
    assert [layer["code"] for layer in published.layers] == ["e1", "e2", "d1", "d2", "c1", "c2"]
    assert published.layers[5] == {
        "code": "c2",
        "name": "decoder.layers.1.cross_attention",
        "kind": "Cross-attention",
        "number": 2,
    }
    assert published.means["d1"] == [x for row in results["means"]["d1"] for x in row]
    assert len(published.means["d1"]) == 64
    single = published.recorded["mean"]["single"]
    assert list(single) == head_codes(2, 4)
    assert single["e2.3"] == round(results["ablations"]["mean"]["single"]["e2.3"]["exact"], 3)
    assert len(published.sentences) == 50
    assert len(published.data_json()) < 20_000


def test_readers_without_scripts_see_every_head(published):
    html = published.static_html()
    figures = published.recorded
    for mode in ("zero", "mean"):
        for figure in (*figures[mode]["single"].values(), *figures[mode]["layers"].values()):
            assert f"<td>{figure:.3f}</td>" in html
    assert "of 1,500 held-out sentences" in html
    assert "Cross-attention, layer 2, mean ablation" in html
    assert repr(published) == "HeadAblation: 24 heads of a translator, 50 sentences"


def test_unknown_words_are_refused():
    for pair, side in ((Pair(("cats",), ("six",)), "source"), (Pair(("six",), ("x",)), "target")):
        with pytest.raises(ValueError, match=rf"pairs\[1\]\.{side}: expected words of the model"):
            HeadAblation(packed(), [*PAIRS, pair], measured())


def test_the_place_after_the_last_sentence_is_the_reader_s_own():
    widget = HeadAblation(packed(), PAIRS, measured(), own="days in", sentence=1)
    assert widget.data()["sentence"] == 1
    with pytest.raises(ValueError, match="sentence: expected a whole number from 0 to 1, got 2"):
        widget.sentence = 2
