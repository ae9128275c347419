"""Every public name of the library is called with arguments that fit, and with some that do not."""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st
from torch import Tensor, nn

import lib
from tests.helpers import unchecked
from tests.nightly.arguments import VOCAB, Arguments
from tests.nightly.judging import FEW, digest, finite, little_memory, outcome, settled
from tests.nightly.texts import TEXTS

pytestmark = pytest.mark.slow  # all properties together: most of a minute

LEFT_OUT = {  # with the reason
    "decoding.SequenceModel": "a protocol: it has no code; models that follow it are drawn",
    "data.read_parallel": "reads files, which test_fuzz_files damages",
}
ATOMIC = "attention.KeyValueCache.append"  # refused, it has changed nothing
NOT_FINITE = {  # minus infinity for what is not kept, NaN for a group without a sentence
    "decoding.keep_top_k",
    "decoding.keep_top_p",
    "decoding.n_best",  # where fewer than n have ended
    "metrics.accuracy_by_length",
}
CHANGES = {  # what these are given, because it is what they are for
    ATOMIC,
    "training.update",
    "decoding.sample",  # its generator
    *(
        f"transformer.{name}"
        for name in (
            "DecoderLayer.forward",
            "Decoder.forward",
            "Transformer.step",
            "LanguageModel.forward",
            "LanguageModel.step",
        )
    ),  # caches
    "training.train",
}
WORK = ("n_layers", "steps", "accumulate", "max_length", "beam", "n_train", "n_test")  # never huge
OTHER_TYPES: tuple[Any, ...] = (None, "3", [2], (), {}, 2 + 1j, b"a", 1.5)
ODD = (math.nan, math.inf, -math.inf, 1e300, 1e-320)


def public() -> Iterator[tuple[str, Callable[[Arguments], tuple[Callable, Callable]]]]:
    """A name, and what makes of it the call and the callable whose signature it has."""
    for module in pkgutil.iter_modules(lib.__path__):
        here = importlib.import_module(f"lib.{module.name}")
        for name, thing in vars(here).items():
            title = f"{module.name}.{name}"
            if name.startswith("_") or getattr(thing, "__module__", "") != here.__name__:
                continue
            if title in LEFT_OUT or not (inspect.isfunction(thing) or inspect.isclass(thing)):
                continue
            if not (inspect.isclass(thing) and issubclass(thing, tuple)):  # a tuple takes anything
                yield title, partial(lambda thing, a: (thing, thing), thing)
            if inspect.isclass(thing):
                for method, value in vars(thing).items():
                    if not method.startswith("_") and inspect.isroutine(getattr(thing, method)):
                        yield f"{title}.{method}", partial(of_instance, thing, method, value)


def of_instance(kind: type, method: str, value: Any, a: Arguments) -> tuple[Callable, Callable]:
    if isinstance(value, classmethod):
        return (getattr(kind, method),) * 2
    a.instance = a.instance_of(kind)
    bound = getattr(a.instance, method)
    return (a.instance if method == "forward" else bound), bound


CASES = dict(public())


def call_with(call: Callable, arguments: dict[str, Any]) -> Any:
    named = {name: value for name, value in arguments.items() if name != "*"}
    return settled(call(*arguments.get("*", ()), **named))


@pytest.mark.parametrize("name", CASES)
@FEW
@given(data=st.data())
def test_what_fits_gives_finite_results_of_the_stated_shape(name, data):
    a = Arguments(data.draw)
    call, signature = CASES[name](a)
    arguments = a.fitting(signature)
    before = digest(arguments)
    result = call_with(call, arguments)  # the shapes are checked by the tests' type checker
    assert finite(result) or name in NOT_FINITE
    assert digest(arguments) == before or name in CHANGES


