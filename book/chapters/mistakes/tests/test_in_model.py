"""Each broken model does what its record says, and is right where the record says one sees nothing.

A broken model stands beside the right one, drawn from the same seed.
"""

import math

import pytest
import torch

from chapters.mistakes import in_model as broken
from chapters.mistakes.specimen import Specimen
from lib.data import BOS, PAD
from tests.helpers import assert_close, normal

EXACT = 1e-10
SIZES = {"d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": 2}
PADDED = torch.tensor([[BOS, 5, 6, PAD], [BOS, 7, 8, 9]])


class Tied(Specimen):
    tied = True


def make(kind):
    """A model in float64 and in evaluation mode, the same weights for every kind."""
    torch.manual_seed(0)
    return kind(29, 23, **SIZES).double().eval()


def batch(lengths=(7, 2, 5)):
    draw = torch.Generator().manual_seed(0)
    source = torch.randint(4, 29, (3, 7), generator=draw)
    target = torch.randint(4, 23, (3, 5), generator=draw)
    lengths = torch.tensor(lengths)
    return source.masked_fill(torch.arange(7) >= lengths[:, None], PAD), lengths, target


def run(model, *inputs):
    with torch.no_grad():
        return model(*(inputs or batch()))


def differs(one, other):
    return (one - other).abs().max().item() > 1e-3


def by_steps(model, source, lengths, target):
    state, logits = model.start(source, lengths), []
    for token in target.unbind(1):
        one, _, state = model.step(token, state)
        logits.append(one)
    return torch.stack(logits, dim=1)


def test_and_for_or_hides_only_later_padding():
    later_padding = torch.tensor([[True, True, True, False]] * 3 + [[True] * 4])
    mask = make(broken.AndForOr).target_mask(PADDED)
    assert torch.equal(mask[0], later_padding)
    assert mask[1].all()  # without padding nothing is hidden
    assert not make(Specimen).target_mask(PADDED)[1].all()


@pytest.mark.parametrize("kind", [broken.AndForOr, broken.NoTargetMask])
def test_without_its_mask_the_decoder_sees_the_token_it_must_say(kind):
    source, lengths, target = batch()
    other = target.clone()
    other[:, 4] = 4 + (target[:, 4] - 3) % 19  # another word
    for model, sees in ((make(kind), True), (make(Specimen), False)):
        before, after = run(model, source, lengths, target), run(model, source, lengths, other)
        assert differs(before[:, :4], after[:, :4]) == sees
    assert_close(run(make(kind)), run(make(broken.NoTargetMask)), EXACT)


def test_mask_in_training_only_is_one_function_in_training_and_another_in_use():
    model = make(broken.MaskInTrainingOnly)
    assert torch.equal(run(model.train()), run(make(Specimen)))
    assert torch.equal(run(model.eval()), run(make(broken.NoTargetMask)))
    assert differs(run(model), run(make(Specimen)))


def test_queries_masked_leaves_padded_keys_open():
    wrong, right = make(broken.QueriesMasked), make(Specimen)
    mask = torch.tensor([[[True, True, False]]])
    assert wrong.encoder_mask(mask).tolist() == [[[True], [True], [False]]]
    whole = batch(lengths=(7, 7, 7))
    assert_close(run(wrong, *whole), run(right, *whole), EXACT)  # one sees nothing
    source, lengths, target = batch()
    noisy = source.masked_fill(source == PAD, 5)
    for model, reads in ((wrong, True), (right, False)):
        read = differs(run(model, noisy, lengths, target), run(model, source, lengths, target))
        assert read == reads


def test_table_as_attribute_stays_where_it_was_made():
    wrong, right = make(broken.TableAsAttribute), make(Specimen)
    assert_close(run(wrong), run(right), 1e-6)
    for model, moves in ((wrong, False), (right, True)):
        assert ("table" in dict(model.named_buffers())) == moves
        assert model.to("meta").table.is_meta == moves


def test_layers_in_a_list_compute_and_are_not_known():
    torch.manual_seed(0)
    wrong = broken.LayersInAList(29, 23, **SIZES).eval()
    torch.manual_seed(0)
    right = Specimen(29, 23, **SIZES).eval()
    assert_close(run(wrong), run(right), 1e-6)
    known = {name.split(".")[0] for name in wrong.state_dict()}
    assert known == {"source_embedding", "target_embedding", "projection"}
    layer = wrong.encoder["layers"][1]["feed_forward"]
    assert not set(layer.parameters()) & set(wrong.parameters())


def test_used_before_assigned_stops_at_the_first_call():
    with pytest.raises(UnboundLocalError, match="embedded"):
        run(make(broken.UsedBeforeAssigned))


def test_positions_dropped_is_the_right_model_with_a_table_of_zeros():
    wrong, right = make(broken.PositionsDropped), make(Specimen)
    assert differs(run(wrong), run(right))
    right.table.zero_()
    assert_close(run(wrong), run(right), EXACT)


def test_cosine_exponent_turns_the_cosines_alone_at_another_speed():
    wrong, right = make(broken.CosineExponent), make(Specimen)
    assert_close(wrong.table[:, 0::2], right.table[:, 0::2], 1e-5)
    place = torch.arange(len(wrong.table), dtype=torch.float64)
    for column in (1, 3, 5):
        wanted = torch.cos(place / 10_000 ** (column / 12))
        assert_close(wrong.table[:, column], wanted, 1e-5)
        assert differs(wrong.table[:, column], right.table[:, column])
    apart = torch.cdist(wrong.table, wrong.table).fill_diagonal_(torch.inf)
    assert apart.min() > 0.1  # each position still has a code of its own


def test_always_position_zero_is_right_in_training_and_at_the_first_step():
    wrong, right = make(broken.AlwaysPositionZero), make(Specimen)
    assert torch.equal(run(wrong), run(right))
    steps = by_steps(wrong, *batch())
    assert_close(steps[:, 0], run(right)[:, 0], EXACT)
    for place in range(1, 5):
        assert differs(steps[:, place], run(right)[:, place])
    right.table[1:] = right.table[0]
    memory, mask = make(Specimen).encode(*batch()[:2])  # the source was read with its positions
    x = right.embed(batch()[2], right.target_embedding)
    assert_close(steps, right.decode(x, batch()[2], memory, mask).detach(), EXACT)


def test_loud_tying_draws_the_shared_matrix_from_a_normal_of_deviation_1():
    wrong, right = make(broken.LoudTying), make(Tied)
    assert wrong.projection.weight is wrong.target_embedding.weight
    assert wrong.target_embedding.weight.std().item() == pytest.approx(1, abs=0.1)
    assert right.target_embedding.weight.std().item() < 0.6
    assert run(wrong).std() > 1.5 * run(right).std()
    right.load_state_dict(wrong.state_dict())
    assert torch.equal(run(wrong), run(right))


def test_scaled_logits_are_those_of_the_tied_model_times_the_root_of_the_width():
    wrong, right = make(broken.ScaledLogits), make(Tied)
    assert_close(run(wrong), run(right) * math.sqrt(12), EXACT)


def test_unbiased_norm_divides_by_one_less():
    wrong, right = (kind.norm(12).double() for kind in (broken.UnbiasedNorm, Specimen))
    x = 3 * normal(2, 5, 12) + 5
    assert_close(wrong(x), right(x) * math.sqrt(11 / 12), 1e-4)
    assert differs(wrong(x), right(x))
    assert differs(run(make(broken.UnbiasedNorm)), run(make(Specimen)))
    assert make(broken.UnbiasedNorm).state_dict().keys() == make(Specimen).state_dict().keys()
