"""Draws the arguments of one fuzzed call: mostly right ones, and now and then one that is not.

A recipe asks for what a function wants, e.g. `d.floats(2, 3)`. With the chance `d.spoil` it gets
something else: another size, a NaN, a number out of range, a value of another type. What was
spoiled is noted, for a call with a wrong Python type may fail otherwise than one with a wrong size.
"""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

SIZES = (1, 2, 3, 5, 7)
WRONG_TYPES: tuple[Any, ...] = (None, "3", [2], (), {}, 2 + 1j, object(), b"a", 1.5)
TEXTS = (
    "",
    " ",
    "\t",
    "\r",
    "\n\n",
    "the cat sat",
    "It's 42.",
    "\x00",
    "a\x00b",
    "<pad>",
    "<bos> <eos> <unk>",
    "</w>",
    "a</w>b",
    "\ud800",
    "\udcff",
    "\ufeffa",
    "\u202eabc",
    "\u200b",
    "e\u0301",
    "\u00e9",
    "\ufb01",
    "\u0130",
    "\u1e9e",
    "\u0345",
    "\U0001f469\u200d\U0001f4bb",
    "\U0010ffff",
    "\u0660\u0661",
    "\u2167",
    "\u00b2",
    "漢字",
    "שלום",
    "مرحبا",
    "ภาษาไทย",
    "हिन्दी",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "__proto__",
    "constructor",
    "toString",
    "{{7*7}}",
    "${jndi:ldap://a}",
    "%s%n%d",
    "%00",
    "../../etc/passwd",
    "'; DROP TABLE x;--",
    "$(touch x)",
    "`touch x`",
    "\\",
    "\\u0041",
    "-1",
    "NaN",
    "1e999",
    "0x10",
    "١٢٣",
    "a" * 1000,
    "ab " * 500,
    "\u0301" * 200,
    "\U0001f600" * 50,
    "a\u2028b",
    "a\x85b",
    "a\x1cb",
    "a\u3000b",
    "=1+1",
    "\x1b[31mred",
    "\x7f",
)


