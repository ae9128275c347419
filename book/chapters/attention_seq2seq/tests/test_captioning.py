"""The captioner: keys know their place, words come step by step, and the score of maps is right."""

import pytest
import torch

from chapters.attention_seq2seq.captioning import (
    COLUMNS,
    D_GRID,
    ROWS,
    Captioner,
    DigitNet,
    captions,
    grid_places,
    on_right_digit,
    train_digit_net,
)
from chapters.attention_seq2seq.pictures import (
    CAPTION_WORDS,
    HEIGHT,
    WIDTH,
    digit_images,
    make_strips,
    single_digits,
)
from lib.notebook import seed_everything
from lib.training import token_loss, train

BATCH = 3


@pytest.fixture(scope="module")
def strips():
    return make_strips(digit_images()[0], BATCH, seed=2)


@pytest.fixture
def model():
    seed_everything(0)
    return Captioner(DigitNet(), d_embed=5, d_hidden=11, d_scorer=7)


def test_sizes(model, strips):
    assert (ROWS, COLUMNS) == (7, 28)
    assert model.keys(strips.source).shape == (BATCH, ROWS * COLUMNS, D_GRID + 32)
    logits = model(strips.source, strips.source_lengths, strips.target_in)
    assert logits.shape == (BATCH, 6, len(CAPTION_WORDS))


def test_keys_stand_in_the_order_of_the_rows(model):
    blank = torch.zeros(1, 1, HEIGHT, WIDTH)
    dotted = blank.clone()
    dotted[0, 0, 2 * 5, 2 * 23] = 1.0  # cell (5, 23)
    changed = (model.keys(dotted) - model.keys(blank)).abs().sum(-1).view(ROWS, COLUMNS) > 0
    rows, columns = changed.nonzero().unbind(1)
    assert changed[5, 23]
    assert rows.min() >= 5 - 4
    assert columns.min() >= 23 - 4
    assert columns.max() <= 23 + 4


def test_a_cell_sees_fifteen_pixels_each_way():
    net = DigitNet()
    for parameter in net.parameters():
        torch.nn.init.constant_(parameter, 0.01)
    image = torch.rand(1, 1, 31, 41, requires_grad=True)
    net.grid(image)[0, :, 7, 11].sum().backward()
    rows, columns = image.grad[0, 0].nonzero().unbind(1)
    # The maximum passes one of nine cells on, so this many pixels at most.
    assert rows.max() - rows.min() + 1 <= 15
    assert columns.max() - columns.min() + 1 <= 15


def test_each_place_has_its_own_mark():
    places = grid_places().view(ROWS, COLUMNS, 32)
    assert len(places.flatten(0, 1).unique(dim=0)) == ROWS * COLUMNS
    assert (places[:, :, :16] == places[:, :1, :16]).all(), "first the row"
    assert (places[:, :, 16:] == places[:1, :, 16:]).all(), "then the column"


def test_step_by_step_equals_teacher_forcing(model, strips):
    state, steps = model.start(strips.source, strips.source_lengths), []
    for token in strips.target_in.unbind(1):
        logits, weights, state = model.step(token, state)
        assert weights.shape == (BATCH, ROWS * COLUMNS)
        torch.testing.assert_close(weights.sum(1), torch.ones(BATCH))
        steps.append(logits)
    forced = model(strips.source, strips.source_lengths, strips.target_in)
    torch.testing.assert_close(torch.stack(steps, dim=1), forced)


def test_a_strip_gets_the_same_words_alone(model, strips):
    words, maps = captions(model, strips)
    alone, its_maps = captions(model, strips[1:2])
    assert maps.shape == (BATCH, 6, ROWS, COLUMNS)
    assert alone == words[1:2]
    torch.testing.assert_close(its_maps, maps[1:2])


def test_a_frozen_network_stays_as_it_is(model, strips):
    model.net.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train(model, iter([strips, strips]), steps=2, lr=0.01)
    moved = {n for n, v in model.state_dict().items() if not torch.equal(v, before[n])}
    frozen = {name for name in before if name.startswith("net.")}
    assert moved == before.keys() - frozen


def test_all_parts_get_gradients(model, strips):
    logits = model(strips.source, strips.source_lengths, strips.target_in)
    token_loss(logits, strips.target_out).backward()
    names = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert names == {"net.output.weight", "net.output.bias"}, "only the captioner's own parts"


def test_digit_net_learns_a_few_digits():
    seed_everything(0)
    digits = digit_images()[0]
    few = type(digits)(digits.images[:7], digits.labels[:7])
    net = DigitNet()
    losses = train_digit_net(net, few, steps=60)
    assert len(losses) == 60
    assert not net.training
    images, labels = single_digits(few, 64, torch.Generator().manual_seed(1))
    assert (net(images).argmax(1) == labels).float().mean() > 0.9


def peaks(*cells):
    """Maps whose maximum is in the given cell, one after another, for one strip."""
    maps = torch.full((1, len(cells), ROWS, COLUMNS), 0.001)
    for t, (row, column) in enumerate(cells):
        maps[0, t, row, column] = 0.9
    return maps


def test_a_map_is_right_if_its_maximum_is_inside_the_digit():
    corners = torch.tensor([[[3, 10], [0, 20], [-1, -1], [-1, -1], [-1, -1]]])
    # Rows 3 to 10 and columns 10 to 17: the middles 5 to 9 and 11 to 17, cells 2 to 4 and 5 to 8.
    for cell, right in (
        ((2, 5), True),
        ((4, 8), True),
        ((1, 5), False),
        ((5, 8), False),
        ((2, 4), False),
        ((4, 9), False),
    ):
        maps = peaks(cell, (0, 10), (0, 0), (0, 0), (0, 0), (0, 0))
        assert on_right_digit(maps, corners).tolist() == [right, True]
    swapped = peaks((0, 10), (2, 5), (0, 0), (0, 0), (0, 0), (0, 0))
    assert on_right_digit(swapped, corners).tolist() == [False, False]
