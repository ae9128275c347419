"""What the chapters say that readers see when they train: single runs, by their seeds."""

import math
from collections.abc import Iterator

import pytest
import torch

from tests.browser.laboratory_page import LaboratoryPage

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ORDER = {
    "positions": "none",
    "causal": False,
    "n_layers": 2,
    "n_heads": 4,
    "d_model": 32,
    "lr": 3e-3,
}
SENSES = {
    "attention": "chosen",
    "unsure": True,
    "filled": False,
    "updates": 300,
    "n_heads": 1,
    "d_model": 32,
    "lr": 5e-3,
}
NEIGHBOURS = {"n_heads": 1, "d_model": 32, "d_k": 8, "lr": 1e-2}
TRAIN = """const run = await start(task, settings, seed);
  const losses = [];
  const told = [];
  while (!run.done) {
    losses.push(run.step().loss);
    if (told.length < looks.length && losses.length === looks[told.length]) told.push(run.probe());
  }
  return { told, probe: run.probe(), loss: losses.slice(-20).reduce((a, b) => a + b) / 20,
    answers: asked.map((text) => run.ask(text).output),
    looks: asked.map((text) => run.probe(text).maps?.at(-1)) };"""
SENTENCES = ["man bites dog", "dog bites man", "dog bites dog"]


@pytest.fixture(scope="module")
def page(browser) -> Iterator[LaboratoryPage]:
    page = LaboratoryPage(browser)
    yield page
    page.page.close()


def trained(page: LaboratoryPage, task: str, seed: int, asked=(), looks=(), **changes) -> dict:
    starts = {"senses": SENSES, "order": ORDER, "neighbours": NEIGHBOURS}
    settings = starts[task] | changes
    given = {"task": task, "settings": settings, "seed": seed}
    return page.run(TRAIN, **given, asked=list(asked), looks=list(looks))


def weight(look: dict, query: str, key: str) -> float:
    """How much weight a word gives to another in the first head of a map."""
    words = look["columns"]
    return look["data"][words.index(query) * len(words) + words.index(key)]


def test_one_head_looks_at_the_clue_and_where_there_is_none_at_its_own_word(page):
    asked = [
        "bat bites man in cave",
        "the man saw a bank near the river",
        "bat bites man in",
        "bat bites man in ball",
    ]
    found = trained(page, "senses", 3, asked)
    said = [["bat: Fledermaus"], ["bank: Ufer"], ["bat: ?"], ["bat: Schläger"]]
    assert found["answers"] == said
    cave, river, itself, ball = found["looks"]
    assert weight(cave, "bat", "cave") == pytest.approx(0.91, abs=0.005)
    assert weight(river, "bank", "river") == pytest.approx(0.93, abs=0.005)
    assert weight(itself, "bat", "bat") == pytest.approx(0.97, abs=0.005)
    assert weight(ball, "bat", "ball") > 0.9
    assert found["probe"]["accuracy"] == pytest.approx(0.97, abs=0.005)


def test_where_there_is_always_a_clue_a_meaning_becomes_the_default(page):
    asked = ["the man saw a bank near the river", "my bank hits the man"]
    found = trained(page, "senses", 3, asked, unsure=False)
    assert found["answers"] == [["bank: Ufer"]] * 2
    assert weight(found["looks"][0], "bank", "bank") == pytest.approx(0.85, abs=0.005)
    assert weight(found["looks"][0], "bank", "river") == pytest.approx(0.13, abs=0.005)


CLUES = {
    "bank": "river boat water money loan cash",
    "bat": "cave wings night ball helmet pitch",
    "spring": "flowers april winter steel mattress clock",
    "match": "fire candle smoke goal referee stadium",
    "nail": "finger polish hand hammer wood wall",
    "seal": "sea fish ice letter wax king",
}


