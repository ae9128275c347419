"""Greedy decoding: stops at the end, feeds back its own choice, and does not mind company."""

import copy

import pytest
import torch
from torch import nn

from lib.data import BOS, EOS, PAD, Pair, Vocabulary, make_batch
from lib.decoding import (
    BATCH_SIZE,
    beam_search,
    greedy,
    sample,
    select_rows,
    store_by_columns,
    translate,
)
from lib.positions import SCHEMES
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.transformer import Config, Transformer
from tests.helpers import assert_close, unchecked
from train.checkpoints import load_model, save_model

SOURCE_VOCAB, TARGET_VOCAB = 13, 11
SOURCE = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 10, EOS, PAD]])
LENGTHS = torch.tensor([4, 2, 3])
# What the scripted model wants to say; it talks on after its end.
SCRIPT = torch.tensor([[5, 6, 7, EOS, 5], [8, EOS, 9, 9, 5], [9, 10, EOS, 9, 5]])
SAID = [[5, 6, 7, EOS], [8, EOS, PAD, PAD], [9, 10, EOS, PAD]]


class Scripted(nn.Module):
    """Follows the script whatever it reads, and remembers what it was fed."""

    def __init__(self, with_weights=False):
        super().__init__()
        self.fed, self.with_weights = [], with_weights

    def start(self, source, source_lengths):
        assert not self.training
        return 0

    def step(self, token, place):
        self.fed.append(token.tolist())
        logits = nn.functional.one_hot(SCRIPT[:, place], TARGET_VOCAB).float()
        weights = torch.full(SOURCE.shape, float(place)) if self.with_weights else None
        return logits, weights, place + 1


def test_stops_after_the_last_end_and_pads_the_others():
    tokens, weights = greedy(Scripted(), SOURCE, LENGTHS, max_length=17)
    assert tokens.tolist() == SAID
    assert weights is None


def test_feeds_back_what_it_said():
    model = Scripted()
    greedy(model, SOURCE, LENGTHS, max_length=17)
    said = torch.tensor(SAID)
    fed = torch.cat([torch.full((3, 1), BOS), said[:, :-1]], dim=1)
    assert torch.tensor(model.fed).T.tolist() == fed.tolist()


@pytest.mark.parametrize("continues", [True, False])
def test_a_model_that_continues_is_fed_the_last_token_first(continues):
    model = Scripted()
    model.continues = continues
    said, _ = greedy(model, SOURCE, LENGTHS, max_length=2)
    first = SOURCE[:, -1].tolist() if continues else [BOS] * 3
    assert model.fed == [first, said[:, 0].tolist()]


def test_stops_at_the_limit():
    tokens, _ = greedy(Scripted(), SOURCE, LENGTHS, max_length=2)
    assert tokens.tolist() == [row[:2] for row in SAID]


