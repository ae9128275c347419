"""The one-stack model: causal, the same step by step, and able to learn a text by heart."""

import pytest
import torch
from torch.nn import functional as F

from lib.data import BOS, EOS
from lib.decoding import beam_search, greedy, length_penalty, sample
from lib.masks import causal_mask
from lib.positions import SCHEMES
from lib.transformer import Config, LanguageModel, OneStack
from tests.helpers import assert_close, unchecked

EVERY_SCHEME = pytest.mark.parametrize("positions", SCHEMES)


def small(**changes):
    torch.manual_seed(0)
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2, "dropout": 0.0}
    return LanguageModel(Config(29, **(sizes | changes)))


def tokens(batch=3, time=41):
    return torch.randint(29, (batch, time), generator=torch.Generator().manual_seed(0))


@EVERY_SCHEME
def test_a_later_token_changes_nothing_earlier(positions):
    model, text = small(positions=positions), tokens()
    changed = text.clone()
    changed[:, 17] = (text[:, 17] + 1) % 29
    before, after = model(text), model(changed)
    assert torch.equal(after[:, :17], before[:, :17])
    assert not torch.equal(after[:, 17], before[:, 17])


@EVERY_SCHEME
def test_step_by_step_and_after_a_prefix_it_is_the_same(positions):
    model, text = small(positions=positions, norm="pre").eval(), tokens()
    wanted = model(text)
    state = model.start()
    with torch.no_grad():
        assert_close(model(text[:, :7], state), wanted[:, :7], 1e-5)
    for t in range(7, 41):
        logits, weights, state = model.step(text[:, t], state)
        assert weights is None
        assert_close(logits, wanted[:, t], 1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_it_has_one_embedding_and_no_cross_attention(tied):
    model = small(tied=tied)
    assert (model.projection.weight is model.embedding.weight) == tied
    layer = 4 * (24 * 24 + 24) + 2 * 24 * 37 + 37 + 24 + 2 * 2 * 24
    assert sum(p.numel() for p in model.parameters()) == 2 * layer + (1 if tied else 2) * 29 * 24


@EVERY_SCHEME
def test_every_decoder_continues_a_prefix(positions):
    """As if the whole text were read anew for each token."""
    model, begun = small(positions=positions, norm="pre").eval(), tokens(batch=3, time=5)
    torch.nn.init.zeros_(model.embedding.weight.data[EOS])  # its logit is 0, so no text ends
    lengths = torch.full((3,), 5)
    wanted = begun
    for _ in range(6):
        wanted = torch.cat([wanted, model(wanted)[:, -1:].argmax(-1)], dim=1)
    said, weights = greedy(model, begun, lengths, 6)
    assert torch.equal(said, wanted[:, 5:])
    assert weights is None
    assert torch.equal(sample(model, begun, lengths, 6, top_k=1), said)
    found, score = beam_search(model, begun, lengths, 6, beam=1, alpha=0.0)
    assert torch.equal(found, said)
    log_p = model(wanted[:, :-1]).log_softmax(-1)[:, 4:]
    assert_close(score, log_p.gather(-1, said[..., None])[..., 0].sum(1).double(), 1e-4)


def test_beams_of_a_language_model_are_those_of_all_continuations():
    model, begun = small(norm="pre").eval(), tokens(batch=2, time=4)
    found, score = beam_search(model, begun, torch.tensor([4, 4]), 2, beam=29, alpha=0.0)
    with torch.no_grad():
        first = model(begun)[:, -1].log_softmax(-1)  # (batch, vocab)
        longer = torch.stack([torch.cat([begun, torch.full((2, 1), w)], 1) for w in range(29)], 1)
        then = model(longer.flatten(0, 1))[:, -1].log_softmax(-1).view(2, 29, 29)
    both = (first[..., None] + then).flatten(1)
    ended = torch.maximum(first[:, EOS], both.view(2, 29, 29)[..., EOS].amax(1))
    assert_close(score, ended.double(), 1e-4)
    assert (found == EOS).any(dim=1).all()


@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_the_length_of_a_beam_is_that_of_the_new_tokens(alpha):
    """The penalty of six, though the texts have eleven."""
    model, begun = small(norm="pre").eval(), tokens(batch=3, time=5)
    torch.nn.init.zeros_(model.embedding.weight.data[EOS])  # its logit is 0, so no text ends
    lengths = torch.full((3,), 5)
    said, log_p = beam_search(model, begun, lengths, 6, beam=1, alpha=0.0)
    again, score = beam_search(model, begun, lengths, 6, beam=1, alpha=alpha)
    assert said.shape == (3, 6)
    assert torch.equal(again, said)
    assert_close(score, log_p / length_penalty(6, alpha), 1e-9)


@EVERY_SCHEME
def test_beams_after_a_prefix_do_not_mind_company(positions):
    """Hypotheses take their caches with them: each text gets what it gets alone."""
    model, begun = small(positions=positions, norm="pre").eval(), tokens(batch=4, time=5)
    said, score = beam_search(model, begun, torch.full((4,), 5), 7, beam=3)
    for row in range(4):
        alone, own = beam_search(model, begun[row : row + 1], torch.tensor([5]), 7, beam=3)
        assert torch.equal(alone[0], said[row, : alone.shape[1]])
        assert not said[row, alone.shape[1] :].any()
        assert_close(own[0], score[row], 1e-5)


def test_an_end_in_the_prefix_ends_nothing():
    model, begun = small(norm="pre").eval(), tokens(batch=2, time=5)
    begun[:, 2] = begun[:, -1] = EOS
    lengths = torch.full((2,), 5)
    wanted = model(begun)[:, -1].argmax(-1)
    for said in (
        greedy(model, begun, lengths, 3)[0],
        sample(model, begun, lengths, 3, top_k=1),
        beam_search(model, begun, lengths, 1, beam=1)[0],
    ):
        assert torch.equal(said[:, 0], wanted)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_a_token_is_drawn_as_the_prefix_says(temperature):
    model, begun = small(norm="pre").eval(), tokens(batch=1, time=5).expand(4000, -1)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.full((4000,), 5)
    said = sample(model, begun, lengths, 1, temperature=temperature, generator=generator)
    wanted = (model(begun[:1])[0, -1] / temperature).softmax(-1)
    got = said[:, 0].bincount(minlength=29) / 4000
    spread = (wanted * (1 - wanted) / 4000).sqrt()  # of the share of 4,000 draws
    assert ((got - wanted).abs() <= 5 * spread + 1e-3).all()
    assert wanted.max() > 2 * wanted.median()  # not as if all were alike


def test_learned_positions_bound_the_prefix_and_what_follows():
    """The last new token is never fed: eight positions are enough for five and four tokens."""
    model, begun = small(positions="learned", max_length=8).eval(), tokens(batch=2, time=5)
    torch.nn.init.zeros_(model.embedding.weight.data[EOS])
    lengths = torch.full((2,), 5)
    for decoder in (greedy, sample, beam_search):
        decoder(model, begun, lengths, 4)
        with pytest.raises(ValueError, match="at most max_length=8 positions, got 9"):
            decoder(model, begun, lengths, 5)


def test_a_prefix_of_one_token_needs_no_reading():
    model, begun = small().eval(), torch.tensor([[BOS], [BOS]])
    said, _ = greedy(model, begun, torch.tensor([1, 1]), 3)
    assert torch.equal(said[:, 0], model(begun)[:, 0].argmax(-1))


@pytest.mark.parametrize(("time", "lengths"), [(5, [5, 3]), (5, [4, 4]), (0, [0, 0])])
def test_prefixes_that_cannot_be_continued_together(time, lengths):
    message = "expected prefixes of one length, of at least one token, such as BOS, got"
    with pytest.raises(ValueError, match=message):
        sample(small(), tokens(2, time), torch.tensor(lengths), 3)


@pytest.mark.parametrize("decoder", [greedy, sample, beam_search])
@pytest.mark.parametrize("shape", [(5,), (0, 5), (3, 5), (2, 5, 1)])
def test_prefixes_that_are_no_batch_of_as_many_as_the_lengths(decoder, shape):
    wanted = "expected prefixes of one length|too many indices for tensor of dimension 1"
    with unchecked(), pytest.raises((ValueError, IndexError), match=wanted):
        decoder(small(), torch.ones(shape, dtype=torch.int64), torch.tensor([5, 5]), 3)


def test_it_learns_a_text_by_heart():
    model, text = small(positions="rotary", norm="pre"), tokens(batch=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(text[:, :-1]).argmax(-1) == text[:, 1:]).all()


@EVERY_SCHEME
def test_one_stack_under_a_causal_mask_is_the_language_model(positions):
    model, text = small(positions=positions, norm="pre").eval(), tokens()
    stack = OneStack(model.config).eval()
    names = {name: name.replace("decoder.", "encoder.") for name in model.state_dict()}
    stack.load_state_dict({names[name]: t for name, t in model.state_dict().items()})
    assert_close(stack(text, causal_mask(text.shape[1])), model(text), 1e-5)
    assert (stack(text) - model(text)).abs().max() > 0.01  # without a mask it sees what follows
