"""An explorer of a tied softmax: token vectors that score a state, the loss, and where it pulls."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from traitlets import Bunch, Enum, Float, Unicode, validate

from widgets import domain
from widgets.base import BookWidget, static_table

LIMIT = 3  # every vector lies between -3 and 3, where the sliders and the plane reach it
MOST_TOKENS = 8
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
    tokens = domain.Fixed()
    vectors = domain.Fixed()  # token x entry
    edited = Unicode()
    state_1 = Float(0.0, min=-LIMIT, max=LIMIT)
    state_2 = Float(0.0, min=-LIMIT, max=LIMIT)
    target = domain.OneOf(lambda self: self.tokens)
    temperature = Enum(TEMPERATURES, 1.0)
    smoothing = Float(0.0, min=0, max=0.5)
    token = domain.OneOf(lambda self: self.tokens)
    limit = domain.Fixed(LIMIT)

    def __init__(
        self,
        vectors: Mapping[str, Sequence[int | float]],
        state: Sequence[int | float],
        target: str,
        *,
        token: str | None = None,
        **start: Any,
    ):
        if not 2 <= len(vectors) <= MOST_TOKENS:
            domain.refuse("vectors", f"2 to {MOST_TOKENS} tokens", len(vectors))
        rows = domain.vectors(vectors, 2, LIMIT, "vectors", digits=2)
        if len(state) != 2:
            domain.refuse("state", "2 numbers", len(state))
        super().__init__(
            tokens=list(vectors),
            vectors=rows,
            state_1=state[0],
            state_2=state[1],
            target=target,
            token=target if token is None else token,
            **start,
        )

    @validate("edited")
    def _moved(self, proposal: Bunch) -> str:
        return domain.moved(proposal.value, "edited", self.tokens, 2, LIMIT)

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
