"""Draws the schematics of the book: one visual language, from a description of a few lines to SVG.

    s = Schematic(400, 150, alt="A query of d_k numbers meets a key ...")
    q = s.vector("$q$", at=(80, 40), kind="query", shape=("d_k",))
    k = s.vector("$k$", at=below(q, 40), kind="key", shape=("d_k",))
    dot = s.product(at=(200, 70))
    s.arrow(q, dot, path="hv")
    s.arrow(k, dot, path="hv")

A part is placed with its centre `at` a point (x to the right, y down), or beside another part:
`right_of(part, gap)`, `left_of`, `above`, `below`. It has the anchors left, right, top, bottom and
centre. Arrows connect parts or points. Text between dollars is mathematics: `$h_1$`, `$W^{(2)}$`,
`$Q K^T$`; one letter is italic, several are a word. A part may carry the shape of its tensor, which
a test holds against the layer that it shows (`Schematic.shapes`).
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from typing import Any

from drawing.style import KINDS, SHADE, standalone

WIDEST = 400.0  # on a phone of 390 pixels a figure gets about 350
SMALLEST = 13.0  # of all letters, subscripts too
SHORTEST_ALT = 8  # words
DOTS = "…"
HEAD = 8.0  # the length of an arrow's head
CORNER = 6.0
CELL = 16.0
SIDES = ("left", "top", "right", "bottom")
NARROW, WIDE = set("iljtfrI.,:;|!'()[]1 "), set("mwMWQOG—√")
SPAN = re.compile(
    r"(?P<shift>[_^])(?:\{(?P<group>[^}]*)\}|(?P<one>.))|(?P<word>[^\W\d_]+)|(?P<other>.)"
)

Units = float | int
Point = tuple[Units, Units]
Place = Callable[[Units, Units], Point]
Shape = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Something drawn: its name, the middle and size of its box, and the shape of its tensor.

    Its anchors lie outside its labels, which take `margins` to the left, top, right and bottom.
    """

    name: str
    x: Units
    y: Units
    width: Units
    height: Units
    shape: Shape = ()
    margins: tuple[Units, ...] = (0, 0, 0, 0)

    @property
    def centre(self) -> Point:
        return self.x, self.y

    @property
    def corner(self) -> Point:
        """The upper left corner of the box itself."""
        return self.x - self.width / 2, self.y - self.height / 2

    @property
    def left(self) -> Point:
        return self.x - self.width / 2 - self.margins[0], self.y

    @property
    def top(self) -> Point:
        return self.x, self.y - self.height / 2 - self.margins[1]

    @property
    def right(self) -> Point:
        return self.x + self.width / 2 + self.margins[2], self.y

    @property
    def bottom(self) -> Point:
        return self.x, self.y + self.height / 2 + self.margins[3]


@dataclass(frozen=True)
class Plane:
    """A plane with its origin at a point of the schematic; y points up."""

    origin: Point
    unit: Units

    def at(self, x: Units, y: Units) -> Point:
        """The point of the schematic where (x, y) of the plane lies."""
        return self.origin[0] + x * self.unit, self.origin[1] - y * self.unit


def right_of(part: Part, gap: Units = 24) -> Place:
    """The place to the right of a part, on its middle line."""
    return lambda width, height: (part.right[0] + gap + width / 2, part.y)


def left_of(part: Part, gap: Units = 24) -> Place:
    """The place to the left of a part, on its middle line."""
    return lambda width, height: (part.left[0] - gap - width / 2, part.y)


def below(part: Part, gap: Units = 24) -> Place:
    """The place below a part, in its middle."""
    return lambda width, height: (part.x, part.bottom[1] + gap + height / 2)


def above(part: Part, gap: Units = 24) -> Place:
    """The place above a part, in its middle."""
    return lambda width, height: (part.x, part.top[1] - gap - height / 2)


# --- text -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A piece of text in one look: style "" (the label's), "m" (a letter) or "u" (upright)."""

    text: str
    style: str
    size: Units
    shift: Units  # down, against the line

    @property
    def width(self) -> Units:
        ems = sum(0.34 if c in NARROW else 0.86 if c in WIDE else 0.57 for c in self.text)
        return ems * self.size


