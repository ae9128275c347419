"""Mistakes that people made in Transformers, 27 in models and four beside them, re-created by us.

`MISTAKES` lists them with what `catalogue.toml` tells of each: where it stood, its symptoms, its
cause, and its fix. Each one in a model replaces one method of `specimen.PlainAttention` or of
`specimen.Specimen`, which are right; `mistake_matrix` asks every property of every one."""

import ast
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from chapters.mistakes import in_attention, in_model, in_pieces
from chapters.mistakes.piece_properties import shift_is_linear
from chapters.mistakes.properties import (
    LAYER,
    MODEL,
    check_attention_layer,
    check_model,
    check_piece,
)
from chapters.mistakes.specimen import VOCABULARIES, PlainAttention, Specimen
from checks.framework import Finding


@dataclass(frozen=True)
class Mistake:
    """A broken class or function: where it stood, the property that names it, its symptoms."""

    broken: type | Callable
    title: str
    group: str
    source: str
    property: str
    looks: str
    why: str
    fixed: str

    @cached_property  # `property` is a field here
    def name(self) -> str:
        """The name of the broken class or function."""
        return self.broken.__name__

    @cached_property
    def in_a_model(self) -> bool:
        """Whether it breaks a model, and not a single piece."""
        return isinstance(self.broken, type)

    @cached_property
    def attention(self) -> type[PlainAttention]:
        """The attention layer of its model, broken or right."""
        kind = self.broken if isinstance(self.broken, type) else Specimen
        return kind if issubclass(kind, PlainAttention) else PlainAttention

    def make(self, source_vocab: int, target_vocab: int, **sizes: int) -> Specimen:
        """A model with this mistake and no other.

        Errors: ValueError for a mistake that is not in a model.
        """
        if not isinstance(self.broken, type):
            raise ValueError(f"expected a mistake in a model, got the function {self.name}")
        kind: type = Specimen if issubclass(self.broken, PlainAttention) else self.broken
        return kind(source_vocab, target_vocab, self.attention, **sizes)

    def code(self) -> str:
        """The broken code, without its docstring."""
        source = inspect.getsource(self.broken)
        lines = source.rstrip().splitlines()
        docstring = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
        del lines[docstring.lineno - 1 : docstring.end_lineno]
        text = "\n".join(line.split("  # type:")[0].split("  # noqa")[0] for line in lines)
        return text.replace(":\n\n", ":\n", 1)


def read_mistakes(path: Path) -> tuple[Mistake, ...]:
    """The mistakes that a file tells of, in its order, each with the code that bears its name."""
    broken = vars(in_attention) | vars(in_model) | vars(in_pieces)
    records = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(Mistake(broken[name], **record) for name, record in records.items())


MISTAKES = read_mistakes(Path(__file__).with_suffix(".toml"))
COLUMNS = tuple(
    dict.fromkeys(p.name for p in (*LAYER, shift_is_linear, *MODEL) if p.name != "copied layer")
)


def find_mistake(name: str) -> Mistake:
    """The mistake whose broken class or function has this name.

    Errors: ValueError for a name that none has.
    """
    for mistake in MISTAKES:
        if mistake.name == name:
            return mistake
    raise ValueError(f"expected the name of a mistake, such as NoTargetMask, got {name!r}")


def findings_of(mistake: Mistake | None) -> dict[str, Finding]:
    """What each property finds in the model with this mistake, or in the right one for None."""
    if mistake is not None and not mistake.in_a_model:
        return {mistake.property: check_piece(mistake.broken, mistake.property)}
    make = Specimen if mistake is None else mistake.make
    layer = PlainAttention if mistake is None else mistake.attention
    torch.manual_seed(0)
    right = type("Right", (Specimen,), {"tied": make(*VOCABULARIES).tied})(*VOCABULARIES)
    of_table = shift_is_linear(make(*VOCABULARIES).table)
    of_model = check_model(
        lambda: make(*VOCABULARIES),
        *VOCABULARIES,
        parameters=sum(p.numel() for p in right.parameters()),
        reference=lambda model: model.reference(),
    )
    # "sizes" is asked of model and layer; the later of two stays, so what fails comes last
    asked = (*check_attention_layer(layer), of_table, *of_model)
    found = {f.name: f for f in sorted(asked, key=lambda finding: not finding.held)}
    return {name: found[name] for name in COLUMNS}


def mistake_matrix() -> dict[str, dict[str, Finding]]:
    """The findings for every mistake in a model, by name and property: 20 seconds or less."""
    return {mistake.name: findings_of(mistake) for mistake in MISTAKES if mistake.in_a_model}
