"""An attention layer split by heads equals the whole one: by hand, by torch, on both ranks."""

import pytest

from chapters.distributed.tensor_parallel import AXES
from chapters.distributed.tests.in_workers import LAYERS, layer
from tests.helpers import assert_close

pytestmark = pytest.mark.slow  # each worker that runs one of these starts two processes
CASES = [
    *(f"{name}, {kind}" for name in list(LAYERS)[:2] for kind in ("self", "cross")),
    f"{list(LAYERS)[2]}, self",
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("split", ["by hand", "by torch"])
@pytest.mark.parametrize("rank", [0, 1])
def test_values_and_all_gradients_are_those_of_the_whole_layer(two_workers, rank, split, case):
    found = two_workers[rank]["split"][case]
    assert found[split].keys() == found["whole"].keys()
    for name, wanted in found["whole"].items():
        # Nothing is equal by being zero, but where the bias of W^K adds the same to all scores of a
        # row, which the softmax takes out again. Rotary positions rotate it for each key.
        nothing = name == "w_k.bias" and "rotary" not in case
        assert (wanted.abs().max() > 1e-3) != nothing, name
        assert_close(found[split][name], wanted, 1e-10)


@pytest.mark.parametrize("case", CASES)
def test_whole_parameters_can_be_gathered(two_workers, case):
    gathered, whole = two_workers[1]["split"][case]["copied"]
    assert gathered.keys() == whole.keys()
    assert all(gathered[name].equal(whole[name]) for name in whole)


def test_every_case_was_measured(two_workers):
    assert sorted(two_workers[0]["split"]) == sorted(CASES)


@pytest.mark.parametrize("case", CASES)
def test_one_sum_forward_and_one_backward_for_each_input(two_workers, case):
    _, by_hand, by_torch = two_workers[0]["split"][case]["counts"]
    assert by_hand == by_torch == [1, 2 if "cross" in case else 1]


def test_a_rank_holds_half_of_all_but_the_last_bias(two_workers):
    for name, options in LAYERS.items():
        whole = layer(**options)
        shared = sum(p.numel() for n, p in whole.named_parameters() if n in AXES)
        alone = sum(p.numel() for n, p in whole.named_parameters() if n not in AXES)
        of_whole, of_rank = two_workers[0]["split"][f"{name}, self"]["held"]
        assert of_whole == 8 * (shared + alone)
        assert of_rank == 8 * (shared // 2 + alone)


def test_layers_that_cannot_be_split_are_refused(two_workers):
    heads, groups, positions = two_workers[0]["refused"]
    assert "expected heads that 2 ranks can share equally, got n_heads=7" in heads
    assert "n_heads=4 and n_kv_heads=1" in groups
    assert "got ALiBi, which gives each head its own bias" in positions
