"""Lists longer than those of training read as the task's own do."""

from lib.data import Pair
from tasks.lists import bin_of, listed


def test_lists_read_as_those_of_the_task():
    items = [Pair(("two", "euros"), ("deux", "euros")), Pair(("six", "days"), ("six", "jours"))]
    assert listed(items[:1]) == items[0]
    both = listed(items)
    assert both.source == ("two", "euros", "and", "six", "days")
    assert both.target == ("deux", "euros", "et", "six", "jours")
    three = listed([*items, items[0]])
    assert " ".join(three.source) == "two euros , six days , and two euros"
    assert " ".join(three.target) == "deux euros , six jours et deux euros"
    lengths = [bin_of(Pair(("x",) * n, ())) for n in (1, 5, 6, 25, 26, 35, 36, 60)]
    assert lengths == [0, 0, 1, 4, 5, 5, 6, 7]