def spans(text: str, size: Units) -> list[Span]:
    """A label's pieces; between dollars stands mathematics."""
    found = []
    for number, piece in enumerate(text.split("$")):
        if number % 2:
            found += math_spans(piece, round(size * 1.14), 0)
        elif piece:
            found.append(Span(piece, "", size, 0))
    return found


def math_spans(text: str, size: Units, shift: Units) -> list[Span]:
    """The pieces of a formula: single letters italic, words and figures upright."""
    found: list[Span] = []
    for match in SPAN.finditer(text):
        if match["shift"]:
            small = max(SMALLEST, round(size * 0.75))
            to = shift + size * (0.25 if match["shift"] == "_" else -0.36)
            found += math_spans(match["group"] or match["one"], small, to)
            continue
        style = "m" if match["word"] and len(match["word"]) == 1 else "u"
        piece = Span(match[0].replace("-", "−"), style, size, shift)
        if found and (found[-1].style, found[-1].size, found[-1].shift) == (style, size, shift):
            piece = Span(found.pop().text + piece.text, style, size, shift)
        found.append(piece)
    return found


def text_width(text: str, size: Units = 14) -> Units:
    """About how wide a label of one line is; the letters of a system's font differ a little."""
    return sum(span.width for span in spans(text, size))


def text_markup(text: str, x: Units, y: Units, size: Units, align: str, style: str) -> str:
    """One line of a label as SVG, its letters' middle at the height y."""
    pieces, down = [], 0.0
    for span in spans(text, size):
        attributes = f' class="{span.style}"' if span.style else ""
        attributes += f' font-size="{number(span.size)}"' if span.size != size else ""
        moved, down = span.shift - down, span.shift
        attributes += f' dy="{number(moved)}"' if moved else ""
        inner = escape(span.text)
        pieces.append(f"<tspan{attributes}>{inner}</tspan>" if attributes else inner)
    anchor = "" if align == "middle" else f' text-anchor="{align}"'
    given = f' font-size="{number(size)}"' if size != 14 else ""
    given += f' class="{style}"' if style else ""
    baseline = y + size * 0.35
    return f'<text x="{number(x)}" y="{number(baseline)}"{anchor}{given}>{"".join(pieces)}</text>'


