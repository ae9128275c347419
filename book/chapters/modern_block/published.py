"""The sizes of six published models, for the formulas of `measure.costs`."""

from typing import NamedTuple

from chapters.modern_block.decoder import BlockConfig, paper_2017, today


class Published(NamedTuple):
    """The sizes of a published model, the parameters it has, and where both are said.

    config.max_length is the context that the model was trained for.
    """

    config: BlockConfig
    parameters: int
    source: str


PUBLISHED = {
    # GPT-2's GELU is the tanh approximation, and its embedding is not scaled.
    "GPT-2 small": Published(
        paper_2017(
            50_257,
            d_model=768,
            n_layers=12,
            n_heads=12,
            d_ff=3072,
            activation="gelu",
            positions="learned",
            scaled_embedding=False,
            max_length=1024,
        ),
        124_439_808,
        "Radford et al. 2019, section 2.3 and table 2 (there as 117M); its published config",
    ),
    "LLaMA 7B": Published(
        today(
            32_000,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            d_ff=11_008,
            norm_eps=1e-6,
            max_length=2048,
        ),
        6_738_415_616,
        "Touvron et al. 2023 (LLaMA), section 2.2 and table 2; its published config",
    ),
    "Llama 2 70B": Published(
        today(
            32_000,
            d_model=8192,
            n_layers=80,
            n_heads=64,
            n_kv_heads=8,
            d_ff=28_672,
            max_length=4096,
        ),
        68_976_648_192,
        "Touvron et al. 2023 (Llama 2), section 2.2 and table 1; its published config",
    ),
    "Llama 3 8B": Published(
        today(
            128_256,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_ff=14_336,
            rope_base=500_000.0,
            max_length=8192,
        ),
        8_030_261_248,
        "Grattafiori et al. 2024, section 3.2 and table 3; its published config",
    ),
    "Mistral 7B": Published(
        today(
            32_000,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_ff=14_336,
            window=4096,
            max_length=8192,
        ),
        7_241_732_096,
        "Jiang et al. 2023, section 2 and table 1",
    ),
    "Mixtral 8x7B": Published(
        today(
            32_000,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_ff=14_336,
            n_experts=8,
            n_active=2,
            rope_base=1_000_000.0,
            max_length=32_768,
        ),
        46_702_792_704,
        "Jiang et al. 2024, section 2 and table 1; its published config",
    ),
}