def test_with_one_head_a_wrong_answer_is_a_clue_that_was_not_looked_at(page):
    pairs = [(word, clue) for word, clues in CLUES.items() for clue in clues.split()]
    asked = [f"my {word} saw the man near the {clue}" for word, clue in pairs]
    body = TRAIN.replace("run.ask(text).output)", "run.ask(text).right)")
    wrong = {}
    for seed in range(5):
        given = {"task": "senses", "settings": SENSES, "seed": seed, "asked": asked, "looks": []}
        found = page.run(body, **given)
        for pair, right, look in zip(pairs, found["answers"], found["looks"], strict=True):
            looked = weight(look, *pair)
            if not right:
                wrong[seed, *pair] = looked
                assert looked < 0.15
            if looked > 0.5:
                assert right
    assert len(wrong) == 19
    assert wrong[0, "seal", "fish"] < 0.01
    for seed, word, clue in (0, "match", "goal"), (4, "bat", "cave"), (4, "spring", "winter"):
        assert (seed, word, clue) in wrong
    assert not any(seed == 4 and word == "bat" and clue == "ball" for seed, word, clue in wrong)
    assert [clue for seed, word, clue in wrong if (seed, word) == (4, "bat")] == [
        "cave", "wings", "night"
    ]  # fmt: skip


def maps(probe: dict) -> list[torch.Tensor]:
    """For each layer its attention weights, (heads, query, key)."""
    return [
        torch.tensor(one["data"]).view(one["heads"], one["queries"], one["keys"])
        for one in probe["maps"]
    ]


def sides(probe: dict) -> torch.Tensor:
    """The weight that each head gives to the left and to the right neighbour, (heads, query, 2)."""
    [weights] = maps(probe)
    queries = torch.arange(12)
    return torch.stack([weights[:, queries, (queries + d) % 12] for d in (-1, 1)], dim=-1)


@pytest.mark.parametrize("seed", [0, 4])
def test_without_positions_a_word_has_one_answer_in_both_orders(page, seed):
    first, swapped, twice = trained(page, "order", seed, SENTENCES)["answers"]
    assert swapped == first[::-1]
    assert twice[0] == twice[2]


@pytest.mark.parametrize("changes", [{"positions": "learned"}, {"causal": True}], ids=str)
def test_with_positions_or_with_the_mask_every_order_is_named(page, changes):
    found = trained(page, "order", 0, SENTENCES, **changes)
    assert found["answers"] == [["who", "act", "whom"]] * 3
    assert found["probe"]["accuracy"] == 1
    later = torch.ones(3, 3).triu(1).bool()
    for weights in maps(found["probe"]):
        if "causal" in changes:
            assert not weights[:, later].any()
            assert torch.all(weights[:, 0, 0] == 1)
        else:
            assert weights[:, later].max() > 0.5


def test_one_head_attends_to_one_neighbour_or_to_both(page):
    one, both = (trained(page, "neighbours", seed) for seed in (0, 1))
    assert one["loss"] == pytest.approx(math.log(10) / 2, abs=0.02)
    assert sides(one["probe"])[0, :, 1].mean() > 0.9  # the right one
    assert 0.4 < both["loss"] < 0.6
    left, right = sides(both["probe"])[0].mean(dim=0).tolist()
    assert 0.4 < right < left < 0.6
    for example in both["probe"]["examples"]:  # it names the left one twice
        assert example["got"] == [f"{wanted[0]} {wanted[0]}" for wanted in example["wanted"]]


def test_two_heads_choose_their_sides_early_and_four_have_one_for_each(page):
    found = trained(page, "neighbours", 0, looks=(10, 50), n_heads=2)
    early, later = (sides(probe).mean(dim=1) for probe in found["told"])
    assert early.max() < 0.4
    assert later.amax(dim=0).min() > 0.9
    assert found["told"][0]["accuracy"] < 0.1 < 0.95 < found["told"][1]["accuracy"]
    found = sides(trained(page, "neighbours", 0, n_heads=4)["probe"])
    assert found.mean(dim=1).amax(dim=0).min() > 0.8
    clear = (found.mean(dim=1) > 0.6).any(dim=1)
    assert clear.sum() == 2  # the others do not keep to one side


def test_with_seed_11_two_heads_exchange_their_sides_from_position_to_position(page):
    probe = trained(page, "neighbours", 11, n_heads=2)["probe"]
    to_left = sides(probe)[:, :, 0] > 0.9  # (heads, query)
    to_right = sides(probe)[:, :, 1] > 0.9
    assert torch.equal(to_left[0], to_right[1])
    assert torch.equal(to_right[0], to_left[1])
    assert (to_left[0].sum(), to_right[0].sum()) == (5, 7)
    assert probe["numbers"]["left neighbour right"] > 0.99
    assert 0.4 < probe["numbers"]["right neighbour right"] < 0.6
