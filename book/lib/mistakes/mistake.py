"""What is known of one mistake, and how to make a model that has it."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from lib.mistakes.specimen import PlainAttention, Specimen


@dataclass(frozen=True)
class Mistake:
    """A broken class or function, where it stood, which property names it, what one sees, and why.

    Source: ours. Chapter: 15 (Mistakes in the wild).
    """

    broken: type | Callable
    title: str
    group: str
    source: str
    property: str
    looks: str
    why: str
    mended: str

    @property
    def name(self) -> str:
        """The name of the broken class or function. Chapter: 15 (Mistakes in the wild)."""
        return self.broken.__name__

    @property
    def in_a_model(self) -> bool:
        """Whether it breaks a model, and not a single piece. Chapter: 15 (Mistakes in the wild)."""
        return inspect.isclass(self.broken)

    @property
    def attention(self) -> type[PlainAttention]:
        """The attention layer of its model, broken or right. Chapter: 15 (Mistakes in the wild)."""
        return self.broken if issubclass(self.broken, PlainAttention) else PlainAttention

    def make(self, source_vocab: int, target_vocab: int, **sizes: int) -> Specimen:
        """A model with this mistake and no other.

        Errors: ValueError for a mistake that is not in a model.
        Chapter: 15 (Mistakes in the wild).
        """
        if not self.in_a_model:
            raise ValueError(f"expected a mistake in a model, got the function {self.name}")
        kind = Specimen if issubclass(self.broken, PlainAttention) else self.broken
        return kind(source_vocab, target_vocab, self.attention, **sizes)

    def code(self) -> str:
        """The broken code, without its docstring. Chapter: 15 (Mistakes in the wild)."""
        source = textwrap.dedent(inspect.getsource(self.broken))
        lines = source.rstrip().splitlines()
        docstring = ast.parse(source).body[0].body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
        text = "\n".join(line.split("  # noqa")[0] for line in lines)
        return text.replace(":\n\n", ":\n", 1)
