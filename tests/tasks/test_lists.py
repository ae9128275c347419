"""Lists longer than any in training, and the same items as the first and the last of them."""

import pytest

from lib.data import Pair
from tasks import lists


@pytest.fixture(scope="module")
def sets() -> lists.Sets:
    return lists.Sets()


def test_lists_read_as_those_of_the_task():
    items = [Pair(("two", "euros"), ("deux", "euros")), Pair(("six", "days"), ("six", "jours"))]
    assert lists.listed(items[:1]) == items[0]
    both = lists.listed(items)
    assert both.source == ("two", "euros", "and", "six", "days")
    assert both.target == ("deux", "euros", "et", "six", "jours")
    three = lists.listed([*items, items[0]])
    assert " ".join(three.source) == "two euros , six days , and two euros"
    assert " ".join(three.target) == "deux euros , six jours et deux euros"
    lengths = [lists.bin_of(Pair(("x",) * n, ())) for n in (1, 5, 6, 25, 26, 35, 36, 60)]
    assert lengths == [0, 0, 1, 4, 5, 5, 6, 7]


def test_bins_hold_sentences_of_their_length_and_longer_lists_beyond_training(sets):
    for n, pairs in enumerate(sets.bins):
        low, high = lists.EDGES[n : n + 2]
        assert all(low <= len(pair.source) <= high for pair in pairs)
        assert all(len(pair.source) > low for pair in pairs) or n == 0
    assert [len(pairs) for pairs in sets.bins[lists.TRAINED_BINS :]] == [lists.BEYOND] * 2
    assert sum(map(len, sets.bins[: lists.TRAINED_BINS])) == len(sets.test)
    longest = max(len(pair.source) for pair in sets.training)
    assert longest <= lists.EDGES[lists.TRAINED_BINS]


def test_a_probe_stands_in_the_same_words_in_every_list(sets):
    known = {pair.source for pair in sets.training}
    first, last = sets.probes[: lists.MOST_ITEMS], sets.probes[lists.MOST_ITEMS :]
    for groups in (first, last):
        assert len(groups) == lists.MOST_ITEMS
        told = [[pair.target[start:end] for pair, start, end in group] for group in groups]
        assert all(group == told[0] for group in told)
        alone = [pair for pair, _, _ in groups[0]]
        assert len(alone) == lists.N_PROBES
        assert not known & {pair.source for pair in alone}
    assert all(start == 0 for group in first for _, start, _ in group)
    assert all(end == len(pair.target) for group in last for pair, _, end in group)
