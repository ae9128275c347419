"""Beam search: between greedy and brute force, alone as in a batch, with any state."""

import itertools
import math
from copy import copy
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from lib.attention import KeyValueCache
from lib.data import BOS, EOS, PAD
from lib.decoding import beam_search, greedy, length_penalty, n_best, select_rows
from lib.positions import SCHEMES
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.transformer import Config, Transformer, TransformerState
from tests.helpers import assert_close, unchecked

SOURCE_VOCAB, VOCAB = 13, 7
SOURCE = torch.tensor([[5, 6, 7, 8, EOS], [8, EOS, PAD, PAD, PAD], [9, 10, EOS, PAD, PAD]])
LENGTHS = torch.tensor([5, 2, 3])


def transformer(seed=0, positions="rotary", vocab=VOCAB):
    torch.manual_seed(seed)
    config = Config(
        SOURCE_VOCAB, vocab, 24, 3, 37, 2, dropout=0.0, positions=positions, tied=False, norm="pre"
    )
    return Transformer(config).double()


def recurrent(kind, seed=0):
    torch.manual_seed(seed)
    return kind(SOURCE_VOCAB, VOCAB, 5, 11).double()


MODELS = {
    "transformer": transformer,
    "attention": lambda seed=0: recurrent(AttentionSeq2Seq, seed),
    "gru": lambda seed=0: recurrent(Seq2Seq, seed),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@torch.no_grad()
def log_probabilities(model, source, lengths, many):
    """By teacher forcing, for one source and many sentences of one length."""
    target = torch.tensor(many)
    n = len(target)
    target_in = torch.cat([torch.full((n, 1), BOS), target[:, :-1]], 1)
    logits = model.eval()(source.expand(n, -1), lengths.expand(n), target_in).log_softmax(-1)
    return logits.gather(-1, target.unsqueeze(-1)).sum((1, 2)).tolist()


def log_probability(model, source, lengths, sentence):
    return log_probabilities(model, source, lengths, [sentence])[0]


def sentences(max_length):
    """All that end with EOS within max_length tokens, one list for each length."""
    others = [token for token in range(VOCAB) if token != EOS]
    return [
        [[*words, EOS] for words in itertools.product(others, repeat=n)] for n in range(max_length)
    ]


def unpadded(row):
    ids = row.tolist()
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


# Penalty


def test_length_penalty():
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(19, 0.5) == 2
    assert length_penalty(23, 0.0) == 1
    for length, alpha in ((0, 0.6), (3, -0.1), (3, float("nan"))):
        with pytest.raises(ValueError, match="length of at least 1 and alpha from 0 to 50"):
            length_penalty(length, alpha)


# Between greedy and brute force


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(3))
@every_model
def test_a_beam_of_one_is_greedy(make, seed, alpha):
    model = make(seed)
    wanted, _ = greedy(model, SOURCE, LENGTHS, max_length=11)
    tokens, _ = beam_search(model, SOURCE, LENGTHS, 11, beam=1, alpha=alpha)
    assert torch.equal(tokens, wanted)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@every_model
def test_a_large_beam_is_brute_force(make, alpha):
    model, max_length = make(1), 4
    tokens, scores = beam_search(
        model, SOURCE, LENGTHS, max_length, beam=VOCAB**max_length, alpha=alpha
    )
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        every = {}
        for many in sentences(max_length):
            for said, p in zip(many, log_probabilities(model, source, lengths, many), strict=True):
                every[tuple(said)] = p / length_penalty(len(said), alpha)
        best = max(every, key=every.get)
        assert unpadded(tokens[row]) == list(best)
        assert scores[row].item() == pytest.approx(every[best], abs=1e-9)


@pytest.mark.parametrize("beam", [1, 2, 5])
@every_model
def test_score_is_the_penalised_log_probability(make, beam):
    model = make(2)
    tokens, scores = beam_search(model, SOURCE, LENGTHS, 11, beam=beam, alpha=0.6)
    for row in range(3):
        said = unpadded(tokens[row])
        one = slice(row, row + 1)
        wanted = log_probability(model, SOURCE[one], LENGTHS[one], said)
        assert scores[row].item() == pytest.approx(wanted / length_penalty(len(said), 0.6))
        assert (tokens[row, len(said) :] == PAD).all()


# A slow search, for one sentence, in plain Python: no batch, no cache, no early end