def number(value: Units) -> str:
    """A coordinate with one decimal at most: the same bytes on every machine."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def shape_text(shape: Shape) -> str:
    """A shape as a label: ("query", "d_k") gives (query, d_k)."""
    axes = (f"${a.replace('*', ' · ')}$" if "_" in a else a.replace("*", " · ") for a in shape)
    return f"({', '.join(axes)})"


# --- the drawing ------------------------------------------------------------------------------


class Schematic:
    """A drawing of at most 400 units in width; on a page it is as wide as the page has room.

    Args: alt, what the drawing shows, for those who do not see it.
    Errors: ValueError for another size, and for a description too short to describe.
    """

    def __init__(self, width: Units, height: Units, *, alt: str):
        if not 0 < width <= WIDEST or height <= 0:
            raise ValueError(
                f"expected a width of at most {WIDEST:g} and a height above 0, got {width:g} and "
                f"{height:g}; put parts below one another, so that a phone shows them"
            )
        if len(alt.split()) < SHORTEST_ALT:
            raise ValueError(
                f"expected alt text of {SHORTEST_ALT} words or more, got {alt!r}; say what the "
                "schematic shows: its parts, and what flows from where to where"
            )
        self.width, self.height, self.alt = width, height, " ".join(alt.split())
        self.parts: list[Part] = []
        self._body: list[str] = []

    # parts

    def token(
        self, text: str, *, at: Point | Place, kind: str = "plain", width: Units = 0, name: str = ""
    ) -> Part:
        """A token: a word in a rounded box."""
        width = width or max(30.0, text_width(text) + 18)
        part = self._place(name or text, at, width, 28)
        self._draw(kind, rectangle(part, radius=8), self._text(text, part.centre))
        return part

    def layer(
        self,
        text: str,
        *,
        at: Point | Place,
        kind: str = "plain",
        width: Units = 0,
        height: Units = 0,
        shape: Shape = (),
        shape_side: str = "bottom",
        name: str = "",
    ) -> Part:
        """A layer or another step: a box with its name in it, on several lines if need be."""
        lines = text.split("\n")
        width = width or max(map(text_width, lines)) + 24
        part = self._place(name or text, at, width, height or 14 + 18 * len(lines), shape)
        self._draw(kind, rectangle(part, radius=3), self._text(text, part.centre))
        return self._label(part, "", kind, "", shape_side)

    def norm(self, text: str = "norm", *, at: Point | Place, width: Units = 0) -> Part:
        """A normalisation: a box with round ends."""
        part = self._place(text, at, width or text_width(text) + 28, 28)
        self._draw("plain", rectangle(part, radius=14), self._text(text, part.centre))
        return part

    def softmax(self, text: str = "softmax", *, at: Point | Place, width: Units = 0) -> Part:
        """A softmax: a box with pointed ends."""
        part = self._place(text, at, width or text_width(text) + 36, 28)
        (left, y), (right, _), point = part.left, part.right, 10
        corners = [(left, y), (left + point, y - 14), (right - point, y - 14), (right, y)]
        corners += [(right - point, y + 14), (left + point, y + 14)]
        self._draw("plain", path(corners, "box", closed=True), self._text(text, part.centre))
        return part

    def sum(self, *, at: Point | Place, kind: str = "plain") -> Part:
        """A circle with a plus: a sum."""
        return self._circle("+", at, kind)

    def product(self, *, at: Point | Place, kind: str = "plain") -> Part:
        """A circle with a cross: a number times a vector, or number by number."""
        return self._circle("×", at, kind)

    def dot(self, *, at: Point | Place, kind: str = "plain") -> Part:
        """A circle with a dot: the dot product of two vectors."""
        return self._circle("·", at, kind)

    def dial(self, turned: Units, *, at: Point | Place, kind: str = "plain") -> Part:
        """A clock with one hand, `turned` from the top by so many radians: a sine and a cosine."""
        part = self._place("", at, 34, 34)
        (x, y), radius = part.centre, part.width / 2
        tip = (x + (radius - 3) * math.sin(turned), y - (radius - 3) * math.cos(turned))
        self._draw(kind, circle(part))
        self._line([(x, y), tip], "line", kind, HEAD * 0.75)
        return part

    def vector(
        self,
        text: str = "",
        *,
        at: Point | Place,
        kind: str = "plain",
        cells: int = 4,
        values: Sequence[str | Units] = (),
        shade: Sequence[Units] = (),
        filled: int | None = None,
        upright: bool = False,
        cell: Units | Point = 0,
        side: str = "left",
        shape: Shape = (),
        shape_side: str = "bottom",
        name: str = "",
    ) -> Part:
        """A vector: small cells in a line, upright if asked, with its name at the `side`.

        Args: shape_side, where its shape stands, "" for nowhere; values, what stands in the
        cells; shade, from 0 to 1, how strongly each is filled; filled, how many cells hold
        something (the others are dashed: room in a cache).
        """
        count = len(values) or len(shade) or cells
        rows, columns = (count, 1) if upright else (1, count)

        def grid(flat: Sequence[Any]) -> list[list[Any]]:
            return [[one] for one in flat] if upright else [list(flat)] if flat else []

        part = self._cells(
            name or text, at, kind, rows, columns, grid(values), grid(shade), cell, shape, filled
        )
        return self._label(part, text, kind, side, shape_side)

    def matrix(
        self,
        text: str = "",
        *,
        at: Point | Place,
        kind: str = "plain",
        rows: int = 3,
        columns: int = 4,
        values: Sequence[Sequence[str | Units]] = (),
        shade: Sequence[Sequence[Units]] = (),
        cell: Units | Point = 0,
        side: str = "top",
        shape: Shape = (),
        shape_side: str = "bottom",
        name: str = "",
    ) -> Part:
        """A matrix: a grid of cells with its name at the `side`.

        Args: shape_side, where its shape stands, "" for nowhere; values, what stands in the
        cells; shade, from 0 to 1, how strongly each is filled.
        """
        if given := values or shade:
            rows, columns = len(given), len(given[0])
        part = self._cells(name or text, at, kind, rows, columns, values, shade, cell, shape)
        return self._label(part, text, kind, side, shape_side)

    def mask(
        self,
        text: str,
        allowed: Sequence[Sequence[bool]],
        *,
        at: Point | Place,
        kind: str = "plain",
        cell: Units | Point = 0,
        side: str = "top",
        shape: Shape = (),
        name: str = "",
    ) -> Part:
        """A mask: a cell is filled where a query may attend, and crossed out where it may not."""
        shade = [[0.5 if may else 0.0 for may in row] for row in allowed]
        part = self.matrix(
            text, at=at, kind=kind, shade=shade, cell=cell, side=side, shape=shape, name=name
        )
        wide, high = part.width / len(allowed[0]), part.height / len(allowed)
        for i, row in enumerate(allowed):
            for j, may in enumerate(row):
                if not may:
                    x, y = part.corner[0] + j * wide, part.corner[1] + i * high
                    cross = [(x, y + high), (x + wide, y)]
                    self._draw(kind, path(cross, "line thin"))
        return part

    def cache(
        self, text: str, *, at: Point | Place, filled: int, cells: int = 6, **options: Any
    ) -> Part:
        """A cache: cells in a line, the first of them `filled`; other options as for `vector`."""
        return self.vector(text, at=at, cells=cells, filled=filled, **options)

    def dots(self, *, at: Point | Place) -> Part:
        """Three dots, for what is left out of a list."""
        part = self._place("", at, 22, 20)
        self._draw("plain", self._text(DOTS, part.centre))
        return part

    def row(
        self,
        draw: Callable[..., Part],
        texts: Sequence[str],
        *,
        at: Point,
        step: Units,
        **options: Any,
    ) -> list[Part]:
        """One part for each text, drawn by `draw` side by side about the point `at`.

        Args: draw, a method that draws a part: s.token; step, from middle to middle; options, for
        each part. The text "…" draws dots.
        """
        first = at[0] - step * (len(texts) - 1) / 2
        places = [(first + i * step, at[1]) for i in range(len(texts))]
        return self._each(draw, texts, places, options)

    def column(
        self,
        draw: Callable[..., Part],
        texts: Sequence[str],
        *,
        at: Point,
        step: Units,
        **options: Any,
    ) -> list[Part]:
        """The same as `row`, from top to bottom."""
        first = at[1] - step * (len(texts) - 1) / 2
        places = [(at[0], first + i * step) for i in range(len(texts))]
        return self._each(draw, texts, places, options)

    # lines

    def arrow(
        self,
        start: Part | Point,
        end: Part | Point,
        text: str = "",
        *,
        path: str = "",
        through: Sequence[Point] = (),
        kind: str = "plain",
        side: str = "",
        along: Units = 0.5,
        dashed: bool = False,
        head: bool = True,
        gap: Units = 3,
    ) -> None:
        """An arrow from one part or point to another, with a label.

        Args: path, its legs: "" is a straight line, "hv" goes across and then up or down, "vh",
        "hvh" and "vhv" likewise. side, where the label stands: above, below, left or right of the
        longest leg, `along` it from 0 to 1. gap, what is left free at parts.
        """
        points = legs(start, end, path, gap)
        if through:
            first, last = legs(start, through[0], "", gap), legs(through[-1], end, "", gap)
            points = [first[0], *through, last[-1]]
        self._line(points, "line dash" if dashed else "line", kind, HEAD if head else 0)
        if text:
            self._line_label(points, text, kind, side, along)

    def stream(
        self,
        start: Part | Point,
        end: Part | Point,
        text: str = "",
        *,
        path: str = "",
        kind: str = "plain",
        side: str = "",
        along: Units = 0.5,
        head: bool = True,
    ) -> None:
        """The residual stream: a thick line, otherwise as an arrow."""
        points = legs(start, end, path, 0)
        self._line(points, "line stream", kind, 2 * HEAD if head else 0)
        if text:
            self._line_label(points, text, kind, side, along, away=5)

    def line(self, points: Sequence[Point], *, kind: str = "plain", dashed: bool = False) -> None:
        """A line through points."""
        self._draw(kind, path(points, "line dash" if dashed else "line"))

    # around and between the parts

    def text(
        self,
        text: str,
        *,
        at: Point,
        kind: str = "plain",
        align: str = "middle",
        size: Units = 14,
        strong: bool = False,
    ) -> None:
        """A text of its own, on several lines if need be. align: start, middle or end.

        Errors: ValueError for letters too small to be read on a phone.
        """
        self._draw(kind, self._text(text, at, align, size, "strong" if strong else ""))

    def group(
        self, parts: Sequence[Part], text: str = "", *, kind: str = "soft", pad: Units = 10
    ) -> Part:
        """A dashed frame around parts, with its name above it."""
        part = hull(parts, text, pad)
        self._draw(kind, rectangle(part, radius=8, style="line dash"))
        if text:
            x, y = part.left[0] + 2, part.top[1] - 11
            self._draw(kind, self._text(text, (x, y), "start"))
        return self._keep(part)

    def bracket(
        self, parts: Sequence[Part], text: str, *, side: str = "bottom", kind: str = "soft"
    ) -> None:
        """A bracket along a side of parts (bottom, top, left, right), with a text."""
        part = hull(parts, text, 0)
        (left, y), (right, _), (x, top), (_, bottom) = part.left, part.right, part.top, part.bottom
        if side in ("bottom", "top"):
            sign, edge = (1, bottom) if side == "bottom" else (-1, top)
            ends = [(left, edge + 5 * sign), (right, edge + 5 * sign)]
            inner = [(x, edge + 10 * sign) for x, _ in ends]
            words = self._text(text, (x, edge + 22 * sign))
        else:
            sign, edge = (1, right) if side == "right" else (-1, left)
            ends = [(edge + 5 * sign, top), (edge + 5 * sign, bottom)]
            inner = [(edge + 10 * sign, y) for _, y in ends]
            align = "start" if side == "right" else "end"
            words = self._text(text, (edge + 16 * sign, y), align)
        self._draw(kind, path([ends[0], *inner, ends[1]], "line"), words)

    # geometry

    def plane(self, *, origin: Point, unit: Units, x: Point = (0, 1), y: Point = (0, 1)) -> Plane:
        """A plane with its axes; x and y say from where to where each axis goes, in units."""
        plane = Plane(origin, unit)
        for ends in (
            (plane.at(x[0], 0), plane.at(x[1], 0)),
            (plane.at(0, y[0]), plane.at(0, y[1])),
        ):
            self._line(list(ends), "line thin", "soft", HEAD)
        return plane

    def point(self, text: str, *, at: Point, kind: str = "plain", side: str = "right") -> Part:
        """A point with its name at the `side`."""
        part = self._place(text, at, 8, 8)
        self._draw(kind, circle(part, "head"))
        return self._label(part, text, kind, side)

    def polygon(self, points: Sequence[Point], *, kind: str = "plain") -> None:
        """A filled polygon."""
        self._draw(kind, path(points, "box", closed=True))

    @contextmanager
    def link(self, address: str, label: str, *, current: bool = False) -> Iterator[None]:
        """What is drawn inside leads to `address`; `label` is the name of the link.

        Args: current, whether the link leads to the page on which the schematic stands.
        """
        lit = ' aria-current="page"' if current else ""
        self._body.append(f'<a href="{escape(address)}" aria-label="{escape(label)}"{lit}>')
        yield
        self._body.append("</a>")

    # the result

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of each part that carries one, by the part's name without dollars.

        Errors: ValueError for parts of one name and two shapes.
        """
        found: dict[str, Shape] = {}
        for part in self.parts:
            if part.shape and found.setdefault(part.name, part.shape) != part.shape:
                raise ValueError(
                    f"expected one shape for {part.name!r}, got {found[part.name]} and "
                    f"{part.shape}; give one of the parts another name="
                )
        return found

    def body(self) -> str:
        """What is drawn, without a ground or a style of its own: for a page that has both."""
        return "\n".join(self._body)

    def svg(self) -> str:
        """The schematic as a file of its own: on a light panel, or a dark one if the system is."""
        size = f"{number(self.width)} {number(self.height)}"
        width, height = size.split()
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sch" viewBox="0 0 {size}" '
            f'width="{width}" height="{height}" role="img">\n'
            f"<title>{escape(self.alt)}</title>\n<style>\n{standalone()}</style>\n"
            f'<rect class="paper" width="{width}" height="{height}" rx="6"/>\n'
            f"{self.body()}\n</svg>\n"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.alt}

    # how it is done

    def _place(
        self, name: str, at: Point | Place, width: Units, height: Units, shape: Shape = ()
    ) -> Part:
        x, y = at(width, height) if callable(at) else at
        return self._keep(Part(name.replace("$", ""), x, y, width, height, tuple(shape)))

    def _keep(self, part: Part) -> Part:
        self._require_inside(part.name, part.left[0], part.top[1], part.right[0], part.bottom[1])
        self.parts.append(part)
        return part

    def _require_inside(
        self, name: str, left: Units, top: Units, right: Units, bottom: Units
    ) -> None:
        if left < 0 or top < 0 or right > self.width or bottom > self.height:
            raise ValueError(
                f"expected all parts within 0 to {self.width:g} across and 0 to {self.height:g} "
                f"down, but {name!r} is at {left:.0f} to {right:.0f} and {top:.0f} to {bottom:.0f}"
            )

    def _draw(self, kind: str, *shapes: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"expected a kind of {', '.join(KINDS)}, got {kind!r}")
        self._body.append(f'<g class="{kind}">{"".join(shapes)}</g>')

    def _text(
        self, text: str, at: Point, align: str = "middle", size: Units = 14, style: str = ""
    ) -> str:
        if size < SMALLEST:
            raise ValueError(
                f"expected letters of {SMALLEST:g} units or more, which a phone shows well, got "
                f"{size:g} for {text!r}"
            )
        lines = text.split("\n") if text else []
        x, y = at
        high = size * 1.3
        first = y - high * (len(lines) - 1) / 2
        for i, line in enumerate(lines):
            width = text_width(line, size)
            left = x - {"start": 0, "middle": width / 2, "end": width}[align]
            middle = first + i * high
            self._require_inside(line, left, middle - size / 2, left + width, middle + size / 2)
        return "".join(
            text_markup(line, x, first + i * high, size, align, style)
            for i, line in enumerate(lines)
        )

    def _label(self, part: Part, text: str, kind: str, side: str, shape_side: str = "") -> Part:
        """Write a part's name and, where asked, its shape beside it; its anchors move outwards."""
        shape = shape_text(part.shape) if part.shape and shape_side else ""
        if text:
            part = self._label_at(part, text, kind, side, 14)
        if shape:
            part = self._label_at(part, shape, "soft", shape_side, 13)
        return part

    def _label_at(self, part: Part, text: str, kind: str, side: str, size: Units) -> Part:
        if side not in SIDES:
            raise ValueError(f"expected a side of {', '.join(SIDES)}, got {side!r} for {text!r}")
        number = SIDES.index(side)
        far = part.margins[number]
        places: list[tuple[Point, str]] = [
            ((part.left[0] - 6, part.y), "end"),
            ((part.x, part.top[1] - 13), "middle"),
            ((part.right[0] + 6, part.y), "start"),
            ((part.x, part.bottom[1] + 12), "middle"),
        ]
        self._draw(kind, self._text(text, *places[number], size))
        far += 6 + text_width(text, size) if side in ("left", "right") else 22
        margins = (*part.margins[:number], far, *part.margins[number + 1 :])
        labelled = replace(part, margins=margins)
        self.parts[self.parts.index(part)] = labelled
        return labelled

    def _circle(self, sign: str, at: Point | Place, kind: str) -> Part:
        part = self._place(sign, at, 24, 24)
        x, y = part.centre
        bars: dict[str, list[Point]] = {"+": [(6, 0), (0, 6)], "×": [(4.5, 4.5), (4.5, -4.5)]}
        inside = [path([(x - a, y - b), (x + a, y + b)], "line") for a, b in bars.get(sign, [])]
        self._draw(kind, circle(part), *(inside or [circle(Part("", x, y, 6, 6), "head")]))
        return part

    def _cells(
        self,
        name: str,
        at: Point | Place,
        kind: str,
        rows: int,
        columns: int,
        values: Sequence[Sequence[str | Units]],
        shade: Sequence[Sequence[Units]],
        cell: Units | Point,
        shape: Shape,
        filled: int | None = None,
    ) -> Part:
        texts = [[one if isinstance(one, str) else f"{one:g}" for one in row] for row in values]
        widest = max((text_width(one, 13) for row in texts for one in row), default=0)
        usual = (max(24.0, widest + 10), 24.0) if values else (CELL, CELL)
        wide, high = cell if isinstance(cell, tuple) else (cell, cell) if cell else usual
        part = self._place(name, at, columns * wide, rows * high, shape)
        left, top = part.left[0], part.top[1]
        held = columns if filled is None else filled
        drawn = []
        if held:
            box = Part("", left + held * wide / 2, part.y, held * wide, part.height)
            drawn.append(rectangle(box, radius=2))
        if held < columns:
            empty = (columns - held) * wide
            box = Part("", part.right[0] - empty / 2, part.y, empty, part.height)
            drawn.append(rectangle(box, radius=2, style="line dash"))
        strongest = SHADE if values else 0.8
        for i, row in enumerate(shade):
            for j, share in enumerate(row):
                if share > 0:
                    box = Part("", left + (j + 0.5) * wide, top + (i + 0.5) * high, wide, high)
                    strength = f' fill-opacity="{strongest * share:.2f}"'
                    drawn.append(rectangle(box, style="shade", more=strength))
        rules = [
            [(left + j * wide, top), (left + j * wide, part.bottom[1])] for j in range(1, columns)
        ]
        rules += [[(left, top + i * high), (part.right[0], top + i * high)] for i in range(1, rows)]
        drawn += [path(rule, "line thin") for rule in rules]
        for i, words in enumerate(texts):
            for j, one in enumerate(words):
                middle = (left + (j + 0.5) * wide, top + (i + 0.5) * high)
                drawn.append(self._text(one, middle, size=13, style="ink"))
        self._draw(kind, *drawn)
        return part

    def _each(
        self,
        draw: Callable[..., Part],
        texts: Sequence[str],
        places: list[Point],
        options: dict[str, Any],
    ) -> list[Part]:
        return [
            self.dots(at=at) if text == DOTS else draw(text, at=at, **options)
            for text, at in zip(texts, places, strict=True)
        ]

    def _line(self, points: list[Point], style: str, kind: str, head: Units) -> None:
        for x, y in points:
            self._require_inside("a line", x, y, x, y)
        drawn = []
        if head:
            (ax, ay), (bx, by) = points[-2:]
            length = math.hypot(bx - ax, by - ay) or 1
            dx, dy = (bx - ax) / length, (by - ay) / length
            foot = (bx - dx * head, by - dy * head)
            half = head * 0.42
            tip = [(bx, by), (foot[0] - dy * half, foot[1] + dx * half)]
            tip.append((foot[0] + dy * half, foot[1] - dx * half))
            drawn.append(path(tip, "head", closed=True))
            points = [*points[:-1], (bx - dx * head * 0.8, by - dy * head * 0.8)]
        self._draw(kind, path(points, style, radius=CORNER), *drawn)

    def _line_label(
        self, points: list[Point], text: str, kind: str, side: str, along: Units, away: Units = 0
    ) -> None:
        pairs = list(pairwise(points))
        (ax, ay), (bx, by) = max(pairs, key=lambda pair: math.dist(*pair))
        x, y = ax + along * (bx - ax), ay + along * (by - ay)
        side = side or ("right" if abs(bx - ax) < abs(by - ay) else "above")
        high = 9 * len(text.split("\n")) + 2 + away
        place: dict[str, tuple[Point, str]] = {
            "above": ((x, y - high), "middle"),
            "below": ((x, y + high), "middle"),
            "left": ((x - 7 - away, y), "end"),
            "right": ((x + 7 + away, y), "start"),
        }
        where, align = place[side]
        self._draw(kind, self._text(text, where, align))