def test_weights_have_one_row_for_each_token():
    _, weights = greedy(Scripted(with_weights=True), SOURCE, LENGTHS, max_length=17)
    assert weights.shape == (3, 4, 4)
    assert weights[0, :, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", [True, False])
def test_leaves_the_mode_as_it_was(mode):
    model = Scripted().train(mode)
    greedy(model, SOURCE, LENGTHS, max_length=1)
    assert model.training is mode


def test_needs_room_for_a_token():
    with pytest.raises(ValueError, match="expected max_length of at least 1, got 0"):
        greedy(Scripted(), SOURCE, LENGTHS, max_length=0)


@pytest.fixture(params=[Seq2Seq, AttentionSeq2Seq], ids=lambda model: model.__name__)
def model(request):
    torch.manual_seed(0)
    return request.param(SOURCE_VOCAB, TARGET_VOCAB, 7, 17).double()


def test_each_token_is_the_likeliest_after_those_before_it(model):
    """Teacher forcing on its own output must give the same choices."""
    tokens, _ = greedy(model, SOURCE, LENGTHS, max_length=7)
    target_in = torch.cat([torch.full((3, 1), BOS), tokens[:, :-1]], dim=1)
    likeliest = model(SOURCE, LENGTHS, target_in).argmax(-1)
    real = tokens != PAD
    assert torch.equal(tokens[real], likeliest[real])
    assert not tokens.requires_grad


def test_a_sentence_is_the_same_alone_and_in_a_batch(model):
    tokens, weights = greedy(model, SOURCE, LENGTHS, max_length=7)
    for row, length in enumerate(LENGTHS.tolist()):
        source, lengths = SOURCE[row : row + 1, :length], LENGTHS[row : row + 1]
        alone, alone_weights = greedy(model, source, lengths, max_length=7)
        steps = alone.shape[1]
        assert torch.equal(alone[0], tokens[row, :steps])
        if weights is not None:
            torch.testing.assert_close(alone_weights[0], weights[row, :steps, :length])
            assert (weights[row, :, length:] == 0).all()


def test_translate_keeps_the_order_over_several_batches():
    words = [f"w{i}" for i in range(7)]
    vocab = Vocabulary(words)
    pairs = [Pair(tuple(words[: 1 + i % 5]), ("w0",)) for i in range(BATCH_SIZE + 3)]
    torch.manual_seed(0)
    model = Seq2Seq(len(vocab), len(vocab), 7, 17)
    sentences = translate(model, pairs, vocab, vocab, max_length=5)
    assert len(sentences) == len(pairs)
    for i in (0, 1, 4, BATCH_SIZE, BATCH_SIZE + 2):
        assert sentences[i] == translate(model, pairs[i : i + 1], vocab, vocab, max_length=5)[0]


def test_translate_with_a_beam():
    words = [f"w{i}" for i in range(7)]
    vocab = Vocabulary(words)
    pairs = [Pair(tuple(words[: 1 + i % 5]), ("w0",)) for i in range(7)]
    torch.manual_seed(0)
    model = Seq2Seq(len(vocab), len(vocab), 7, 17).double()
    assert translate(model, pairs, vocab, vocab, max_length=5, beam=1) == translate(
        model, pairs, vocab, vocab, max_length=5
    )
    batch = make_batch(pairs, vocab, vocab)
    tokens, _ = beam_search(model, batch.source, batch.source_lengths, 5, beam=3, alpha=2.0)
    said = translate(model, pairs, vocab, vocab, max_length=5, beam=3, alpha=2.0)
    assert said == [vocab.decode(row) for row in tokens]


# The cache, in every scheme of positions


def transformer(positions, dtype=torch.float32):
    torch.manual_seed(0)
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2, "dropout": 0.0}
    config = Config(SOURCE_VOCAB, TARGET_VOCAB, positions=positions, tied=False, **sizes)
    return Transformer(config).to(dtype).eval()


@torch.no_grad()
def uncached(model, source, lengths, max_length):
    """The whole model anew for each token: the tokens, and the logits of each step."""
    target = torch.full((len(source), 1), BOS)
    ended = torch.zeros(len(source), dtype=torch.bool)
    steps = []
    while target.shape[1] <= max_length and not ended.all():
        steps.append(model(source, lengths, target)[:, -1])
        token = steps[-1].argmax(-1).masked_fill(ended, PAD)
        ended |= token == EOS
        target = torch.cat([target, token[:, None]], 1)
    return target[:, 1:], torch.stack(steps, 1)


@pytest.mark.parametrize("positions", SCHEMES)
def test_steps_equal_teacher_forcing_where_rows_end_at_different_times(positions):
    """Sources of 4, 2 and 3 tokens with padding; targets of 37, 1 and 5, PAD after their end."""
    model = transformer(positions)
    ends, time = torch.tensor([37, 1, 5]), 37
    generator = torch.Generator().manual_seed(1)
    said = torch.randint(EOS + 1, TARGET_VOCAB, (3, time), generator=generator)
    said[torch.arange(3), ends - 1] = EOS
    real = torch.arange(time) < ends[:, None]
    said = said.masked_fill(~real, PAD)
    target_in = torch.cat([torch.full((3, 1), BOS), said[:, :-1]], 1)
    wanted = model(SOURCE, LENGTHS, target_in)
    state, steps = model.start(SOURCE, LENGTHS), []
    for token in target_in.unbind(1):
        logits, _, state = model.step(token, state)
        steps.append(logits)
    assert_close(torch.stack(steps, 1)[real], wanted[real], 1e-5)
    for row, (length, end) in enumerate(zip(LENGTHS.tolist(), ends.tolist(), strict=True)):
        one = slice(row, row + 1)
        alone = model(SOURCE[one, :length], LENGTHS[one], target_in[one, :end])
        assert_close(torch.stack(steps, 1)[one, :end], alone, 1e-5)


