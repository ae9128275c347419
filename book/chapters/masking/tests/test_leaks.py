"""A decoder that sees one word of those that come later."""

import pytest
import torch

from chapters.masking.experiments.leak_seeds import next_words
from chapters.masking.experiments.mask_seeds import FutureForgotten
from chapters.masking.leaks import FiveOn, WordAfterNext, with_later_word
from lib.data import Pair, Vocabulary, make_batch
from lib.masks import causal_mask
from lib.transformer import Config, Transformer


@pytest.mark.parametrize("on", [2, 5])
def test_one_later_key_is_open(on: int):
    opened = [[j <= i or j == i + on for j in range(7)] for i in range(7)]
    assert with_later_word(7, on=on).tolist() == opened
    assert torch.equal(with_later_word(3, 7, on=on), with_later_word(7, on=on)[-3:])
    assert with_later_word(1, on=on).tolist() == [[True]]
    assert with_later_word(3, on=on, device=torch.device("meta")).device.type == "meta"


@pytest.mark.parametrize(("model_class", "on"), [(WordAfterNext, 2), (FiveOn, 5)])
def test_each_position_depends_on_that_word_and_not_on_the_answer(
    model_class: type[WordAfterNext], on: int
):
    torch.manual_seed(0)
    model = model_class(Config(9, 14, d_model=8, n_heads=2, d_ff=8, n_layers=1)).eval()
    source, lengths, target = torch.tensor([[4, 5]]), torch.tensor([2]), torch.arange(4, 11)[None]
    logits = model(source, lengths, target)
    for j in range(7):
        changed = target.clone()
        changed[0, j] = 13
        moved = (model(source, lengths, changed) != logits).any(-1)[0].tolist()
        assert moved == [j <= i or j == i + on for i in range(7)]


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