# --- shapes -----------------------------------------------------------------------------------


def rectangle(part: Part, *, radius: Units = 0, style: str = "box", more: str = "") -> str:
    """The box of a part as SVG."""
    left, top = part.corner
    round_ = f' rx="{number(radius)}"' if radius else ""
    return (
        f'<rect class="{style}" x="{number(left)}" y="{number(top)}" '
        f'width="{number(part.width)}" height="{number(part.height)}"{round_}{more}/>'
    )


def circle(part: Part, style: str = "box") -> str:
    """The circle of a part as SVG."""
    x, y, radius = number(part.x), number(part.y), number(part.width / 2)
    return f'<circle class="{style}" cx="{x}" cy="{y}" r="{radius}"/>'


def path(points: Sequence[Point], style: str, *, closed: bool = False, radius: Units = 0) -> str:
    """A path through points as SVG; its corners are rounded if asked."""
    steps = [f"M{number(points[0][0])} {number(points[0][1])}"]
    for i, (x, y) in enumerate(points[1:], start=1):
        last = i == len(points) - 1
        if radius and not last:
            before, after = points[i - 1], points[i + 1]
            reach = min(radius, math.dist(before, (x, y)) / 2, math.dist((x, y), after) / 2)
            ax, ay = towards((x, y), before, reach)
            bx, by = towards((x, y), after, reach)
            corner = f"Q{number(x)} {number(y)} {number(bx)} {number(by)}"
            steps.append(f"L{number(ax)} {number(ay)}{corner}")
        else:
            steps.append(f"L{number(x)} {number(y)}")
    return f'<path class="{style}" d="{"".join(steps)}{"Z" if closed else ""}"/>'


