"""The shapes and numbers of the schematics are those of the library and of its translator."""

import pytest
import torch
from torch import nn

from chapters.transformer.schematics import (
    KEYS,
    NEXT,
    QUERY,
    SOURCE,
    STEPS,
    TARGET,
    VALUES,
    WRITTEN,
    one_attention,
    one_question,
    one_word,
    shift_and_mask,
    two_layers,
    who_reads_what,
    whole,
)
from chapters.transformer.tracing import trace_sentence
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask
from lib.transformer import Config, Transformer
from tests.helpers import assert_shapes, normal
from train.checkpoints import load_published


@pytest.fixture(scope="module")
def traced():
    model, *vocabs = load_published()
    return trace_sentence(model, SOURCE, *vocabs, max_length=40)


def test_attention_shows_the_shapes_of_the_layer():
    x, memory, mask = normal(5, 12), normal(7, 12), torch.ones(5, 7, dtype=torch.bool)
    layer = MultiHeadAttention(12, 3).double()
    output = layer(x[None], memory[None], mask=mask)[0]
    tensors = {"x": x, "memory": memory, "mask": mask, "output": output}
    assert_shapes(one_attention(), tensors, {"query": 5, "key": 7, "d_{model}": 12})


def test_whole_shows_the_shapes_of_the_model():
    model = Transformer(Config(29, 23, d_model=12, n_heads=3, d_ff=17, n_layers=2))
    source, target = torch.randint(4, 23, (1, 7)), torch.randint(4, 23, (1, 5))
    memory, _ = model.encode(source, torch.tensor([7]))
    logits = model(source, torch.tensor([7]), target)
    tensors = {"source tokens": source[0], "target tokens": target[0]}
    tensors |= {"memory": memory[0], "logits": logits[0]}
    assert_shapes(whole(), tensors, {"source": 7, "target": 5, "vocab": 23, "d_{model}": 12})


def test_layers_have_the_sub_layers_of_the_library():
    layers = Transformer(Config(29, d_model=12, n_heads=3, d_ff=17, n_layers=1))
    drawn = [part.name for part in two_layers().parts]
    for kind, stack in (("source", layers.encoder), ("target", layers.decoder)):
        boxes = [name for name in drawn if name.startswith(kind)]
        assert len(boxes) == len([*stack.layers[0].children()])
        order = ("self", "cross", "feed") if kind == "target" else ("self", "feed")
        for box, start, module in zip(boxes, order, stack.layers[0].named_children(), strict=True):
            assert box.removeprefix(f"{kind} ").startswith(start)
            assert module[0].startswith(start)
    norms = [m for m in layers.modules() if isinstance(m, nn.Module) and hasattr(m, "gain")]
    assert drawn.count("norm") == drawn.count("+") == len(norms)


def test_the_first_picture_says_what_the_model_says(traced):
    position = traced["read"].index(WRITTEN[-1])
    assert traced["source"][:-1] == [*SOURCE]
    assert traced["read"][: position + 1] == [*WRITTEN]
    word, probability = traced["guesses"][-1][position][0]
    assert (word, round(probability, 2)) == NEXT
    assert f">{NEXT[1]:.2f}<" in who_reads_what().svg()


def test_the_numbers_of_attention_are_those_of_torch():
    query, key, value = (torch.tensor(x, dtype=torch.float64) for x in ([QUERY], KEYS, VALUES))
    scores = (query @ key.T)[0]
    weights = (scores / 2**0.5).softmax(-1)
    [output] = nn.functional.scaled_dot_product_attention(query, key, value)
    svg, alt = one_question().svg(), one_question().alt
    shown = [f"{weight:.2f}" for weight in weights.tolist()]
    assert [svg.count(f">{one}<") >= shown.count(one) for one in {*shown}] == [True] * 2
    for one in (f"{scores.max() / 2**0.5:.1f}", *(f"{x:.2f}" for x in output.tolist())):
        assert f">{one}<" in svg
        assert one in alt


def test_the_shift_and_the_mask_are_those_of_the_data_and_the_library(traced):
    assert [*traced["read"], "<eos>"] == [*TARGET]
    assert traced["said"] == [*TARGET[1:]]
    n = len(TARGET) - 1
    crossed = (~causal_mask(n)).sum().item()
    assert shift_and_mask().svg().count("line thin") == crossed + 2 * (n - 1)  # and the grid's


def test_one_word_shows_where_it_looks_and_what_it_would_predict(traced):
    position = traced["read"].index(WRITTEN[-1])
    kinds = ("self_attention", "cross_attention", "feed_forward")
    names = [f"decoder.layers.{n}.{kind}" for n in range(2) for kind in kinds]
    for i, (step, name) in enumerate(zip(STEPS, ["embedding", *names], strict=True)):
        word, probability = traced["guesses"][i][position][0]
        assert (word, round(probability, 2)) == step.guess
        if step.looks:
            mean = torch.tensor(traced["maps"][name]).mean(dim=0)[position]
            keys = traced["source" if "cross" in name else "read"]
            assert (keys[mean.argmax()], round(mean.max().item(), 2)) == step.looks
            assert f"{step.looks[0]} {step.looks[1]:.2f}" in one_word().alt
        else:
            assert name not in traced["maps"]