@pytest.mark.parametrize("name", CASES)
@FEW
@given(data=st.data())
def test_what_does_not_fit_is_refused_or_has_a_finite_result(name, data):
    a = Arguments(data.draw)
    call, signature = CASES[name](a)
    arguments = a.fitting(signature)
    if not arguments:
        return
    spoil = Spoiler(data.draw)
    some = st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=2, unique=True)
    for one in data.draw(some):
        arguments[one] = spoil.other(one, arguments[one])
    note(f"{arguments}")
    before = digest(arguments, a.instance)
    with unchecked(), little_memory():
        end, result = outcome(partial(call_with, call, arguments), wrong_type=spoil.wrong_type)
    if end == "refused" or name not in CHANGES:
        assert digest(arguments, a.instance) == before or name in CHANGES - {ATOMIC}
    if end == "returned" and not spoil.odd and not spoil.wrong_type:
        assert finite(result) or name in NOT_FINITE


class Spoiler:
    """Puts something else in an argument's place, and remembers what may follow from it."""

    def __init__(self, draw: Callable[[st.SearchStrategy], Any]):
        self.draw = draw
        self.wrong_type = False  # some argument has another Python type, or other numbers
        self.odd = False  # some number is so large or small that results need not be finite

    def other(self, name: str, value: Any) -> Any:
        if self.draw(st.integers(0, 9)) == 0 or value is None or isinstance(value, bool):
            self.wrong_type = True
            return self.draw(st.sampled_from(OTHER_TYPES))
        if isinstance(value, Tensor):
            return self.other_tensor(value)
        if isinstance(value, int | float):
            huge = (50,) if name in WORK else (300, 10**12, 2**63, -(2**70))
            numbers = (0, -1, -7, 1.5, *huge, *(ODD if isinstance(value, float) else ()))
            number = self.draw(st.sampled_from(numbers))
            self.odd |= number in ODD or number != number or abs(number) > 1e9 or number < 0
            self.wrong_type |= isinstance(value, int) and isinstance(number, float)
            return number
        if isinstance(value, str):
            return self.draw(st.sampled_from(TEXTS))
        if isinstance(value, list) and value and self.draw(st.integers(0, 3)):
            at = self.draw(st.integers(0, len(value) - 1))
            return [*value[:at], self.other("", value[at]), *value[at + 1 :]]
        if isinstance(value, list):
            self.wrong_type |= name == "*"
            return []
        if isinstance(value, nn.Module) and any(p.numel() > 1 for p in value.parameters()):
            self.odd = True
            weight = next(p for p in reversed(list(value.parameters())) if p.numel() > 1)
            nn.init.constant_(weight, self.draw(st.sampled_from(ODD[:3])))
            return value
        self.wrong_type = True
        return self.draw(st.sampled_from(OTHER_TYPES))

    def other_tensor(self, value: Tensor) -> Tensor:
        ways = ["longer", "empty", "fewer axes", "more axes", "another type", "an entry"]
        way = self.draw(st.sampled_from(ways if value.numel() else ways[3:5]))
        if way == "another type":
            self.wrong_type = True
            kinds = (torch.float64, torch.float16, torch.complex64, torch.int64, torch.bool)
            return value.to(self.draw(st.sampled_from([k for k in kinds if k != value.dtype])))
        if way == "more axes" or value.dim() == 0:
            return value[None].repeat(self.draw(st.integers(1, 2)), *[1] * value.dim())
        axis = self.draw(st.integers(0, value.dim() - 1))
        if way == "longer":
            return torch.cat([value, value.narrow(axis, 0, 1)], axis)
        if way == "empty":
            return value.narrow(axis, 0, 0)
        if way == "fewer axes":
            return value.select(axis, 0)
        if value.dtype == torch.bool:
            return value.float()
        whole = (-1, VOCAB, 2**40, -(2**62))
        entry = self.draw(st.sampled_from(whole if value.dtype == torch.int64 else ODD[:3]))
        self.odd |= value.is_floating_point()
        changed = value.clone(memory_format=torch.contiguous_format)
        changed.view(-1)[0] = entry
        return changed