def towards(start: Point, end: Point, reach: Units) -> Point:
    """The point that lies `reach` from `start` on the way to `end`."""
    share = reach / (math.dist(start, end) or 1)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def hull(parts: Sequence[Part], name: str, pad: Units) -> Part:
    """The box around parts, `pad` wider on each side."""
    left, right = min(p.left[0] for p in parts) - pad, max(p.right[0] for p in parts) + pad
    top, bottom = min(p.top[1] for p in parts) - pad, max(p.bottom[1] for p in parts) + pad
    return Part(name, (left + right) / 2, (top + bottom) / 2, right - left, bottom - top)


def legs(start: Part | Point, end: Part | Point, turns: str, gap: Units) -> list[Point]:
    """The points of a line with the legs `turns` between two parts or points.

    Errors: ValueError for other legs than "", "hv", "vh", "hvh" and "vhv".
    """
    if turns not in ("", "hv", "vh", "hvh", "vhv"):
        raise ValueError(f'expected a path of "", "hv", "vh", "hvh" or "vhv", got {turns!r}')
    first, last = as_part(start), as_part(end)
    if len(turns) == 2 and (abs(first.x - last.x) < 1 or abs(first.y - last.y) < 1):
        turns = ""
    straight = "h" if beside(first, last) else "v"
    begin = leave(first, last, (turns or straight)[0], gap if isinstance(start, Part) else 0)
    stop = leave(last, first, (turns or straight)[-1], gap if isinstance(end, Part) else 0)
    if not turns:
        begin, stop = aligned(first, last, begin, stop, straight)
    middle_x, middle_y = (begin[0] + stop[0]) / 2, (begin[1] + stop[1]) / 2
    between: dict[str, list[Point]] = {
        "": [],
        "hv": [(stop[0], begin[1])],
        "vh": [(begin[0], stop[1])],
        "hvh": [(middle_x, begin[1]), (middle_x, stop[1])],
        "vhv": [(begin[0], middle_y), (stop[0], middle_y)],
    }
    return [begin, *between[turns], stop]


