"""Sampling: what stays after each filter, and that tokens are drawn as often as they should."""

import itertools
import random
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TopPLogitsWarper,
)

from lib.data import BOS, EOS, PAD
from lib.decoding import (
    greedy,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalise_repetition,
    sample,
    with_temperature,
)
from lib.seq2seq import Seq2Seq
from lib.transformer import Config, LanguageModel
from tests.helpers import assert_close, normal

INF = float("inf")
CHANCES = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2], [0.2, 0.2, 0.2, 0.2, 0.2]])
LOGITS = CHANCES.double().log() + 3  # any constant may be added


def kept(logits):
    return [[i for i, x in enumerate(row) if x > -INF] for row in logits.tolist()]


def test_temperature_is_a_power():
    for temperature in (0.5, 1.0, 3.0):
        power = CHANCES.double() ** (1 / temperature)
        wanted = power / power.sum(-1, keepdim=True)
        assert_close(with_temperature(LOGITS, temperature).softmax(-1), wanted, 1e-12)
    cold = with_temperature(LOGITS[:1], 1e-3).softmax(-1)
    assert_close(cold, torch.tensor([[0.0, 1.0, 0, 0, 0]]).double(), 1e-12)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature_must_be_above_zero(temperature):
    with pytest.raises(ValueError, match=r"above 0, got .*; greedy decoding is its limit"):
        with_temperature(LOGITS, temperature)


def test_top_k_keeps_exactly_k():
    assert kept(keep_top_k(LOGITS, 1))[0] == [1]
    assert kept(keep_top_k(LOGITS, 3))[0] == [1, 3, 4]
    assert [len(row) for row in kept(keep_top_k(LOGITS, 3))] == [3, 3], "equal ones too"
    for k in (5, 7):
        assert torch.equal(keep_top_k(LOGITS, k), LOGITS)
    with pytest.raises(ValueError, match="expected k of at least 1, got 0; k = 1 is greedy"):
        keep_top_k(LOGITS, 0)


@pytest.mark.parametrize(
    ("p", "wanted"),
    [
        (0.01, [1]),
        (0.39, [1]),
        (0.41, [1, 3]),
        (0.64, [1, 3]),
        (0.66, [1, 3, 4]),
        (0.86, [0, 1, 3, 4]),
    ],
)
def test_top_p_keeps_the_token_that_crosses(p, wanted):
    assert kept(keep_top_p(LOGITS, p))[0] == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_top_p_that_is_a_sum_of_probabilities_keeps_those_alone(order, dtype):
    """In float32 .5 + .3 comes out below .8, and a third token was kept."""
    logits = torch.tensor([0.3, 0.1, 0.1, 0.5], dtype=dtype).log()[list(order)]
    assert (keep_top_p(logits, 0.8) > -INF).sum() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.8, 0.95])
def test_top_p_equals_hugging_face(p, dtype):
    logits = 3 * torch.randn(200, 31, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(keep_top_p(logits, p), TopPLogitsWarper(p)(None, logits))


def test_top_p_of_one_keeps_all_however_unlikely():
    logits = torch.tensor([0.0, -200.0, -50.0])
    assert torch.equal(keep_top_p(logits, 1.0), logits)
    for p in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            keep_top_p(logits, p)


@pytest.mark.parametrize(
    ("p", "wanted"),
    [(1.0, [1]), (0.63, [1]), (0.62, [1, 3]), (0.5, [1, 3, 4]), (0.13, [0, 1, 3, 4])],
)
def test_min_p_keeps_what_is_not_much_less_likely_than_the_likeliest(p, wanted):
    """0.25 / 0.4 is 0.625, and so on; of equals all stay."""
    assert kept(keep_min_p(LOGITS, p)) == [wanted, [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.001, 0.05, 0.3, 0.9])
def test_min_p_equals_its_definition_and_hugging_face(p, dtype):
    logits = 3 * torch.randn(200, 31, generator=torch.Generator().manual_seed(0)).to(dtype)
    chance = logits.softmax(-1)
    naive = [[x if q >= p * max(c) else -INF for x, q in zip(row, c, strict=True)]
             for row, c in zip(logits.tolist(), chance.tolist(), strict=True)]  # fmt: skip
    assert keep_min_p(logits, p).tolist() == naive
    assert torch.equal(keep_min_p(logits, p), MinPLogitsWarper(p)(None, logits))


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, float("nan")])
def test_min_p_is_a_fraction(p):
    with pytest.raises(
        ValueError, match=r"above 0 and at most 1, got .*; p = 1 leaves the likeliest"
    ):
        keep_min_p(LOGITS, p)


