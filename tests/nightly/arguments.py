"""Arguments that fit, drawn by hypothesis from the signatures of the library alone.

An axis's name has one size in all arguments of a call: in "batch query d_k" and "batch key d_k" the
first and the last are the same. A whole number that is named like an axis is its size; other
numbers, and texts, are drawn by their names below. A class is built from its signature. What a
signature cannot say stands in `MADE`: who gives a state, which two arguments belong together.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from jaxtyping import AbstractArray, Bool
from torch import Tensor, nn

from lib import (
    attention,
    data,
    decoding,
    layers,
    metrics,
    positions,
    seq2seq,
    training,
    transformer,
)
from tests.nightly.texts import texts

WORDS = "abcdefg"
VOCAB = len(data.Vocabulary(WORDS))

NUMBERS: dict[str, st.SearchStrategy] = {
    "n_layers": st.integers(1, 2),
    "max_length": st.integers(10, 14),
    "n_queries": st.integers(1, 4),
    "n_keys": st.integers(4, 9),
    "max_tokens": st.integers(12, 30),
    "batch_size": st.integers(1, 4),
    "min_count": st.integers(1, 2),
    **dict.fromkeys(("window", "k", "top_k", "beam", "length"), st.integers(1, 5)),
    **dict.fromkeys(("radius", "offset"), st.integers(0, 4)),
    "warmup": st.integers(1, 4),
    "start": st.just(0),
    **dict.fromkeys(("steps", "accumulate"), st.integers(1, 2)),
    "seed": st.integers(0, 1000),
    "eps": st.floats(1e-6, 1e-2),
    "base": st.floats(2, 99),
    "lr": st.floats(1e-4, 1e-2),
    "alpha": st.floats(0, 1),
    **dict.fromkeys(("dropout", "smoothing"), st.floats(0, 0.9)),
    **dict.fromkeys(("p", "top_p"), st.floats(0.01, 1)),
    **dict.fromkeys(("std", "temperature", "clip"), st.floats(0.1, 4)),
    "activation": st.sampled_from(sorted(layers.ACTIVATIONS)),
    "norm": st.sampled_from(layers.PLACEMENTS),
    **dict.fromkeys(("scheme", "positions"), st.sampled_from(positions.SCHEMES)),
    "reduction": st.sampled_from(["mean", "sum"]),
    "tokenize": st.sampled_from(metrics.TOKENISERS),
    "text": texts,
    "device": st.just("cpu"),
    "locale": st.sampled_from(["fr", "de"]),
    "max_items": st.integers(1, 3),
    "dtype": st.just(torch.bfloat16),
    "autocast": st.just(torch.bfloat16),
}
# Tokens that are made: with a prefix of four no more than the positions that a learned scheme has.
MADE_LENGTH = st.integers(1, 6)
LENGTHS = {"source_lengths": "source_time", "target_lengths": "target_time", "lengths": "time"}
AXES = {"width": "d_model", "source_vocab": "vocab", "target_vocab": "vocab", "n_heads": "heads"}
UNNAMED = {  # of arguments that are a Tensor and no more, or "..."
    "source": (torch.int64, "batch source_time"),
    "source_lengths": (torch.int64, "batch"),
    "token": (torch.int64, "batch"),
    "states": (torch.float32, "batch source_time d_hidden"),
    "last": (torch.float32, "batch d_hidden"),
    "mask": (torch.bool, "query key"),
    "memory_mask": (torch.bool, "batch 1 source_time"),
    "bias": (torch.float32, "query key"),
}


class Arguments:
    """The arguments of one call: what has been drawn, and how the next one is."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any]):
        self.draw = draw
        heads, d_k = draw(st.sampled_from([1, 2])), draw(st.sampled_from([2, 4]))
        self.sizes = {"heads": heads, "d_k": d_k, "d_model": heads * d_k, "vocab": VOCAB, "1": 1}
        self.torch = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
        self.instance: Any = None  # whose method is called

    def size(self, axis: str) -> int:
        axis = AXES.get(axis, axis)
        if axis == "gates":
            return 3 * self.size("d_hidden")
        if axis not in self.sizes:
            self.sizes[axis] = self.draw(st.integers(1, 4))
        return self.sizes[axis]

    def shape(self, axes: str) -> list[int]:
        found: list[int] = []
        for axis in axes.replace("#", "").split():
            if axis.startswith("*"):
                number = self.sizes.setdefault(axis, self.draw(st.integers(0, 2)))
                found += [self.size(f"{axis[1:]} {at}") for at in range(number)]
            else:
                found.append(self.size(axis))
        return found

    def tensor(self, dtype: torch.dtype, axes: str, name: str = "") -> Tensor:
        shape = self.shape(axes)
        if dtype == torch.bool:
            made = torch.rand(shape, generator=self.torch) < 0.6
            kept = torch.randint(shape[-1], (*shape[:-1], 1), generator=self.torch)
            made = made.scatter(-1, kept, True)
        elif dtype == torch.int64:
            least, below = 0, VOCAB
            if name in LENGTHS:
                least, below = 1, self.size(LENGTHS[name]) + 1
            elif name == "rows":
                below = self.size("batch")
            made = torch.randint(least, below, shape, generator=self.torch)
        else:
            made = torch.randn(shape, generator=self.torch)
        strange = len(shape) > 1 and self.draw(st.integers(0, 4)) == 0
        return made.mT.contiguous().mT if strange else made  # other strides are no mistake

    def of(self, name: str, wanted: Any) -> Any:
        """One argument, by its type and its name."""
        origin, inside = typing.get_origin(wanted), typing.get_args(wanted)
        if origin in (types.UnionType, typing.Union):
            some = [one for one in inside if one is not types.NoneType]
            needed = name == "memory" or (some == [int] and name not in NUMBERS)
            if len(some) < len(inside) and not needed and self.draw(st.booleans()):
                return None
            return self.of(name, self.draw(st.sampled_from(some)))
        if name in OF_NAME:
            return OF_NAME[name](self)
        if wanted in OF_TYPE:
            return OF_TYPE[wanted](self)
        if name in NUMBERS and wanted in (int, float, str, torch.device, torch.dtype):
            return self.draw(NUMBERS[name])
        if (
            isinstance(wanted, type)
            and issubclass(wanted, AbstractArray)
            and wanted.dim_str != "..."
        ):
            dtypes = {"bool": torch.bool, "float32": torch.float32, "int64": torch.int64}
            dtype = next(dtypes[one] for one in dtypes if one in wanted.dtypes)
            return self.tensor(dtype, wanted.dim_str, name)
        if wanted is Tensor or (isinstance(wanted, type) and issubclass(wanted, AbstractArray)):
            dtype, axes = UNNAMED[name]
            stacked = name == "mask" and isinstance(self.instance, STACKED)
            return self.tensor(dtype, "time time" if stacked else axes, name)
        if wanted is int:
            return self.size(name) if name else self.draw(st.integers(0, VOCAB - 1))
        if wanted is bool:
            return self.draw(st.booleans())
        if wanted is str:
            return self.draw(st.sampled_from(WORDS))
        if origin in (Sequence, Iterable, list, tuple):
            made = [self.of("", inside[0]) for _ in range(self.draw(st.integers(1, 4)))]
            return tuple(made) if origin is tuple else made
        if isinstance(wanted, type) and (
            is_dataclass(wanted) or issubclass(wanted, tuple | nn.Module)
        ):
            return self.instance_of(wanted)
        raise TypeError(f"no argument is known for {name}: {wanted}; add it to OF_NAME or NUMBERS")

    def fitting(self, call: Callable) -> dict[str, Any]:
        """The arguments of this function, by name."""
        if (given := TOGETHER.get(getattr(call, "__qualname__", ""))) is not None:
            return given(self)
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        found = {
            name: self.of(name, parameter.annotation)
            for name, parameter in inspect.signature(call).parameters.items()
            if parameter.kind not in variadic and name != "self"
        }
        if call.__module__ == decoding.__name__ and "max_length" in found:
            found["max_length"] = self.draw(MADE_LENGTH)
            if "source" in found and self.draw(st.booleans()):  # prefixes of one length
                found["model"] = self.instance_of(transformer.LanguageModel)
                found["source_lengths"] = torch.full_like(
                    found["source"][:, 0], self.size("source_time")
                )
        return found

    def instance_of(self, kind: type) -> Any:
        """An instance of a class, in training or in evaluation where it has these."""
        torch.manual_seed(0)
        made = INSTANCES[kind](self) if kind in INSTANCES else kind(**self.fitting(kind))
        return made.train(self.draw(st.booleans())) if isinstance(made, nn.Module) else made

    # --- what signatures do not say ---------------------------------------------------------------

    def layer(self) -> dict[str, Any]:
        """For self-attention, perhaps with positions, or for inputs of different dimensions."""
        own = self.draw(st.booleans())
        names = ("d_query_in", "d_key_in", "d_value_in", "d_out", "d_k", "d_v")
        if own:
            self.sizes |= dict.fromkeys(names[:3], self.sizes["d_model"])
            self.sizes["key"] = self.size("query")
        return {
            "d_model": self.size("d_model"),
            "n_heads": self.size("heads"),
            "n_kv_heads": self.draw(st.sampled_from([None, 1])),
            "bias": self.draw(st.booleans()),
            "dropout": self.draw(NUMBERS["dropout"]),
            "positions": self.scheme() if own and self.draw(st.booleans()) else None,
        } | {name: self.size(name) for name in names}

    def scheme(self) -> positions.Positions:
        scheme = self.draw(NUMBERS["scheme"])
        return positions.make_positions(scheme, self.size("d_model"), self.size("heads"))

    def translator(self) -> nn.Module:
        kinds = (seq2seq.Seq2Seq, seq2seq.AttentionSeq2Seq, transformer.Transformer)
        self.model = self.instance_of(self.draw(st.sampled_from(kinds)))
        return self.model

    def cache(self) -> attention.KeyValueCache:
        """One that holds something."""
        cache = attention.KeyValueCache()
        cache.append(
            *(self.tensor(torch.float32, f"batch heads stored {d}") for d in ("d_k", "d_v"))
        )
        return cache

    def batches(self) -> list[data.Batch]:
        vocabulary, wanted = data.Vocabulary(WORDS), Sequence[data.Pair]
        return [data.make_batch(self.of("", wanted), vocabulary, vocabulary) for _ in range(4)]

    def state(self) -> Any:
        """What the instance's own `start` gives."""
        return self.instance.start(**self.fitting(self.instance.start))

    def caches(self) -> Any:
        make = getattr(self.instance, "new_caches", None) or self.instance.start
        return make() if self.draw(st.booleans()) else None

    def memory(self) -> Tensor | None:
        """A memory exactly where the layer attends to one."""
        layer = getattr(self.instance, "layers", [self.instance])[0]
        if layer.cross_attention is None:
            return None
        return self.tensor(torch.float32, "batch source_time d_model")

    def stream(self) -> dict[str, Any]:
        """Either bound of a batch."""
        bound = self.draw(st.sampled_from(["max_tokens", "batch_size"]))
        vocabulary = data.Vocabulary(WORDS)
        return {"pairs": self.of("", Sequence[data.Pair]), "source_vocab": vocabulary,
                "target_vocab": vocabulary, bound: self.draw(NUMBERS[bound])}  # fmt: skip

    def attended(self) -> dict[str, Any]:
        """Of a layer's forward: keys and values of their own, or neither."""
        found = {"x_query": self.tensor(torch.float32, "batch query d_query_in")}
        own = ("key", "query"), ("d_key_in", "d_query_in"), ("d_value_in", "d_query_in")
        if any(self.size(one) != self.size(other) for one, other in own):
            found["x_key"] = self.tensor(torch.float32, "batch key d_key_in")
            found["x_value"] = self.tensor(torch.float32, "batch key d_value_in")
        return found | {"mask": self.of("mask", Bool[Tensor, "..."] | None)}


