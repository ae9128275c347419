"""A query among keys in the plane: scores as projections, and the output among the values."""

import math
from collections.abc import Sequence
from typing import Any

from traitlets import Bool, Bunch, Enum, Float, Int, List, validate

from widgets import domain
from widgets.base import BookWidget, static_table

LIMIT = 3  # every vector lies between -3 and 3, where the plane shows it
SPAN = f"from {-LIMIT} to {LIMIT}"
FEWEST, MOST = 2, 5  # keys
TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
QUERY = (1.0, 1.0)
KEYS = ((1.0, 0.0), (1.0, -1.0), (0.0, 2.0), (-1.5, 0.5), (-1.0, -2.0))
VALUES = ((-2.0, -1.5), (2.0, -1.5), (0.0, 2.2), (2.4, 1.0), (-2.4, 1.0))
# What to look at first: a name, the query, and the keys
STARTS = (
    ("A clear winner", (1.4, 1.0), ((1.2, 1.8), (-1.5, 1.0), (0.5, -2.0))),
    ("A tie", (2.0, 0.0), ((1.0, 1.5), (1.0, -1.5), (-1.5, 0.5))),
    ("Right angles", (0.0, 2.0), ((1.0, 0.0), (2.2, 0.0), (-2.0, 0.0))),
    ("A long key", (1.6, 1.2), ((0.4, 0.7), (2.6, -1.0), (-1.2, 1.8))),
)


def _vector() -> List:
    return List(Float(min=-LIMIT, max=LIMIT), minlen=2, maxlen=2, help=f"2 numbers {SPAN}")


def _places() -> List:
    """One for each of `MOST` keys; the first `n_keys` are shown."""
    return List(_vector(), minlen=MOST, maxlen=MOST, help=f"{MOST} vectors of 2 numbers {SPAN}")


class QueryPlane(BookWidget):
    """Drag a query among keys; see scores as projections, weights, and the output among the values.

    Queries, keys and values have two entries, so that all of them can be drawn. The browser takes
    the softmax of the scores and the weighted sum of the values.

    Args: query, two numbers from -3 to 3; key and value, two such numbers for each of two to five
        keys; axes, names of the two entries of query and key and of the two of a value, or none;
        scaled, whether the scores are divided by sqrt(d_k), the root of 2; temperature, what they
        are divided by besides, one of `TEMPERATURES`; divides, whether the reader has controls for
        both.
    Errors: ValueError for vectors that do not fit, or a start that the controls cannot reach.
    Source: Attention Is All You Need, section 3.2.1, made to move.
    """

    _module = "query_plane"
    query = _vector()
    key = _places()
    value = _places()
    n_keys = Int(3, min=FEWEST, max=MOST)
    scaled = Bool()
    temperature = Enum(TEMPERATURES, 1.0)
    starts = domain.Fixed()
    axes = domain.Fixed()
    divides = domain.Fixed()
    limit = domain.Fixed(LIMIT)

    def __init__(
        self,
        query: Sequence[int | float] = QUERY,
        key: Sequence[Sequence[int | float]] = KEYS[:3],
        value: Sequence[Sequence[int | float]] = VALUES[:3],
        axes: Sequence[str] = (),
        divides: bool = True,
        **start: Any,
    ):
        if not FEWEST <= len(key) <= MOST:
            domain.refuse("key", f"{FEWEST} to {MOST} vectors", len(key))
        if len(key) != len(value):
            domain.refuse("value", f"one for each of {len(key)} keys", len(value))
        if len(axes) not in (0, 4):
            domain.refuse("axes", "no names, or four", len(axes))
        super().__init__(
            query=query,
            key=[*key, *KEYS[len(key) :]],  # spare ones for keys that the reader adds
            value=[*value, *VALUES[len(key) :]],
            n_keys=len(key),
            axes=list(axes),
            divides=divides,
            starts=[[name, list(q), [list(k) for k in keys]] for name, q, keys in STARTS],
            **start,
        )

    @validate("query", "key", "value")
    def _short(self, proposal: Bunch) -> list:
        try:
            return domain.quantise(proposal.value, 2)
        except ValueError:  # NaN, which traitlets lets through
            domain.refuse(proposal.trait.name, proposal.trait.help, proposal.value)

    def summary(self) -> str:
        at = ", ".join(f"{entry:g}" for entry in self.query)
        return f"QueryPlane: a query at ({at}) among {self.n_keys} keys"

    def static_html(self) -> str:
        """The table of the start: each key with its score, exponential, weight and value."""
        keys, values = self.key[: self.n_keys], self.value[: self.n_keys]
        divisor = self.temperature * (math.sqrt(2) if self.scaled else 1)
        scores = [_dot(self.query, key) for key in keys]
        powers = [math.exp(score / divisor) for score in scores]
        weights = [power / sum(powers) for power in powers]
        output = [_dot(weights, entries) for entries in zip(*values, strict=True)]
        rows = [
            (f"k{i + 1}", _pair(key), f"{score:.2f}", f"{power:.2f}", f"{weight:.2f}", _pair(value))
            for i, (key, score, power, weight, value) in enumerate(
                zip(keys, scores, powers, weights, values, strict=True)
            )
        ]
        divided = "" if divisor == 1 else f", scores divided by {divisor:.2f}"
        caption = f"Query {_pair(self.query)}{divided}; output {_pair(output)}"
        entries = [f" ({', '.join(names)})" for names in (self.axes[:2], self.axes[2:]) if names]
        of_key, of_value = entries or ("", "")
        header = ("key", f"vector{of_key}", "score", "exponential", "weight", f"value{of_value}")
        return static_table(caption, header, rows)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _pair(vector: Sequence[float]) -> str:
    return ", ".join(f"{entry + 0.0:.2f}" for entry in vector)
