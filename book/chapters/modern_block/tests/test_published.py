"""The published models: their parameters, by formula, by a model and as their papers say."""

import pytest
import torch

from chapters.modern_block.decoder import ModernDecoder, today
from chapters.modern_block.published import PUBLISHED
from measure.costs import cache_bytes, parameters_of


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals(name):
    model = PUBLISHED[name]
    totals = {
        "GPT-2 small": 124_439_808,
        "LLaMA 7B": 6_738_415_616,
        "Llama 2 70B": 68_976_648_192,
        "Llama 3 8B": 8_030_261_248,
        "Mistral 7B": 7_241_732_096,
        "Mixtral 8x7B": 46_702_792_704,
    }
    assert parameters_of(model.config).total == model.parameters == totals[name]
    assert model.source
    with torch.device("meta"):
        assert sum(p.numel() for p in ModernDecoder(model.config).parameters()) == totals[name]


def test_published_figures_that_papers_say():
    active = parameters_of(PUBLISHED["Mixtral 8x7B"].config, active=True).total
    assert round(active / 1e9) == 13, "Jiang et al. 2024: 13B active parameters"
    window = PUBLISHED["Mistral 7B"].config
    full = today(32_000, **{f: getattr(window, f) for f in (
        "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff")})  # fmt: skip
    ratio = cache_bytes(full, 32_768) / cache_bytes(window, 32_768)
    assert ratio == 8, "Jiang et al. 2023, section 2: 8 times less at 32k tokens"