@pytest.mark.parametrize("penalty", [0.8, 1.0, 1.3])
def test_repetition_equals_its_definition_and_hugging_face(penalty):
    generator = torch.Generator().manual_seed(0)
    logits, tokens = torch.randn(23, 31, generator=generator), torch.arange(31).repeat(23, 1)
    tokens = tokens[:, torch.randperm(31, generator=generator)[:11]]
    written = torch.zeros(23, 31, dtype=torch.bool).scatter(1, tokens, True)
    found = penalise_repetition(logits, written, penalty)
    for row, before, after in zip(tokens.tolist(), logits.tolist(), found.tolist(), strict=True):
        for word, x in enumerate(before):
            lower = x / penalty if x > 0 else x * penalty
            assert after[word] == pytest.approx(lower if word in row else x)
    assert torch.equal(found, RepetitionPenaltyLogitsProcessor(penalty)(tokens, logits.clone()))


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("nan")])
def test_a_penalty_is_above_zero(penalty):
    with pytest.raises(ValueError, match=r"penalty above 0, got .*; 1 changes nothing"):
        penalise_repetition(LOGITS, LOGITS > 0, penalty)


rows = st.lists(st.floats(-20, 20), min_size=1, max_size=11)


@given(rows, st.integers(1, 13), st.floats(0.01, 1.0))
def test_what_stays_is_unchanged_and_likelier_than_what_goes(row, k, p):
    logits = torch.tensor(row, dtype=torch.float64)
    for filtered in (keep_top_k(logits, k), keep_top_p(logits, p)):
        stays = filtered > -INF
        assert torch.equal(filtered[stays], logits[stays])
        assert stays.any()
        if not stays.all():
            assert logits[stays].min() >= logits[~stays].max()
    assert (keep_top_k(logits, k) > -INF).sum() == min(k, len(row))
    chance = logits.softmax(-1)
    nucleus = keep_top_p(logits, p) > -INF
    assert chance[nucleus].sum() >= p - 1e-9
    if nucleus.sum() > 1 and p < 1:
        assert chance[nucleus].sum() - chance[nucleus].min() < p + 1e-9


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
@pytest.mark.parametrize("keep", [lambda x: keep_top_k(x, 3), lambda x: keep_top_p(x, 0.5)])
def test_any_number_of_axes(keep, shape):
    logits = normal(*shape)
    for row, alone in zip(keep(logits).view(-1, 7), logits.view(-1, 7), strict=True):
        assert torch.equal(row, keep(alone))


class Dice(nn.Module):
    """Always the same distribution: EOS is token 2."""

    def start(self, source, source_lengths):
        assert not self.training
        return len(source)

    def step(self, token, batch):
        return CHANCES[0].log().expand(batch, -1), None, batch


MANY = (torch.full((20_000, 1), EOS), torch.ones(20_000, dtype=torch.long))


def shares(**arguments):
    generator = torch.Generator().manual_seed(0)
    tokens = sample(Dice(), *MANY, 1, generator=generator, **arguments)
    return torch.bincount(tokens[:, 0], minlength=5) / len(tokens)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, [0.1, 0.4, 0.05, 0.25, 0.2]),
        ({"top_k": 2}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"top_p": 0.5}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"top_k": 1}, [0, 1, 0, 0, 0]),
        # squared: 0.16, 0.0625, 0.04, 0.01, 0.0025 of 0.275
        ({"temperature": 0.5}, [0.0364, 0.5818, 0.0091, 0.2273, 0.1455]),
        ({"temperature": 0.5, "top_p": 0.58}, [0, 1, 0, 0, 0]),
        ({"top_p": 0.58}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"min_p": 0.6}, [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0]),
        ({"temperature": 0.5, "min_p": 0.6}, [0, 1, 0, 0, 0]),
        ({"min_length": 1}, [0.1 / 0.95, 0.4 / 0.95, 0, 0.25 / 0.95, 0.2 / 0.95]),
        # of what k leaves, 0.4 / 0.65 is more than 0.6 already
        ({"top_k": 2, "top_p": 0.6}, [0, 1, 0, 0, 0]),
    ],
    ids=str,
)
def test_drawn_as_often_as_the_distribution_says(arguments, wanted):
    """Five standard errors of a share are at most 0.018; what was cut away never comes."""
    got = shares(**arguments)
    assert_close(got, torch.tensor(wanted), 0.018)
    assert (got[torch.tensor(wanted) == 0] == 0).all()


def test_ends_and_pads():
    tokens = sample(Dice(), *MANY, 40, generator=torch.Generator().manual_seed(1))
    for row in tokens[:200].tolist():
        end = row.index(EOS) if EOS in row else len(row)
        assert EOS not in row[:end]
        assert all(token == PAD for token in row[end + 1 :])
    lengths = (tokens == EOS).float().argmax(1) + 1
    ended = (tokens == EOS).any(1)
    assert lengths[ended].float().mean().item() == pytest.approx(20 - 40 * 0.1285 / 0.8715, abs=0.6)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Seq2Seq(13, 11, 7, 17)


SOURCE = (torch.tensor([[5, 6, EOS], [8, EOS, PAD]]), torch.tensor([3, 2]))


def test_the_same_seed_gives_the_same_tokens(model):
    def draw(seed):
        return sample(model, *SOURCE, 17, generator=torch.Generator().manual_seed(seed)).tolist()

    assert draw(3) == draw(3)
    assert len({str(draw(seed)) for seed in range(5)}) > 1
    before = torch.random.get_rng_state()
    draw(0)
    assert torch.equal(torch.random.get_rng_state(), before), "the global generator is not touched"


