"""The table as a model: its probabilities, its errors, and that it records what a search reads."""

import pytest
import torch

from chapters.decoding.prefix_table import PrefixTable
from lib.data import BOS, EOS, PAD, Vocabulary
from lib.decoding import beam_search, greedy, length_penalty, sample
from lib.seq2seq import AttentionSeq2Seq
from tests.helpers import assert_close

ROWS = {
    (): {"a": 0.5, "b": 0.3, "<eos>": 0.2},
    ("a",): {"b": 0.75, "<eos>": 0.25},
    ("b",): {"<eos>": 1.0},
    ("a", "b"): {"<eos>": 1.0},
}
TWO = (torch.tensor([[EOS], [EOS]]), torch.tensor([1, 1]))


def test_steps_follow_the_rows():
    table = PrefixTable(ROWS)
    assert table.vocab.tokens[4:] == ("a", "b")
    a, b = table.number("a"), table.number("b")
    assert (a, b, table.number("<eos>")) == (4, 5, EOS)
    state = table.start(*TWO)
    logits, weights, state = table.step(torch.tensor([BOS, BOS]), state)
    assert weights is None
    wanted = torch.tensor([0, 0, 0.2, 0, 0.5, 0.3], dtype=torch.float64)
    assert_close(logits.exp(), wanted.expand(2, -1), 1e-12)
    logits, _, state = table.step(torch.tensor([a, EOS]), state)
    assert_close(
        logits[0].exp(), torch.tensor([0, 0, 0.25, 0, 0, 0.75], dtype=torch.float64), 1e-12
    )
    logits, _, state = table.step(torch.tensor([b, PAD]), state)
    assert_close(logits.exp(), torch.eye(6)[[EOS, EOS]].double(), 1e-12)


def test_every_decoder_runs_on_it():
    table = PrefixTable(ROWS)
    a, b = table.number("a"), table.number("b")
    assert greedy(table, *TWO, 5)[0].tolist() == [[a, b, EOS]] * 2
    tokens, scores = beam_search(table, *TWO, 5, beam=3, alpha=0.0)
    assert tokens.tolist() == [[a, b, EOS]] * 2
    assert scores.exp().tolist() == pytest.approx([0.375] * 2)
    many = (TWO[0].repeat(50, 1), TWO[1].repeat(50))
    said = {tuple(row) for row in sample(table, *many, 5).tolist()}
    assert said == {(a, b, EOS), (a, EOS, PAD), (b, EOS, PAD), (EOS, PAD, PAD)}


def test_rows_are_scaled_to_sum_to_one():
    table = PrefixTable({(): {"a": 0.5004, "<eos>": 0.5}, ("a",): {"<eos>": 1.0}})
    logits, _, _ = table.step(torch.tensor([BOS, BOS]), table.start(*TWO))
    assert logits.exp().sum(-1).tolist() == pytest.approx([1, 1], abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({("a",): {"<eos>": 1.0}}, r"expected a row for \(\)"),
        ({(): {"a": 0.5, "b": 0.4}}, r"after \(\), got the sum 0.9"),
        ({(): {"a": 1.0, "b": 0.0}}, "above 0"),
        ({(): {"a": float("nan")}}, "got the sum nan"),
    ],
)
def test_rows_that_are_no_distributions(rows, message):
    with pytest.raises(ValueError, match=message):
        PrefixTable(rows)


def test_a_beginning_that_is_not_listed():
    table = PrefixTable({(): {"a": 1.0}, ("a",): {"b": 1.0}})
    with pytest.raises(ValueError, match="one that goes on with 'b'; add a row for it"):
        greedy(table, *TWO, 5)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    return AttentionSeq2Seq(13, 11, 7, 17).double()


SOURCE_VOCAB = Vocabulary([f"s{i}" for i in range(9)])
TARGET_VOCAB = Vocabulary([f"t{i}" for i in range(7)])


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_recorded_from_a_model_it_gives_the_same_search(model, beam):
    """With all seven words and EOS kept, only PAD, BOS and UNK are missing."""
    source = ["s1", "s4", "s7"]
    table = PrefixTable.from_model(
        model, source, SOURCE_VOCAB, TARGET_VOCAB, max_length=6, beam=3, alpha=2.0, keep=8
    )
    for alpha in (0.0, 0.6, 2.0):
        tokens, scores = beam_search(table, *(x[:1] for x in TWO), 6, beam=beam, alpha=alpha)
        said = [table.vocab.tokens[i] for i in tokens[0].tolist()]
        ids = torch.tensor(
            [[EOS if word == "<eos>" else TARGET_VOCAB.encode([word])[0] for word in said]]
        )
        target_in = torch.cat([torch.tensor([[BOS]]), ids[:, :-1]], 1)
        encoded = torch.tensor([[*SOURCE_VOCAB.encode(source), EOS]])
        logits = model(encoded, torch.tensor([4]), target_in)
        logits[..., [PAD, BOS, 3]] = -torch.inf
        total = logits.log_softmax(-1).gather(-1, ids[..., None]).sum().item()
        assert scores.item() == pytest.approx(total / length_penalty(len(said), alpha))


def test_recording_keeps_the_likeliest(model):
    arguments = (model, ["s1"], SOURCE_VOCAB, TARGET_VOCAB)
    table = PrefixTable.from_model(*arguments, max_length=4, beam=2, keep=3)
    assert all(len(row) == 3 for row in table.rows.values())
    assert all(
        list(row.values()) == sorted(row.values(), reverse=True) for row in table.rows.values()
    )
    with pytest.raises(ValueError, match="keep of at least the beam, 4, got 3"):
        PrefixTable.from_model(*arguments, max_length=4, beam=4, keep=3)
