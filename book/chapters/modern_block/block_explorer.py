"""An explorer of one block: at a published model's sizes, what each choice costs and saves."""

from dataclasses import replace
from typing import Any

from traitlets import Bool, Enum

from chapters.modern_block.decoder import BlockConfig
from chapters.modern_block.published import PUBLISHED
from measure.costs import cache_bytes, flops_of, parameters_of
from widgets import domain
from widgets.base import BookWidget, static_table

CONTEXTS = tuple(2**i for i in range(8, 18))
WINDOW, EXPERTS, ACTIVE, GROUPS = 4096, 8, 2, 8  # Mistral's, Mixtral's, and those of both and Llama
PAPER = {
    "norm": "layer",
    "activation": "relu",
    "positions": "sinusoidal",
    "kv_heads": "all",
    "bias": True,
    "window": False,
    "experts": False,
    "tied": True,
}


def groups_of(n_heads: int) -> int:
    """Heads of keys and values in "groups": 8, or the next number below it that divides n_heads."""
    return next(size for size in range(GROUPS, 0, -1) if n_heads % size == 0)


def choices_of(model: str) -> dict[str, Any]:
    """The choices of a published model, under the names of the explorer's traits."""
    config = PUBLISHED[model].config
    return {
        "norm": config.norm_layer,
        "activation": config.activation,
        "positions": config.positions,
        "kv_heads": "all" if config.kv_heads == config.n_heads else "groups",
        "bias": config.bias,
        "window": config.window is not None,
        "experts": config.n_experts is not None,
        "tied": config.tied,
    }


def _described(model: str) -> dict[str, Any]:
    config = PUBLISHED[model].config
    sizes = ("vocab", "d_model", "n_layers", "n_heads", "d_ff", "max_length")
    return {
        **{name: getattr(config, name) for name in sizes},
        "groups": groups_of(config.n_heads),
        "choices": choices_of(model),
    }


class BlockExplorer(BookWidget):
    """Take a published model's sizes, change its choices; see parameters, cache and FLOPs.

    All is compared with the same sizes and the choices of 2017. d_ff stays: SwiGLU, with three
    matrices, costs half as much again there. Numbers in the cache have 16 bits. Who picks another
    model on the page gets its choices with it; an assignment to `model` changes the sizes alone.

    Args: model, a name of `chapters.modern_block.published.PUBLISHED`; context, in tokens, one of
        `CONTEXTS`, that of the model's training unless given. The others are the model's own unless
        given: norm, "layer" or "rms"; activation, "relu", "gelu" or "swiglu"; positions,
        "sinusoidal", "learned" or "rotary"; kv_heads, "all", "groups" (of 8, or 6 where there are
        12 heads) or "one"; bias; window, one of 4,096 positions; experts, 8 of which a token passes
        2; tied, the embedding is the output projection too.
    Errors: ValueError for a start that the controls cannot reach.
    Source: `measure.costs`.
    """

    _module = "block_explorer"
    model = Enum(tuple(PUBLISHED), "LLaMA 7B")
    norm = Enum(("layer", "rms"), "rms")
    activation = Enum(("relu", "gelu", "swiglu"), "swiglu")
    positions = Enum(("sinusoidal", "learned", "rotary"), "rotary")
    kv_heads = Enum(("all", "groups", "one"), "all")
    bias = Bool()
    window = Bool()
    experts = Bool()
    tied = Bool()
    context = Enum(CONTEXTS, 2048)
    models = domain.Fixed({name: _described(name) for name in PUBLISHED})
    paper = domain.Fixed(PAPER)
    sizes = domain.Fixed({"window": WINDOW, "experts": EXPERTS, "active": ACTIVE})

    def __init__(
        self,
        model: str = "LLaMA 7B",
        *,
        context: int | None = None,
        norm: str | None = None,
        activation: str | None = None,
        positions: str | None = None,
        kv_heads: str | None = None,
        bias: bool | None = None,
        window: bool | None = None,
        experts: bool | None = None,
        tied: bool | None = None,
    ):
        given = {
            "context": context,
            "norm": norm,
            "activation": activation,
            "positions": positions,
            "kv_heads": kv_heads,
            "bias": bias,
            "window": window,
            "experts": experts,
            "tied": tied,
        }
        start: dict[str, Any] = {}
        if model in tuple(PUBLISHED):  # of any other name the trait says what was expected
            start = choices_of(model) | {"context": PUBLISHED[model].config.max_length}
        start |= {name: value for name, value in given.items() if value is not None}
        super().__init__(model=model, **start)

    def config(self) -> BlockConfig:
        """The sizes of the model with the choices that are set."""
        return _config(self.model, {name: getattr(self, name) for name in PAPER})

    def config_2017(self) -> BlockConfig:
        """The same sizes with the choices of 2017."""
        return _config(self.model, PAPER)

    def summary(self) -> str:
        flags = [name for name in PAPER if getattr(self, name) is True]
        words = [self.norm, self.activation, self.positions, f"{self.kv_heads} kv_heads", *flags]
        return f"BlockExplorer: {self.model}, {', '.join(words)}, context {self.context}"

    def static_html(self) -> str:
        rows = []
        both = self.config(), self.config_2017()
        for name, cost in (
            ("parameters", lambda c: parameters_of(c).total),
            ("active parameters", lambda c: parameters_of(c, active=True).total),
            ("key-value cache, bytes", lambda c: cache_bytes(c, self.context)),
            ("FLOPs per token", lambda c: flops_of(c, self.context).total),
        ):
            rows.append((name, *(f"{cost(config):,}" for config in both)))
        caption = (
            f"What the sizes of {self.model} cost at a context of {self.context:,} tokens, "
            "with these choices and with those of 2017"
        )
        return static_table(caption, ("", "this block", "2017 choices"), rows)


def _config(model: str, choices: dict[str, Any]) -> BlockConfig:
    sizes = PUBLISHED[model].config
    shared = {"all": sizes.n_heads, "groups": groups_of(sizes.n_heads), "one": 1}
    return replace(
        sizes,
        norm_layer=choices["norm"],
        activation=choices["activation"],
        positions=choices["positions"],
        n_kv_heads=shared[choices["kv_heads"]],
        bias=choices["bias"],
        window=WINDOW if choices["window"] else None,
        n_experts=EXPERTS if choices["experts"] else None,
        n_active=ACTIVE,
        tied=choices["tied"],
    )