def same_number(a: Arguments, *wanted: Any) -> list[list[Any]]:
    """Lists of things of these types, each as long as the others."""
    number = a.draw(st.integers(1, 4))
    return [[a.of("", one) for _ in range(number)] for one in wanted]


def two_functions(a: Arguments) -> dict[str, Any]:
    one = a.draw(st.sampled_from([torch.sin, torch.cos, torch.sum]))
    return {"*": [one, one, a.tensor(torch.float32, "batch time")]}


def some_masks(a: Arguments) -> dict[str, Any]:
    axes = ("query key", "batch query key", "batch 1 key", "batch heads query key", "1 1")
    chosen = a.draw(st.lists(st.sampled_from([None, *axes]), min_size=1, max_size=4))
    return {"*": [one and a.tensor(torch.bool, one) for one in chosen]}


def mask_and_shape(a: Arguments) -> dict[str, Any]:
    axes = a.draw(st.sampled_from(["query key", "batch query key", "batch 1 key"]))
    return {"mask": a.tensor(torch.bool, axes), "shape": tuple(a.shape("batch heads query key"))}


def state_and_rows(a: Arguments) -> dict[str, Any]:
    x, y = (a.tensor(torch.float32, f"batch {axis}") for axis in ("d_k", "d_v"))
    states = [None, x, (x, None), seq2seq.DecoderState(x, y), seq2seq.AttentionState(x, y, y, None)]
    return {"state": a.draw(st.sampled_from(states)), "rows": a.tensor(torch.int64, "rows", "rows")}


