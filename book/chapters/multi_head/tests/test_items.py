"""Which tokens belong to which item, and what a head that mixes two items up changes."""

import pytest
import torch

from chapters.multi_head.ablation import head_outputs
from chapters.multi_head.experiments import item_order
from chapters.multi_head.items import count_items, exchanged, french_items, givers, items_of
from lib.data import Pair, make_batch
from lib.decoding import translate
from measure.records import read_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published


@pytest.mark.parametrize(
    ("source", "items"),
    [
        ("six days", "00"),
        ("six days and two euros", "00-11"),
        ("six days , two euros , and ten miles", "00-11--22"),
        ("thursday , may 3 , 2 0 0 7 and ten miles", "000000000-11"),
        ("two euros , tuesday , may 1 6 , 2 0 2 2 , and in ten years", "00-1111111111--222"),
    ],
)
def test_separators_are_told_from_the_commas_of_a_date(source, items):
    found = items_of(source.split())
    assert "".join("-" if item is None else str(item) for item in found) == items


def test_the_words_of_an_item_get_what_was_found_for_the_first_word_of_the_other():
    source = ["six", "days", ",", "two", "euros", ",", "and", "ten", "miles"]
    assert givers(source, 0, 2) == [7, 7, 2, 3, 4, 5, 6, 0, 0]
    assert givers(source, 1, 0) == [3, 3, 2, 0, 0, 5, 6, 7, 8]


def test_the_items_of_a_translation_are_as_many_as_those_of_its_source():
    for pair in translation_pairs()[1]:
        assert len(french_items(pair.target)) == count_items(pair)


@pytest.fixture(scope="module")
def published():
    model, *vocabs = load_published()
    return model.eval(), vocabs


def test_only_the_words_of_the_two_items_get_something_else_and_of_one_head_only(published):
    model, vocabs = published
    pair = translation_pairs()[1][26]
    items = [*items_of(pair.source), None]  # <eos>
    batch = make_batch([pair], *vocabs)
    before = head_outputs(model, batch)["e2"]
    with exchanged(model, "e2.3", [pair], 0, 2):
        during = head_outputs(model, batch)["e2"]  # its hook runs after the one that exchanges
    first, third = items.index(0), items.index(2)
    for i, item in enumerate(items):
        source = {0: third, 2: first}.get(item, i)
        assert torch.equal(during[i, 2], before[source, 2])
    others = [0, 1, 3]
    assert torch.equal(during[:, others], before[:, others])
    assert torch.equal(head_outputs(model, batch)["e2"], before), "the model is left as it was"


def test_items_change_places_in_the_translation(published):
    model, vocabs = published
    pair = translation_pairs()[1][26]
    with exchanged(model, "e2.3", [pair], 0, 1):
        [said] = translate(model, [pair], *vocabs)
    first, second, third = french_items(pair.target)
    assert french_items(said) == [second, first, third]
    assert item_order.outcome(said, pair, 0, 1) == "exchanged"
    assert item_order.outcome(list(pair.target), pair, 0, 1) == "as before"
    assert item_order.outcome(said, pair, 1, 2) == "otherwise"


def test_an_unknown_head_is_refused(published):
    pair = Pair(("six", "days"), ("six", "jours"))
    for head in ("e2.5", "e3.1", "e2"):
        with (
            pytest.raises(ValueError, match="expected a "),
            exchanged(published[0], head, [pair], 0, 0),
        ):
            pass


def test_the_record_counts_every_list_of_three_items():
    record = read_results("item_order")
    three = [pair for pair in translation_pairs()[1] if count_items(pair) == item_order.ITEMS]
    assert record["sentences"] == len(three)
    for kinds in record["heads"].values():
        assert list(kinds) == ["1 and 2", "1 and 3", "2 and 3"]
        assert all(sum(fates.values()) == len(three) for fates in kinds.values())