@pytest.mark.parametrize("arguments", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
def test_its_limit_is_greedy(model, arguments):
    assert torch.equal(sample(model, *SOURCE, 7, **arguments), greedy(model, *SOURCE, 7)[0])


@pytest.mark.parametrize("mode", [True, False])
def test_leaves_the_mode_as_it_was(mode):
    model = Dice().train(mode)
    sample(model, *MANY, 1)
    assert model.training is mode


def test_needs_room_for_a_token():
    with pytest.raises(ValueError, match="expected max_length of at least 1, got 0"):
        sample(Dice(), *MANY, 0)


@pytest.mark.parametrize("shift", [0.0, 100.0, 10_000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_top_p_at_exact_borders(shift, dtype):
    """p is the sum of the first k chances, as a fraction: k are kept, however it rounds."""
    rng = random.Random(0)
    for _ in range(200):
        vocab = rng.choice([2, 3, 5, 11, 31])
        parts = sorted((rng.randint(1, 50) for _ in range(vocab)), reverse=True)
        k = rng.randint(1, vocab)
        logits = torch.tensor([parts]).double().log().add(shift).to(dtype)
        p = float(Fraction(sum(parts[:k]), sum(parts)))
        left = keep_top_p(logits, p).isfinite().sum().item()
        if logits.unique().numel() == len(set(parts)):  # a large shift rounds neighbours together
            assert left == k, (parts, k)


class Counts(nn.Module):
    """Prefers 4 to 5 to 6 ..., by log 2 each, whatever was written."""

    def __init__(self, continues):
        super().__init__()
        self.continues = continues

    def start(self, source, source_lengths):
        return len(source)

    def step(self, token, batch):
        logits = torch.arange(11, 0, -1).log2().expand(batch, -1).clone()
        logits[:, :4] = -INF
        return logits, None, batch


@pytest.mark.parametrize("continues", [False, True])
def test_a_huge_penalty_writes_each_word_once_the_prefix_included(continues):
    """All logits are above 0 and a penalty of 1e9 makes them 0: less likely than any other."""
    prefix = torch.tensor([[5, 8], [4, 6]])
    lengths, model = torch.tensor([2, 2]), Counts(continues)
    said = sample(model, prefix, lengths, 4, top_k=1, repetition_penalty=1e9)
    assert said.tolist() == ([[4, 6, 7, 9], [5, 7, 8, 9]] if continues else [[4, 5, 6, 7]] * 2)
    assert sample(model, prefix, lengths, 2, top_k=1).tolist() == [[4, 4]] * 2


def test_sampling_with_all_of_it_is_hugging_faces_choice_of_each_token():
    """top_k = 1 of the last filter: the likeliest of what its processors leave."""
    torch.manual_seed(0)
    model = LanguageModel(Config(13, None, 24, 3, 37, 2, dropout=0.0, tied=False)).eval()
    model.projection.weight.data[EOS] *= 3  # would often end
    begun, lengths = torch.randint(4, 13, (7, 5)), torch.full((7,), 5)
    said = sample(model, begun, lengths, 9, top_k=1, repetition_penalty=1.4, min_length=6)
    free = sample(model, begun, lengths, 9, top_k=1)
    penalty = RepetitionPenaltyLogitsProcessor(1.4)
    minimum = MinNewTokensLengthLogitsProcessor(5, 6, EOS, device="cpu")
    for row in range(7):
        text = begun[row : row + 1]
        for token in said[row].tolist():
            with torch.no_grad():
                scores = model(text)[:, -1]
            token_there = minimum(text, penalty(text, scores)).argmax(-1)
            assert token == token_there.item()
            if token == EOS:
                break
            text = torch.cat([text, token_there[:, None]], dim=1)
    assert ((free == EOS).float().argmax(1) < 6)[(free == EOS).any(1)].any()


@pytest.mark.parametrize("least", [0, 3, 7])
def test_greedy_with_a_minimum_length_is_hugging_faces(model, least):
    said, _ = greedy(model, *SOURCE, 7, min_length=least)
    minimum = MinNewTokensLengthLogitsProcessor(1, least, EOS, device="cpu")
    for row in range(2):
        target = torch.tensor([[BOS]])
        for token in said[row].tolist():
            with torch.no_grad():
                scores = model(SOURCE[0][row : row + 1], SOURCE[1][row : row + 1], target)[:, -1]
            chosen = minimum(target, scores).argmax(-1)
            assert token == chosen.item()
            if token == EOS:
                break
            target = torch.cat([target, chosen[:, None]], dim=1)
    assert (said[:, :least] != EOS).all()


@pytest.mark.parametrize("least", [-1, 8])
def test_a_minimum_length_is_at_most_the_maximum(model, least):
    with pytest.raises(ValueError, match=f"min_length from 0 to 7, got {least}"):
        sample(model, *SOURCE, 7, min_length=least)
