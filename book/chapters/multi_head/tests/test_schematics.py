"""What the schematics show is what the layer computes: shapes, and the numbers of the split."""

import re

import torch

from chapters.multi_head.items import givers
from chapters.multi_head.schematics import (
    BLEND,
    BOTH,
    FOUND,
    KEYS,
    LEFT,
    LIST,
    OUTPUT,
    QUERY,
    RIGHT,
    SCORES,
    VALUES,
    W_O,
    WORDS,
    findings_and_output,
    heads_side_by_side,
    items_exchanged,
    numbered_split,
    one_head_in_numbers,
    one_head_off,
    one_look_or_two,
)
from lib.attention import MultiHeadAttention
from tasks.translation import translation_pairs
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


def example() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """bat bites man, and what to ask for: the word on the left, the word on the right."""
    x = torch.tensor([[1.0, 0, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 1]])
    left = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    return x, [8 * left, 8 * left.T]


def row_of_bites(x: torch.Tensor, asks: torch.Tensor) -> torch.Tensor:
    place = x[:, 3:]
    return (place @ asks @ place.T / 3**0.5).softmax(dim=1)[1]


def test_the_numbers_of_the_example_are_those_of_attention():
    x, asks = example()
    weights = [row_of_bites(x, one) for one in (sum(asks), *asks)]
    for drawn, computed in zip((BOTH, LEFT, RIGHT), weights, strict=True):
        assert [round(one, 2) for one in computed.tolist()] == list(drawn)
    found = [row @ x[:, :3] for row in weights[1:]]
    for drawn, computed in zip(FOUND, found, strict=True):
        assert [round(one, 2) for one in computed.tolist()] == list(drawn)
    w_o = torch.tensor(W_O, dtype=torch.float32).flatten(0, 1)
    assert [round(one, 2) for one in (torch.cat(found) @ w_o).tolist()] == list(OUTPUT)


def test_the_one_head_is_computed_from_its_query_keys_and_values():
    x, asks = example()
    place = x[:, 3:]
    query, scores = (place @ sum(asks))[1], place @ sum(asks) @ place.T / 3**0.5
    found = row_of_bites(x, sum(asks)) @ x[:, :3]
    assert query.tolist() == list(QUERY)
    assert (place.tolist(), x[:, :3].tolist()) == ([*map(list, KEYS)], [*map(list, VALUES)])
    assert [round(one, 2) for one in scores[1].tolist()] == list(SCORES)
    assert [round(one, 2) for one in found.tolist()] == list(BLEND)
    drawing = one_head_in_numbers()
    values = {f"value of {word}": one for word, one in zip(WORDS, x[:, :3], strict=True)}
    assert_shapes(drawing, {"found": found, **values}, {"d_v": 3})
    drawn = [text for text in _texts(drawing.svg()) if re.fullmatch(r"\d\.\d\d", text)]
    assert drawn == [
        *(f"{one:.2f}" for pair in zip(SCORES, BOTH, strict=True) for one in pair),
        *(f"{one:.2f}" for one in BLEND),
    ]


def test_the_exchange_is_drawn_for_the_words_of_the_sentence():
    sentence = translation_pairs()[1][26].source
    assert sentence[: len(LIST)] == LIST
    drawing = items_exchanged()
    assert [text for text in _texts(drawing.svg()) if text in LIST] == list(LIST)
    assert givers(LIST, 0, 1) == [4, 4, 4, 3, 0, 0, 0, 0] == givers(sentence, 0, 1)[: len(LIST)]


def test_the_two_sentences_differ_only_in_what_two_heads_find():
    drawn = _texts(one_look_or_two().svg())
    assert drawn.count("half bat, half man") == 2
    panels = [drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]]
    numbers = [[text for text in panel if text[0] == "0"] for panel in panels]
    assert numbers[0] == numbers[1] == [f"{x:.2f}" for x in (*BOTH, *LEFT, *RIGHT)]
    assert [panel[:3] for panel in panels] == [["bat", "bites", "man"], ["man", "bites", "bat"]]
    for panel in panels:
        assert [text for text in panel[3:] if text in ("bat", "man")] == [panel[0], panel[2]]


def test_the_output_of_the_example_has_the_shapes_of_the_layer():
    x, asks = example()
    found = [row_of_bites(x, one) @ x[:, :3] for one in asks]
    rows = torch.tensor(W_O, dtype=torch.float32)
    tensors = {"output": torch.cat(found) @ rows.flatten(0, 1)}
    for i in (1, 2):
        tensors |= {f"head {i}": found[i - 1], f"W_{i}^O": rows[i - 1]}
    assert_shapes(findings_and_output(), tensors, {"d_v": 3, "d_{model}": 6})


def test_one_of_four_heads_is_off():
    assert _texts(one_head_off().svg()).count("0 or mean") == 1


def _texts(svg: str) -> list[str]:
    """What stands between the tags of the text elements, in order."""
    inner = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return [re.sub(r"<[^>]*>", "", text) for text in inner]
