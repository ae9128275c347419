"""Turns every formula into MathML while the book is built, so a page needs no maths script.

KaTeX (from the package sphinxcontrib-katex) reads the LaTeX inside Python, through mini-racer; a
formula that it cannot read stops the build. Browsers set MathML themselves, with the font that
`fonts` cuts to measure.
"""

import contextlib
import functools
import html
import itertools
import json
import re
import unicodedata
from pathlib import Path

import sphinxcontrib
from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number

KATEX = Path(next(iter(sphinxcontrib.__path__))) / "katex.min.js"
OPTIONS = {"output": "mathml", "throwOnError": True, "strict": False}

# MathML Core has no mathvariant but "normal": such letters are written as their own characters.
ALPHABETS = ("bold", "double-struck", "script")


@functools.cache
def engine() -> MiniRacer:
    context = MiniRacer()
    context.eval("var self = this; var globalThis = this;")
    context.eval(KATEX.read_text(encoding="utf-8"))
    return context


@functools.cache
def to_mathml(latex: str, display: bool) -> str:
    """Return the <math> element for `latex`. Errors: ExtensionError with KaTeX's own message."""
    options = json.dumps(OPTIONS | {"displayMode": display})
    call = f"try {{ katex.renderToString({json.dumps(latex)}, {options}) }} catch (e) {{ '!' + e }}"
    result = str(engine().eval(call))
    if result.startswith("!"):
        raise ExtensionError(f"formula {latex!r}: {result[1:]}")
    math = result[result.index("<math") : result.rindex("</math>") + len("</math>")]
    math = re.sub(r"<annotation.*?</annotation>", "", math, flags=re.DOTALL)
    math = re.sub(r"</?semantics>", "", math)
    math = re.sub(r'<(m[ino]) mathvariant="([a-z-]+)">([^<]+)</\1>', plain_variant, math)
    math = re.sub(r"<mtable[^>]*columnalign=.*?</mtable>", align_columns, math, flags=re.DOTALL)
    # A named function and its argument ("exp e") stand a thin space apart, unless "(" follows.
    thin = r'<mo>⁡</mo><mspace width="0.1667em"/>\1'
    math = re.sub(r"<mo>⁡</mo>((?!<mo[^>]*>\()<m)", thin, math)
    label = html.escape(latex, quote=True)
    return math.replace("<math ", f'<math alttext="{label}" ', 1)


def plain_variant(match: re.Match) -> str:
    """Replace letters of a styled alphabet by their own Unicode characters."""
    tag, variant, letters = match.groups()
    if variant == "normal":
        return match.group()
    if variant not in ALPHABETS:
        raise ExtensionError(f"formula: no characters known for mathvariant={variant!r}")
    return f"<{tag}>{''.join(styled(variant, letter) for letter in letters)}</{tag}>"


def styled(variant: str, letter: str) -> str:
    """The letter or digit in that alphabet, found by its name in Unicode; itself if there is none.

    Most such letters are called "mathematical", and older ones as "double-struck capital R" is.
    """
    name = re.sub("(LATIN|GREEK|LETTER) ", "", unicodedata.name(letter, ""))
    for prefix in ("MATHEMATICAL ", ""):
        with contextlib.suppress(KeyError):
            return unicodedata.lookup(f"{prefix}{variant.upper()} {name}")
    return letter


def align_columns(match: re.Match) -> str:
    """MathML Core has no columnalign: give each cell its own text-align instead."""
    table = match.group()
    sides = "".join(re.findall(r'columnalign="([a-z ]+)"', table)[:1]).split()
    aligned = "right left" in " ".join(sides)  # an equation array: no gap at the "="

    def row(cells: re.Match) -> str:
        column = itertools.chain(sides, itertools.repeat(sides[-1]))

        def cell(_: re.Match) -> str:
            side = next(column)
            gap = {"right": "padding-right:0;", "left": "padding-left:0;"}.get(side, "")
            return f'<mtd style="text-align:{side};{gap if aligned else ""}">'

        return re.sub(r"<mtd[^>]*>", cell, cells.group())

    return re.sub(r"<mtr>.*?</mtr>", row, table, flags=re.DOTALL)


def pieces(latex: str) -> list[str]:
    """A display in the pieces between its wide spaces, each of which may have a line of its own."""
    if r"\begin" in latex or r"\\" in latex:
        return [latex]
    found, depth = [""], 0
    for part in re.split(r"(\\qquad(?![a-zA-Z])|\\[a-zA-Z]+|\\.|[{}])", latex):
        depth += {"{": 1, "}": -1, r"\left": 1, r"\right": -1}.get(part, 0)
        if part == r"\qquad" and depth == 0:
            found.append("")
        else:
            found[-1] += part
    return [piece for piece in found if piece.strip()]


def visit_inline(translator, node: nodes.math) -> None:
    translator.body.append(to_mathml(node.astext(), display=False))
    raise nodes.SkipNode


def visit_block(translator, node: nodes.math_block) -> None:
    number = ""
    identifiers = f' id="{node["ids"][0]}"' if node["ids"] else ""
    if node["number"]:
        number = f'<span class="eqno">({get_node_equation_number(translator, node)})</span>'
    latex = node.astext().strip()
    if not node["nowrap"] and r"\\" in latex and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    math = "".join(to_mathml(piece, display=True) for piece in pieces(latex))
    # Where no script sets it smaller, a wide formula scrolls in its own box, which the keyboard
    # must reach too.
    attributes = f'{identifiers} class="math-block" tabindex="0" role="group" aria-label="formula"'
    translator.body.append(f"<div{attributes}>{math}{number}</div>\n")
    raise nodes.SkipNode