@pytest.mark.parametrize("positions", SCHEMES)
def test_cached_equals_uncached_token_for_token(positions):
    """41 steps, past the room that the cache has at first."""
    model = transformer(positions, torch.float64)
    wanted, logits = uncached(model, SOURCE, LENGTHS, 41)
    tokens, _ = greedy(model, SOURCE, LENGTHS, 41)
    assert torch.equal(tokens, wanted)
    state, token = model.start(SOURCE, LENGTHS), torch.full((3,), BOS)
    for t in range(wanted.shape[1]):
        step, _, state = model.step(token, state)
        assert_close(step, logits[:, t], 1e-12)
        token = wanted[:, t]


# The order of the weights in memory


class Interrupted(nn.Module):
    """Stops in the middle of a sentence."""

    def start(self, source, source_lengths):
        assert not self.training
        return ()

    def step(self, token, state):
        raise KeyboardInterrupt


@pytest.mark.parametrize("was_training", [True, False])
@pytest.mark.parametrize("decoder", [greedy, sample, beam_search])
def test_after_an_error_a_model_is_in_the_mode_that_it_came_in(decoder, was_training):
    model = Interrupted().train(was_training)
    with pytest.raises(KeyboardInterrupt):
        decoder(model, torch.tensor([[5, EOS]]), torch.tensor([2]), 7)
    assert model.training == was_training


def test_weights_by_columns_are_the_same_model(tmp_path):
    """The same numbers in the same parameters; it decodes, learns and is saved as before."""
    torch.manual_seed(0)
    model = Transformer(Config(29, 31, d_model=24, n_heads=3, d_ff=37, n_layers=2, dropout=0.0))
    model.double()
    before, kept = copy.deepcopy(model), list(model.parameters())
    source, lengths = torch.randint(4, 29, (5, 7)), torch.tensor([7, 3, 1, 5, 7])
    assert store_by_columns(model) is model
    assert all(a is b for a, b in zip(kept, model.parameters(), strict=True))
    linear = [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)]
    assert linear
    assert all(weight.t().is_contiguous() for weight in linear)
    for a, b in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(a, b)
    inputs = source, lengths, torch.randint(4, 31, (5, 11))
    assert_close(model(*inputs), before(*inputs), 1e-12)
    assert torch.equal(greedy(model, source, lengths, 9)[0], greedy(before, source, lengths, 9)[0])
    for one in (model, before):
        one(*inputs).square().mean().backward()
        torch.optim.SGD(one.parameters(), lr=0.1).step()
    for a, b in zip(model.parameters(), before.parameters(), strict=True):
        assert_close(a, b, 1e-12)
    words = [Vocabulary([f"w{i}" for i in range(n - 4)]) for n in (29, 31)]
    save_model(tmp_path / "model.safetensors", model, *words)
    loaded, *_ = load_model(tmp_path / "model.safetensors")
    for a, b in zip(model.parameters(), loaded.parameters(), strict=True):
        assert_close(a.float(), b, 1e-6)


