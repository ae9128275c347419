"""What the schematics show is what the layer computes: shapes, and the numbers of the split."""

import re

import torch

from chapters.multi_head.schematics import (
    BETA,
    PRICES,
    head_weights,
    heads_side_by_side,
    numbered_split,
    one_and_two_heads,
    one_head_off,
)
from lib.attention import MultiHeadAttention
from tests.helpers import assert_shapes, normal

SIZES = {"time": 3, "d_{model}": 13, "d_k": 5, "d_v": 7, "h": 2}


def test_the_layer_has_the_shapes_of_its_schematic():
    layer = MultiHeadAttention(13, 2, d_k=5, d_v=7, bias=False).double()
    x, kept = normal(3, 13), []
    layer.w_o.register_forward_pre_hook(lambda _, args: kept.append(args[0][0]))
    output = layer(x[None])[0]
    joined = kept[0]
    tensors = {"X": x, "output": output, "concatenated": joined, "W^O": layer.w_o.weight.T}
    for i, head in enumerate(joined.chunk(2, dim=-1), start=1):
        tensors[f"head {i}"] = head
        for letter, w in (("Q", layer.w_q), ("K", layer.w_k), ("V", layer.w_v)):
            tensors[f"W_{i}^{letter}"] = w.weight.T.chunk(2, dim=1)[i - 1]
    assert_shapes(heads_side_by_side(), tensors, SIZES)
    torch.testing.assert_close(joined @ layer.w_o.weight.T, output)


def test_the_split_of_the_layer_puts_the_numbers_where_the_schematic_has_them():
    projected = torch.arange(3)[:, None] * 10 + torch.arange(4)
    split = projected.unflatten(-1, (2, 2))
    layer = MultiHeadAttention(4, 2, bias=False)
    torch.nn.init.eye_(layer.w_q.weight)
    heads = layer._split_heads(layer.w_q, projected[None].float())[0].int()
    tensors = {"projected": projected}
    tensors |= {f"position {t}": one for t, one in enumerate(split)}
    tensors |= {f"head {i}": one for i, one in enumerate(heads, start=1)}
    drawing, sizes = numbered_split(), {"time": 3, "heads": 2, "heads*d_k": 4, "d_k": 2}
    for name, shape in drawing.shapes.items():
        assert tensors[name].shape == tuple(sizes[axis] for axis in shape), name
    drawn = [int(text) for text in _texts(drawing.svg()) if text.isdigit()]
    wanted = [*projected.flatten(), *split.flatten(), *heads.flatten()]
    assert drawn == [int(number) for number in wanted]


def test_the_weights_of_one_and_two_heads_are_softmaxes():
    for beta in (BETA, -BETA):
        want = (beta * torch.tensor(PRICES)).softmax(dim=0)
        torch.testing.assert_close(torch.tensor(head_weights(beta)), want)
    drawn = _texts(one_and_two_heads().svg())
    assert [text for text in drawn if text in ("0.86", "0.12", "0.02", "0.00")] == (
        ["0.00", "0.00", "0.02", "0.12", "0.86"] * 2 + ["0.86", "0.12", "0.02", "0.00", "0.00"]
    )


def test_one_of_four_heads_is_off():
    assert _texts(one_head_off().svg()).count("0 or mean") == 1


def _texts(svg: str) -> list[str]:
    """What stands between the tags of the text elements, in order."""
    inner = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return [re.sub(r"<[^>]*>", "", text) for text in inner]
