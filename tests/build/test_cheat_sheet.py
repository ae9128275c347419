"""The numbers and shapes of the cheat sheet are those of the library."""

import math
import re

import pytest
import torch
import yaml
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from lib.attention import KeyValueCache, MultiHeadAttention
from lib.layers import FeedForward, LayerNorm
from lib.masks import padding_mask
from lib.transformer import Config, Transformer
from tests.paths import BOOK, ROOT

SHEET = (BOOK / "cheat_sheet.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells[1:]
    for line in SHEET.splitlines()
    if line.startswith("|")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


@pytest.mark.parametrize("name", ["base", "big"])
def test_sizes(name):
    d_model, heads, d_k, d_ff, layers, dropout, parameters = ROWS[name]
    assert int(d_model) == int(heads) * int(d_k)
    config = Config(37_000, d_model=int(d_model), n_heads=int(heads), d_ff=int(d_ff))
    assert config.n_layers == int(layers)
    assert float(dropout) == {"base": config.dropout, "big": 0.3}[name]
    with torch.device("meta"):
        assert sum(p.numel() for p in Transformer(config).parameters()) == int(
            parameters.replace(",", "")
        )


def value(row, **sizes):
    """The number that a formula of the sheet gives: a sum of products, some factors squared."""
    (formula,) = re.findall(r"\$(.*)\$", ROWS[row][0])
    terms = [re.findall(r"(\d|d_\\mathrm\{\w+\}|[nN])(\^2)?", t) for t in formula.split(" + ")]
    named = {f"d_\\mathrm{{{name[2:]}}}": size for name, size in sizes.items()} | sizes
    return sum(
        math.prod(int(named.get(f, f)) ** (2 if squared else 1) for f, squared in term)
        for term in terms
    )


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_parameters():
    sizes = {"d_model": 12, "d_ff": 35}
    for heads in (1, 3, 6):
        assert value("attention, parameters", **sizes) == count(MultiHeadAttention(12, heads))
    assert value("feed-forward, parameters", **sizes) == count(FeedForward(12, 35))
    assert value("norm, parameters", **sizes) == count(LayerNorm(12))


def flops(module, *inputs, **options):
    # The counter knows the products of the plain kernel.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs, **options)
    return counter.get_total_flops()


def test_flops():
    n, sizes = 7, {"d_model": 12, "d_ff": 35}
    x = torch.randn(1, n, 12)
    per_query = value("self-attention over $n$ keys, FLOPs per query", n=n, **sizes)
    assert per_query * n == flops(MultiHeadAttention(12, 3), x)
    per_position = value("feed-forward, FLOPs per position", **sizes)
    assert per_position * n == flops(FeedForward(12, 35), x)


def test_cache():
    cache, layer = KeyValueCache(), MultiHeadAttention(12, 3)
    for _ in range(5):
        layer(torch.randn(1, 1, 12), cache=cache)
    held = cache.append(*torch.empty(2, 1, 3, 0, 4))
    formula = "key-value cache of $N$ self-attentions, numbers for $n$ tokens"
    assert value(formula, N=1, n=5, d_model=12) == sum(x.numel() for x in held)


def test_shapes():
    batch, query, key, heads, d_model = 2, 5, 7, 3, 12
    layer = MultiHeadAttention(d_model, heads)
    mask = padding_mask(torch.tensor([4, 7]), key)
    assert mask.shape == (batch, 1, key), ROWS["encoder, self"]
    x, memory = torch.randn(batch, query, d_model), torch.randn(batch, key, d_model)
    output, weights = layer(x, memory, mask=mask), layer.attention_weights(x, memory, mask)
    assert ROWS["scores, attention weights"] == ["(batch, heads, query, key)"]
    assert weights.shape == (batch, heads, query, key)
    assert ROWS["embedded, and after every layer"] == ["(batch, time, d_model)"]
    assert output.shape == (batch, query, d_model)


def test_the_first_page_says_how_to_cite():
    entry = re.search(r"```bibtex\n(.*?)```", (BOOK / "intro.md").read_text("utf-8"), re.S)[1]
    fields = dict(re.findall(r"(\w+) += \{(.*)\},", entry))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    assert fields == {
        "title": citation["title"],
        "author": f"{{{citation['authors'][0]['name']}}}",
        "year": str(citation["date-released"].year),
        "url": settings["html"]["baseurl"],
    }
