"""A decoder that sees the word after the one that it must predict."""

import torch

from chapters.masking.experiments.leak_seeds import next_words
from chapters.masking.experiments.mask_seeds import FutureForgotten
from chapters.masking.leaks import WordAfterNext, word_after_next
from lib.data import Pair, Vocabulary, make_batch
from lib.masks import causal_mask
from lib.transformer import Config, Transformer


def test_one_later_key_is_open_the_one_two_positions_on():
    opened = [[j <= i or j == i + 2 for j in range(5)] for i in range(5)]
    assert word_after_next(5).tolist() == opened
    assert torch.equal(word_after_next(2, 5), word_after_next(5)[-2:])
    assert word_after_next(1).tolist() == [[True]]
    assert word_after_next(3, device=torch.device("meta")).device.type == "meta"


def test_each_position_depends_on_that_word_and_not_on_the_answer():
    torch.manual_seed(0)
    model = WordAfterNext(Config(9, 11, d_model=8, n_heads=2, d_ff=8, n_layers=1)).eval()
    source, lengths, target = torch.tensor([[4, 5]]), torch.tensor([2]), torch.arange(4, 9)[None]
    logits = model(source, lengths, target)
    for j in range(5):
        changed = target.clone()
        changed[0, j] = 10
        moved = (model(source, lengths, changed) != logits).any(-1)[0].tolist()
        assert moved == [j <= i or j == i + 2 for i in range(5)]


def test_a_mask_can_be_put_in_place_of_the_one_that_was_forgotten():
    pairs = [Pair(("two", "euros"), ("deux", "euros")), Pair(("six",), ("six",))]
    sides = [Vocabulary.from_sentences(pair[side] for pair in pairs) for side in (0, 1)]
    batch = make_batch(pairs, *sides)
    forgotten = FutureForgotten(Config(*map(len, sides), d_model=8, n_heads=2, d_ff=8, n_layers=1))
    forgotten.eval()
    right = Transformer(forgotten.config).eval()
    right.load_state_dict(forgotten.state_dict())
    causal = causal_mask(batch.target_in.shape[1])
    assert torch.equal(next_words(forgotten, batch, causal), next_words(right, batch))