class Says(nn.Module):
    """Gives the same logits at each step."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.tensor(logits)

    def start(self, source, source_lengths):
        return source[:, 0].float()

    def step(self, token, state):
        return self.logits.expand(len(token), -1), None, state


NAN, INF = float("nan"), float("inf")
WAYS = [
    greedy,
    sample,
    beam_search,
    lambda *inputs: beam_search(*inputs, beam=1),
    lambda *inputs: sample(*inputs, top_k=2, top_p=0.9),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "logits", [[NAN] * 5, [0.0, 1, NAN, 2, 3], [-INF] * 5, [0.0, 1, INF, 0, 0]]
)
def test_logits_that_are_no_numbers_are_refused_alike(way, logits):
    with pytest.raises(ValueError, match=r"^expected logits that leave each sentence a token, got"):
        way(Says(logits), SOURCE, LENGTHS, 7)


@pytest.mark.parametrize("way", WAYS)
def test_what_an_ended_sentence_gets_is_read_by_nobody(way):
    class Ends(Says):
        def step(self, token, state):
            logits, _, state = super().step(token, state)
            other = torch.tensor([NAN] * 5)
            logits = torch.where((token == EOS)[:, None], other, logits.clone())
            logits = torch.where((token == PAD)[:, None], other, logits)
            return logits.index_fill(0, (state < 5).nonzero()[:, 0], 0.0), None, state

    source = torch.tensor([[4, 4], [9, 9]])
    model = Ends([-INF, -INF, 9.0, -INF, -INF])
    tokens = way(model, source, torch.tensor([2, 2]), 3)
    tokens = tokens[0] if isinstance(tokens, tuple) else tokens
    assert tokens[1, 0] == EOS


@pytest.mark.parametrize("way", WAYS)
def test_whatever_the_source_is_made_of_the_first_token_is_a_number(way):
    """Pictures are real numbers, and an embedding takes integers alone."""

    class Describes(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.fed = nn.Embedding(TARGET_VOCAB, TARGET_VOCAB), []

        def start(self, source, source_lengths):
            return source.mean(dim=(1, 2, 3))

        def step(self, token, state):
            self.fed.append(token)
            return self.embedding(token) + state[:, None], None, state

    model, pictures = Describes(), torch.rand(2, 1, 5, 7)
    with unchecked():  # the signatures promise less: sources of tokens
        way(model, pictures, torch.tensor([7, 7]), 3)
    assert not model.fed[0].is_floating_point()
    assert set(model.fed[0].tolist()) == {BOS}


def test_a_temperature_that_overflows_is_named():
    with pytest.raises(ValueError, match="and at the temperature if it is near 0"):
        sample(Says([1.0, 2, 3, 4, 5]), SOURCE, LENGTHS, 7, temperature=1e-44)


def test_one_sentence_without_a_choice_is_not_hidden_by_another():
    """The largest logit of each position of the vocabulary is finite here, that of a row not."""

    class OneSided(Says):
        def step(self, token, state):
            logits, _, state = super().step(token, state)
            return torch.stack([logits[0], torch.full((5,), -INF)]), None, state

    with pytest.raises(ValueError, match="expected logits that leave each sentence a token"):
        greedy(OneSided([1.0, 2, 3, 4, 5]), torch.tensor([[4], [4]]), torch.tensor([1, 1]), 3)


def test_translate_passes_the_penalty_on():
    """The end at once has 0.55, a word and the end 0.45: a penalty prefers the second."""

    class Fork(Says):
        def step(self, token, state):
            first = torch.tensor([0, 0, 0.55, 0, 0.45]).log()
            then = torch.tensor([0, 0, 1.0, 0, 0]).log()
            return torch.stack([first if t == BOS else then for t in token.tolist()]), None, state

    model, vocab, pairs = Fork([0.0]), Vocabulary(["a"]), [Pair(("a",), ("a",))]
    model.weight = nn.Parameter(torch.zeros(1))  # tells the device
    for alpha, said in ((0.0, []), (3.0, ["a"])):
        assert translate(model, pairs, vocab, vocab, max_length=3, beam=2, alpha=alpha) == [said]


def test_rows_that_a_state_does_not_have():
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        select_rows(torch.randn(2, 3), torch.tensor([2]))
    with unchecked(), pytest.raises(IndexError, match="too many indices"):
        select_rows(torch.tensor(1.0), torch.tensor([0]))