def aligned(first: Part, last: Part, begin: Point, stop: Point, leg: str) -> tuple[Point, Point]:
    """The ends of a straight line, upright or level where the larger part is wide enough for it."""
    axis = "hv".index(leg)  # the coordinate along the line; the other one is made equal
    sizes = [(part.height, part.width)[axis] for part in (first, last)]
    across = 1 - axis
    if abs(begin[across] - stop[across]) > max(sizes) / 2:
        return begin, stop
    level = (begin, stop)[sizes[0] > sizes[1]][across]
    ends = [(p[0], level) if leg == "h" else (level, p[1]) for p in (begin, stop)]
    return ends[0], ends[1]


def as_part(what: Part | Point) -> Part:
    return what if isinstance(what, Part) else Part("", *what, 0, 0)


def beside(one: Part, other: Part) -> bool:
    """Whether two parts stand rather side by side than one above the other."""
    across = abs(one.x - other.x) - (one.width + other.width) / 2
    down = abs(one.y - other.y) - (one.height + other.height) / 2
    return across >= down


def leave(part: Part, other: Part, leg: str, gap: Units) -> Point:
    """Where a line to the other part leaves this one, on a leg across ("h") or up and down."""
    if leg == "h":
        (x, y), away = (part.right, gap) if other.x >= part.x else (part.left, -gap)
        return x + away, y
    (x, y), away = (part.bottom, gap) if other.y >= part.y else (part.top, -gap)
    return x, y + away