def slow_beam(model, source, lengths, max_length, beam, alpha, min_length=0):
    """What has ended, or been cut off where nothing has, the best first."""
    open_, ended = [([], 0.0)], []
    for length in range(1, max_length + 1):
        grown = [[*words, token] for words, _ in open_ for token in range(VOCAB)]
        grown = list(zip(grown, log_probabilities(model, source, lengths, grown), strict=True))
        if length <= min_length:
            grown = [one for one in grown if one[0][-1] != EOS]
        grown.sort(key=lambda one: -one[1])
        kept = grown[: beam - len(ended)]
        penalty = length_penalty(length, alpha)
        ended += [(words, p / penalty) for words, p in kept if words[-1] == EOS]
        open_ = [one for one in kept if one[0][-1] != EOS]
        if not open_:
            break
    if not ended:
        ended = [(words, p / length_penalty(len(words), alpha)) for words, p in open_]
        ended = [max(ended, key=lambda one: one[1])]
    return sorted(ended, key=lambda one: -one[1])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
@pytest.mark.parametrize("beam", [2, 3, 5])
@pytest.mark.parametrize("seed", range(2))
@every_model
def test_equals_the_slow_search_and_does_not_mind_company(make, seed, beam, alpha):
    """The slow one never ends early: ending early must not change what is found."""
    model = make(seed)
    tokens, scores = beam_search(model, SOURCE, LENGTHS, 6, beam=beam, alpha=alpha)
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        words, score = slow_beam(model, source, lengths, 6, beam, alpha)[0]
        assert unpadded(tokens[row]) == words
        assert scores[row].item() == pytest.approx(score, abs=1e-9)
        alone, alone_score = beam_search(model, source, lengths, 6, beam=beam, alpha=alpha)
        assert unpadded(alone[0]) == words
        assert_close(alone_score[0], scores[row], 1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
@pytest.mark.parametrize(("n", "beam"), [(2, 3), (5, 5), (4, 2)])
@every_model
def test_the_n_best_are_those_of_the_slow_search(make, n, beam, alpha):
    """The slow one never ends early. What has not ended is all PAD; the first is beam_search's."""
    model = make(1)
    tokens, scores = n_best(model, SOURCE, LENGTHS, 6, n=n, beam=beam, alpha=alpha)
    assert scores.shape == (3, n)
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        wanted = slow_beam(model, source, lengths, 6, beam, alpha)[:n]
        there = scores[row].isfinite()
        assert there.tolist() == [place < len(wanted) for place in range(n)]
        assert [unpadded(one) for one in tokens[row][there]] == [words for words, _ in wanted]
        assert scores[row][there].tolist() == pytest.approx([p for _, p in wanted], abs=1e-9)
        assert (tokens[row][~there] == PAD).all()
    best, score = beam_search(model, SOURCE, LENGTHS, 6, beam=beam, alpha=alpha)
    assert torch.equal(best, tokens[:, 0, : best.shape[1]])
    assert (tokens[:, 0, best.shape[1] :] == PAD).all()
    assert torch.equal(score, scores[:, 0])


@pytest.mark.parametrize("min_length", [1, 3, 5, 6])
@pytest.mark.parametrize("seed", range(3))
@every_model
def test_a_minimum_length_is_that_of_the_slow_search(make, seed, min_length):
    """The scores are the model's own: the end that may not be chosen keeps its probability."""
    model = make(seed)
    how = {"beam": 3, "alpha": 0.6, "min_length": min_length}
    tokens, scores = n_best(model, SOURCE, LENGTHS, 6, n=2, **how)
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        wanted = slow_beam(model, source, lengths, 6, **how)[:2]
        there = scores[row].isfinite()
        assert [unpadded(one) for one in tokens[row][there]] == [words for words, _ in wanted]
        assert scores[row][there].tolist() == pytest.approx([p for _, p in wanted], abs=1e-9)
    assert (tokens[:, :, :min_length] != EOS).all()


def test_a_model_that_can_only_end_is_an_error_before_the_minimum_length():
    with pytest.raises(ValueError, match="logits that leave each sentence a token"):
        beam_search(Table({(): {EOS: 1.0}}), *ONE, 5, min_length=1)


def test_the_second_best_is_found_before_the_search_stops():
    """B EOS has 0.4 after two steps; A A EOS, with 0.15, needs one more than the best one."""
    model = Table(GARDEN_PATH)
    tokens, scores = n_best(model, *ONE, 5, n=3, beam=4, alpha=0.0)
    assert len(model.fed) == 3
    assert [unpadded(one) for one in tokens[0]] == [[B, EOS], [A, A, EOS], [A, B, EOS]]
    assert scores[0].exp().tolist() == pytest.approx([0.4, 0.15, 0.5 * (0.3 - 1e-3)], rel=1e-6)


@pytest.mark.parametrize("positions", SCHEMES)
def test_every_position_scheme(positions):
    """Past the 32 positions that the cache has room for at first."""
    model = transformer(3, positions)
    model.projection.weight.data[EOS] = -1.0  # hardly ever ends
    tokens, scores = beam_search(model, SOURCE, LENGTHS, 41, beam=3)
    for row in range(3):
        said, one = unpadded(tokens[row]), slice(row, row + 1)
        wanted = log_probability(model, SOURCE[one], LENGTHS[one], said)
        assert scores[row].item() == pytest.approx(wanted / length_penalty(len(said), 0.6))
    assert tokens.shape[1] == 41


@pytest.mark.parametrize("batch", [1, 2, 7, 23])
@pytest.mark.parametrize("beam", [2, 5])
def test_a_shared_source_gives_the_same_numbers_as_a_copied_one(batch, beam, monkeypatch):
    """To the last bit, in float32: each row still has a kernel's call of one query."""
    model = transformer(3, vocab=31).float()
    source = torch.randint(4, SOURCE_VOCAB, (batch, 9), generator=torch.Generator().manual_seed(0))
    lengths = 1 + torch.arange(batch) * 5 % 9
    shared = n_best(model, source, lengths, 40, n=beam, beam=beam)
    seen = []

    def copied(self, rows):
        chosen = copy(self)
        chosen._key, chosen._value = self._key[rows], self._value[rows]
        return chosen

    def select(self, rows):
        seen.append(len(rows))
        caches = [cache.select(rows) for cache in self.caches]
        return TransformerState(self.memory[rows], self.memory_mask[rows], caches)

    monkeypatch.setattr(KeyValueCache, "select", copied)
    monkeypatch.setattr(TransformerState, "select", select)
    again = n_best(model, source, lengths, 40, n=beam, beam=beam)
    assert len(seen) > 1
    for one, other in zip(shared, again, strict=True):
        assert torch.equal(one, other)


# A model that follows a table, and counts what it is asked


class Table(nn.Module):
    """Next-token probabilities by the tokens said so far; counts steps and rows."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.fed = rows, []

    def start(self, source, source_lengths):
        assert not self.training
        return torch.zeros(len(source), 0, dtype=torch.long)

    def step(self, token, said):
        self.fed.append(token.tolist())
        said = torch.cat([said, token[:, None]], 1)
        logits = torch.full((len(said), VOCAB), -torch.inf)
        for i, row in enumerate(said.tolist()):
            for word, p in self.rows[tuple(row[1:])].items():
                logits[i, word] = torch.tensor(p).log()
        return logits, None, said


A, B, C = 4, 5, 6
# Greedy says A (0.5), then cannot do better than 0.3; B is followed by a certain end.
GARDEN_PATH = {
    (): {A: 0.5, B: 0.4, EOS: 0.1},
    (A,): {A: 0.3, B: 0.3 - 1e-3, C: 0.3 - 2e-3, EOS: 0.1 + 3e-3},
    (B,): {EOS: 1.0},
    (A, A): {EOS: 1.0},
    (A, B): {EOS: 1.0},
    (A, C): {EOS: 1.0},
}
ONE = (torch.tensor([[5, EOS]]), torch.tensor([2]))


def test_finds_what_greedy_misses():
    assert greedy(Table(GARDEN_PATH), *ONE, 5)[0].tolist() == [[A, A, EOS]]
    tokens, scores = beam_search(Table(GARDEN_PATH), *ONE, 5, beam=2, alpha=0.0)
    assert tokens.tolist() == [[B, EOS]]
    assert scores.exp().item() == pytest.approx(0.4, rel=1e-6)


def test_the_penalty_decides_between_short_and_long():
    """log p: -1.9 for two tokens, -2.2 for seven; lp(7) / lp(2) = 12 / 7 at alpha = 1."""
    rows = {(): {A: 0.75, B: 0.25}, (B,): {EOS: 0.6, C: 0.4}, (B, C): {EOS: 1.0}}
    rows |= {(A,) * n: {A: 1.0} for n in range(1, 6)} | {(A,) * 6: {EOS: 0.148, C: 0.852}}
    rows |= {(*(A,) * 6, *(C,) * n): {C: 1.0} for n in range(1, 9)}
    short, _ = beam_search(Table(rows), *ONE, 9, beam=4, alpha=0.0)
    long, _ = beam_search(Table(rows), *ONE, 9, beam=4, alpha=1.0)
    assert short.tolist() == [[B, EOS]]
    assert long.tolist() == [[A] * 6 + [EOS]]


def test_of_two_that_are_equally_good_the_shorter_stays():
    """log p: -log 2 for one token, -2 log 2 for two, with a penalty of exactly 2."""
    about = math.log(2) / math.log(7 / 6)
    near = (about * (1 + k * 2.0**-52) for k in range(-64, 65))
    alpha = next(a for a in near if length_penalty(2, a) == 2)
    rows = {(): {EOS: 0.5, A: 0.5}, (A,): {EOS: 0.5, B: 0.5}}
    tokens, scores = beam_search(Table(rows), *ONE, 2, beam=3, alpha=alpha)
    assert scores.item() == beam_search(Table({(): rows[()]}), *ONE, 1, beam=3, alpha=alpha)[1]
    assert tokens.tolist() == [[EOS]]


def test_stops_as_soon_as_nothing_can_overtake():
    """B EOS has 0.4 after two steps; what is open has 0.15, and could at most keep it."""
    model = Table(GARDEN_PATH)
    beam_search(model, *ONE, 5, beam=4, alpha=0.0)
    assert len(model.fed) == 2
    model = Table(GARDEN_PATH)
    beam_search(model, *ONE, 5, beam=4, alpha=3.0)  # now they still might
    assert len(model.fed) == 3


def test_an_ended_hypothesis_and_an_ended_sentence_cost_no_more_steps():
    model = Table(GARDEN_PATH)
    beam_search(model, *ONE, 5, beam=2, alpha=3.0)
    assert model.fed == [[BOS], [A, B], [A]]  # B EOS keeps its place, and nothing more is fed


def test_cut_off_where_nothing_ends():
    rows = {(A,) * n: {A: 0.8, B: 0.2} for n in range(7)}
    rows |= {(*(A,) * n, *(B,) * m): {B: 1.0} for n in range(5) for m in range(1, 5)}
    tokens, scores = beam_search(Table(rows), *ONE, 3, beam=2, alpha=0.6)
    assert tokens.tolist() == [[A, A, A]]
    assert scores.exp().item() == pytest.approx(0.8 ** (3 / length_penalty(3, 0.6)), rel=1e-6)


def test_one_that_ended_goes_before_one_cut_off():
    rows = {(A,) * n: {A: 0.99, EOS: 0.01} for n in range(7)}
    tokens, _ = beam_search(Table(rows), *ONE, 3, beam=2, alpha=0.0)
    assert tokens.tolist() == [[EOS]]


@pytest.mark.parametrize("mode", [True, False])
def test_leaves_the_mode_as_it_was(mode):
    model = Table(GARDEN_PATH).train(mode)
    beam_search(model, *ONE, 5)
    assert model.training is mode


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam": 0}, "expected n and a beam of at least 1, got n=1 and beam=0"),
        ({"max_length": 0}, "expected max_length of at least 1, got 0"),
        ({"min_length": 6}, "expected min_length from 0 to 5, got 6"),
        ({"min_length": -1}, "expected min_length from 0 to 5, got -1"),
        ({"alpha": -1.0}, "alpha from 0 to 50, got 5 and -1.0"),
    ],
)
def test_what_it_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        beam_search(Table(GARDEN_PATH), *ONE, **({"max_length": 5} | arguments))


def test_no_best_one_is_refused():
    with pytest.raises(ValueError, match="of at least 1, got n=0 and beam=4"):
        n_best(Table(GARDEN_PATH), *ONE, 5, n=0)


@pytest.mark.parametrize("bad", [float("nan"), -torch.inf])
def test_a_model_without_any_token_left_is_an_error(bad):
    class Broken(Table):
        def step(self, token, said):
            logits, _, said = super().step(token, said)
            return torch.full_like(logits, bad) if said.shape[1] > 1 else logits, None, said

    with pytest.raises(ValueError, match="expected logits that leave each sentence a token"):
        beam_search(Broken({(): {A: 1.0}, (A,): {EOS: 1.0}}), *ONE, 5)


# States


class Pair(NamedTuple):
    one: Tensor
    other: tuple


def test_select_rows_of_any_state():
    x, y, rows = torch.arange(5), torch.arange(10).view(5, 2), torch.tensor([3, 3, 0])
    chosen = select_rows(Pair(x, (y, None)), rows)
    assert isinstance(chosen, Pair)
    assert chosen.one.tolist() == [3, 3, 0]
    assert chosen.other[0].tolist() == [[6, 7], [6, 7], [0, 1]]
    assert chosen.other[1] is None


def test_a_state_without_rows_is_refused():
    with unchecked(), pytest.raises(ValueError, match=r"got dict; give it a method select\(rows\)"):
        select_rows({"s": torch.arange(3)}, torch.tensor([0]))


@pytest.mark.parametrize("alpha", [1e6, float("inf"), float("nan")])
def test_a_penalty_that_overflows(alpha):
    with pytest.raises(ValueError, match="alpha"):
        length_penalty(1000, alpha)


def test_logits_that_break_off_are_refused_though_something_has_ended():
    class Breaks(Table):
        def step(self, token, said):
            logits, weights, said = super().step(token, said)
            return logits if len(self.fed) == 1 else logits * torch.nan, weights, said

    with pytest.raises(ValueError, match="expected logits that leave each sentence a token"):
        beam_search(Breaks(GARDEN_PATH), *ONE, 5, beam=3, alpha=3.0)