def state_of_a_model(a: Arguments) -> transformer.TransformerState:
    model = a.instance_of(transformer.Transformer)
    return model.start(**a.fitting(model.start))


def beginning(a: Arguments) -> dict[str, Any]:
    source = a.tensor(torch.int64, "batch time")
    given = {"source": source, "source_lengths": torch.full((len(source),), source.shape[1])}
    return a.draw(st.sampled_from([{}, given]))


def maps(a: Arguments) -> dict[str, Any]:
    model = a.instance_of(transformer.Transformer)
    return {"*": [model, *a.fitting(model.forward).values()]}


STACKED = (transformer.EncoderLayer, transformer.Encoder, transformer.DecoderLayer,
           transformer.OneStack)  # fmt: skip
OF_TYPE: dict[Any, Callable[[Arguments], Any]] = {
    attention.KeyValueCache: lambda a: attention.KeyValueCache(grows=a.draw(st.booleans())),
    data.Vocabulary: lambda a: data.Vocabulary(WORDS),
    positions.Positions: Arguments.scheme,
    transformer.LayerCache: lambda a: transformer.LayerCache(
        attention.KeyValueCache(), attention.KeyValueCache(grows=False)
    ),
    torch.device: lambda a: torch.device("cpu"),
    torch.Generator: lambda a: a.torch,
    nn.Module: Arguments.translator,
    decoding.SequenceModel: Arguments.translator,
    torch.optim.Optimizer: lambda a: training.paper_adam(a.model),
}
OF_NAME: dict[str, Callable[[Arguments], Any]] = {
    "model": Arguments.translator,
    "state": Arguments.state,
    "caches": Arguments.caches,
    "memory": Arguments.memory,
    "batch": lambda a: a.batches()[0],
    **dict.fromkeys(("parts", "batch_stream", "batches"), Arguments.batches),
    "choose": lambda a: lambda logits: logits.argmin(dim=-1),
    "criterion": lambda a: a.draw(
        st.sampled_from([training.token_loss, training.label_smoothed_loss])
    ),
    "loss": lambda a: training.teacher_forcing,
    "schedule": lambda a: training.warm_up(2),
    "after_update": lambda a: lambda step, loss: None,
    "norm_layer": lambda a: a.draw(st.sampled_from([layers.LayerNorm, layers.RMSNorm])),
    "sublayer": lambda a: nn.Linear(a.size("d_model"), a.size("d_model")),
    "layers": lambda a: [nn.Linear(2, 2)],
    "words": lambda a: a.draw(st.lists(st.sampled_from(WORDS), unique=True)),
    "group": lambda a: [0],
    "real_only": lambda a: isinstance(a.model, transformer.Transformer) and a.draw(st.booleans()),
    "thing": lambda a: a.draw(st.sampled_from([data.tokenise, data.Batch, layers.LayerNorm])),
}
INSTANCES: dict[type, Callable[[Arguments], Any]] = {
    data.Vocabulary: lambda a: data.Vocabulary(WORDS),
    attention.KeyValueCache: Arguments.cache,
    positions.Positions: Arguments.scheme,
    transformer.LayerCache: lambda a: transformer.LayerCache(a.cache(), a.cache()),
    transformer.TransformerState: state_of_a_model,
}
TOGETHER: dict[str, Callable[[Arguments], dict[str, Any]]] = {
    "MultiHeadAttention": Arguments.layer,
    "MultiHeadAttention.forward": Arguments.attended,
    "MultiHeadAttention.attention_weights": lambda a: {
        name: value for name, value in a.attended().items() if name != "x_value"
    },
    "attention_maps": maps,
    "BatchStream": Arguments.stream,
    "LanguageModel.start": beginning,
    "cosine": lambda a: {"steps": a.draw(st.integers(5, 30)), "warmup": a.draw(st.integers(0, 4))},
    "pad_batch": lambda a: dict(
        zip(("sources", "targets"), same_number(a, list[int], list[int]), strict=True)
    ),
    "combine_masks": some_masks,
    "fit_mask": mask_and_shape,
    "select_rows": state_and_rows,
    "assert_same": two_functions,
    **dict.fromkeys(
        ("exact_match", "bleu"),
        lambda a: dict(
            zip(("predictions", "references"), same_number(a, list[str], list[str]), strict=True)
        ),
    ),
    "accuracy_by_length": lambda a: {
        **dict(zip(("predictions", "pairs"), same_number(a, list[str], data.Pair), strict=True)),
        "edges": (0, a.draw(st.integers(2, 9)), 1000),
    },
}