class Draw:
    """The random arguments of one call, all from its seed."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed % 2**63)
        self.spoil = self.rng.choice((0.0, 0.03, 0.1, 0.3))
        self.spoiled: list[str] = []
        self.wrong_type = False  # some argument is of another Python type, or tensors differ in it
        self.odd = False  # some number is not finite or so large that results need not be

    def hit(self) -> bool:
        return self.rng.random() < self.spoil

    def other_type(self) -> Any:
        self.wrong_type = True
        value = self.rng.choice(WRONG_TYPES)
        self.spoiled.append(f"a {type(value).__name__}")
        return value

    def _note(self, value: Any) -> Any:
        self.spoiled.append(repr(value))
        return value

    def size(self) -> int:
        """An axis's length: never spoiled itself, for tensors spoil it."""
        return self.rng.choice(SIZES)

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    def seed(self) -> int:
        return self.count(0, 1000)

    def count(self, least: int = 1, most: int = 7, *, work: bool = False) -> Any:
        """A whole number; one that says how much is to be done (`work`) is never huge."""
        if not self.hit():
            return self.rng.randint(least, most)
        if self.rng.random() < 0.2:
            return self.other_type()
        large = (50,) if work else (300, 10**12, 2**63)
        return self._note(self.rng.choice((0, -1, -7, least - 1, *large, -(2**70))))

    def number(self, least: float = 0.01, most: float = 4.0) -> Any:
        """A real number."""
        if not self.hit():
            return self.rng.uniform(least, most)
        if self.rng.random() < 0.2:
            return self.other_type()
        value = self.rng.choice((0.0, -0.0, -1.0, 1.0, 1.5, 1e-320, 1e300, *self.not_finite()))
        self.odd |= not 1e-30 < abs(value) < 1e30
        return self._note(value)

    @staticmethod
    def not_finite() -> tuple[float, float, float]:
        return math.nan, math.inf, -math.inf

    def share(self) -> Any:
        """A fraction that a dropout or a smoothing may be."""
        return self.number(0.0, 0.9)

    def choice(self, options: Sequence[Any]) -> Any:
        if not self.hit():
            return self.rng.choice(list(options))
        if self.rng.random() < 0.3:
            return self.other_type()
        return self._note(self.rng.choice((*TEXTS, str(self.rng.choice(list(options))).upper())))

    def maybe(self, value: Any) -> Any:
        return value if self.flag() else None

    def _shape(self, shape: Sequence[int]) -> list[int]:
        shape = list(shape)
        if not self.hit():
            return shape
        at = self.rng.randrange(len(shape)) if shape else 0
        way = self.rng.choice(("more", "less", "none", "one", "drop", "add", "swap"))
        if not shape or way == "add":
            shape.insert(at, self.rng.choice((1, 2, 3)))
        elif way == "drop":
            del shape[at]
        elif way == "swap":
            self.rng.shuffle(shape)
        else:
            shape[at] = {"more": shape[at] + 1, "less": shape[at] - 1, "none": 0, "one": 1}[way]
        self.spoiled.append(f"shape {tuple(shape)}")
        return [max(0, size) for size in shape]

    def _other_tensor(self, tensor: Tensor) -> Any:
        """Not a tensor of this type."""
        if self.rng.random() < 0.5:
            return self.other_type()
        self.wrong_type = True
        dtype = self.rng.choice((torch.float64, torch.float16, torch.complex64, torch.int64))
        dtype = torch.bool if dtype == tensor.dtype else dtype
        self.spoiled.append(str(dtype))
        self.odd |= dtype == torch.float16
        return tensor.to(dtype)

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Any:
        """Standard normal numbers; sometimes with others' strides, which are no mistake."""
        sizes = self._shape(shape)
        tensor = (torch.randn(sizes, generator=self.torch, dtype=torch.float64) * scale).to(dtype)
        if self.hit() and tensor.numel():
            value = self.rng.choice((*self.not_finite(), 1e30, -1e30))
            self.odd = True
            self.spoiled.append(f"entry {value}")
            tensor.view(-1)[self.rng.randrange(tensor.numel())] = value
        if len(sizes) > 1 and self.rng.random() < 0.2:
            tensor = tensor.mT.contiguous().mT
        return self._other_tensor(tensor) if self.hit() and self.rng.random() < 0.3 else tensor

    def ints(self, *shape: int, least: int = 0, below: int = 7) -> Any:
        """Whole numbers from `least` up to `below`, which itself they do not reach."""
        sizes = self._shape(shape)
        tensor = torch.randint(least, max(below, least + 1), sizes, generator=self.torch)
        if self.hit() and tensor.numel():
            value = self.rng.choice((below, -1, least - 1, 2**40, -(2**62)))
            self.spoiled.append(f"entry {value}")
            tensor.view(-1)[self.rng.randrange(tensor.numel())] = value
        return self._other_tensor(tensor) if self.hit() and self.rng.random() < 0.3 else tensor

    def mask(self, *shape: int) -> Any:
        tensor = torch.rand(self._shape(shape), generator=self.torch) < 0.6
        if self.hit() and self.rng.random() < 0.5:  # not boolean: this one is documented
            self.spoiled.append("mask of numbers")
            return tensor.float() if self.flag() else tensor.long()
        return self._other_tensor(tensor) if self.hit() and self.rng.random() < 0.2 else tensor

    def lengths(self, batch: int, time: int) -> Any:
        return self.ints(batch, least=1, below=time + 1)

    def text(self) -> Any:
        """A text: the hostile ones are no mistake."""
        if self.hit() and self.rng.random() < 0.3:
            return self.other_type()
        if self.flag():
            return self.rng.choice(TEXTS)
        return "".join(self.rng.choices("abc ABC é'.,7\t\u3000\u0301\U0001f600", k=self.size()))

    def word(self) -> str:
        return self.rng.choice(
            ("a", "b", "c", "d", "é", "7", *TEXTS[:12]) if self.hit() else "abcd"
        )

    def tokens(self) -> Any:
        if self.hit():
            if self.rng.random() < 0.5:
                return self._note(self.rng.choice(((), [], "text", ("",), ("<eos>",), ("a b",))))
            return self.other_type()
        return tuple(self.word() for _ in range(self.size()))

    def some(self, make: Any, least: int = 1) -> Any:
        """A list of things; sometimes an empty one, or no list at all."""
        if self.hit():
            if self.rng.random() < 0.5:
                return self._note([])
            return self.other_type()
        return [make() for _ in range(self.rng.randint(least, 6))]
