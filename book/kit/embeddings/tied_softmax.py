"""An explorer of a tied softmax: token vectors that score a state, the loss, and where it pulls."""

import math
from collections.abc import Mapping, Sequence

import traitlets

from kit.shared import validate
from kit.shared.widget import BookWidget, static_table

LIMIT = 3  # every vector lies between -3 and 3, where the sliders and the plane reach it
MOST_TOKENS = 8
MOST_SMOOTHING = 0.5
TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


class TiedSoftmaxExplorer(BookWidget):
    """Move the vectors of a few tokens and a state; see probabilities, loss and gradient.

    The token vectors are the output matrix: a logit is the dot product of the state and a token's
    vector. So the reader sees that tokens with vectors close together are likely together. The
    browser takes the cross-entropy against the smoothed target, and the gradient on the state.

    Args: vectors, two numbers from -3 to 3 for each of two to eight tokens; state, two such
        numbers; target, the right token; temperature, one of `TEMPERATURES`; smoothing, 0 to 0.5;
        token, whose vector the sliders move first (the target if none is named).
    Errors: ValueError for vectors that do not fit, or a start that the controls cannot reach.
    Source: Press and Wolf 2017 and Szegedy et al. 2016, section 7, made to move.
    """

    _module = "tied_softmax"
    tokens = traitlets.List().tag(sync=True)
    vectors = traitlets.List().tag(sync=True)  # token x entry
    limit = traitlets.Int(LIMIT).tag(sync=True)
    most_smoothing = traitlets.Float(MOST_SMOOTHING).tag(sync=True)
    temperatures = traitlets.List().tag(sync=True)
    edited = traitlets.Unicode("").tag(sync=True)
    state_1 = traitlets.Float().tag(sync=True)
    state_2 = traitlets.Float().tag(sync=True)
    target = traitlets.Unicode().tag(sync=True)
    temperature = traitlets.Float().tag(sync=True)
    smoothing = traitlets.Float().tag(sync=True)
    token = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        vectors: Mapping[str, Sequence[int | float]],
        state: Sequence[int | float],
        target: str,
        *,
        temperature: int | float = 1.0,
        smoothing: int | float = 0.0,
        token: str | None = None,
    ):
        names = list(vectors)
        if not 2 <= len(names) <= MOST_TOKENS:
            raise ValueError(f"vectors: expected 2 to {MOST_TOKENS} tokens, got {len(names)}")
        if bad := [name for name in names if not name or set(" =;,") & set(name)]:
            raise ValueError(f"vectors: expected tokens without spaces and = ; , got {bad}")
        rows = validate.matrix(
            [vectors[name] for name in names], len(names), 2, "vectors", digits=2
        )
        (state,) = validate.matrix([state], 1, 2, "state", digits=2)
        if any(abs(value) > LIMIT for row in (*rows, state) for value in row):
            raise ValueError(f"expected numbers from {-LIMIT} to {LIMIT}, got larger ones")
        token = target if token is None else token
        for where, name in (("target", target), ("token", token)):
            if name not in names:
                raise ValueError(f"{where}: expected one of {', '.join(names)}, got {name!r}")
        if isinstance(temperature, bool) or temperature not in TEMPERATURES:
            listed = ", ".join(map(str, TEMPERATURES))
            raise ValueError(f"temperature: expected one of {listed}, got {temperature!r}")
        smoothing = validate.share(smoothing, "smoothing", digits=2)
        if smoothing > MOST_SMOOTHING:
            raise ValueError(f"smoothing: expected 0 to {MOST_SMOOTHING}, got {smoothing}")
        super().__init__(
            tokens=names,
            vectors=rows,
            temperatures=list(TEMPERATURES),
            state_1=state[0],
            state_2=state[1],
            target=target,
            temperature=float(temperature),
            smoothing=smoothing,
            token=token,
        )

    def summary(self) -> str:
        return f"TiedSoftmaxExplorer: {len(self.tokens)} tokens, target {self.target!r}"

    def static_html(self) -> str:
        """The table of the start: each token's vector, logit, probability and smoothed target."""
        logits = [self.state_1 * x + self.state_2 * y for x, y in self.vectors]
        powers = [math.exp((logit - max(logits)) / self.temperature) for logit in logits]
        rows = []
        for name, vector, logit, power in zip(
            self.tokens, self.vectors, logits, powers, strict=True
        ):
            wanted = self.smoothing / len(powers) + (1 - self.smoothing) * (name == self.target)
            figures = (logit, power / sum(powers), wanted)
            rows.append((name, "{:g}, {:g}".format(*vector), *(f"{x:.3f}" for x in figures)))
        caption = (
            f"State {self.state_1:g}, {self.state_2:g}; temperature {self.temperature:g}; "
            f"smoothing {self.smoothing:g}; the right token is {self.target}"
        )
        return static_table(caption, ("token", "vector", "logit", "probability", "target"), rows)
