"""Keys and values of positions already seen, so that a decoding step computes only the new one.

Without it each step would compute the keys and values of the whole sentence again: under a causal
mask they come out the same every time.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

FIRST_ROOM = 32  # positions; doubled whenever it is full


class KeyValueCache:
    """Room for the keys and values of one attention layer, filled from the left.

    The room is allocated ahead and doubled when full, so that n steps copy O(n) numbers in all;
    joining old and new at each step would copy O(n^2). `length` counts the positions stored.

    Source: ours; the idea is as old as decoding with the Transformer. Chapter: 12 (Decoding).
    """

    def __init__(self) -> None:
        self.length = 0
        self._key = self._value = torch.empty(0, 0, 0, 0)

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_v"]]:
        """Store new positions; return the keys and values of all so far.

        Shapes: key (batch, heads, new, d_k), value (batch, heads, new, d_v). Returns
            (batch, heads, length, d_k) and (batch, heads, length, d_v), views of the store.
        Errors: ValueError for another batch than before.
        Source: ours. Chapter: 12 (Decoding).
        """
        if self.length and len(key) != len(self._key):
            raise ValueError(
                f"expected a batch of {len(self._key)} as at the first step, got {len(key)}; "
                "use select to keep some of the sequences"
            )
        start, self.length = self.length, self.length + key.shape[2]
        if self.length > self._key.shape[2]:
            room = max(FIRST_ROOM, 2 * self._key.shape[2], self.length)
            self._key = _moved(self._key, start, key, room)
            self._value = _moved(self._value, start, value, room)
        self._key[:, :, start : self.length] = key
        self._value[:, :, start : self.length] = value
        return self.read()

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_v"]]:
        """Return the keys and values of all positions so far. Chapter: 12 (Decoding)."""
        return self._key[:, :, : self.length], self._value[:, :, : self.length]

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValueCache":
        """Return a cache that holds these sequences of the batch, in this order, each any number of
        times: a beam goes on with some hypotheses and drops others. Chapter: 12 (Decoding).
        """
        chosen = KeyValueCache()
        chosen.length = self.length
        chosen._key, chosen._value = self._key[rows], self._value[rows]
        return chosen


class LayerCache(NamedTuple):
    """The keys and values that one decoder layer keeps while decoding. Chapter: 12 (Decoding)."""

    own: KeyValueCache  # grows by one position with each step
    memory: KeyValueCache  # filled at the first step, then only read

    def select(self, rows: Int[Tensor, " rows"]) -> "LayerCache":
        """Keep these sequences of the batch, in this order. Chapter: 12 (Decoding)."""
        return LayerCache(self.own.select(rows), self.memory.select(rows))


class TransformerState(NamedTuple):
    """What decoding carries from step to step; a step changes the caches in place.

    Source: ours. Chapter: 12 (Decoding).
    """

    memory: Tensor  # (batch, source_time, d_model)
    memory_mask: Tensor  # (batch, 1, source_time)
    caches: list[LayerCache]  # one for each decoder layer

    def select(self, rows: Int[Tensor, " rows"]) -> "TransformerState":
        """Keep these sequences of the batch, in this order, each any number of times.

        Chapter: 12 (Decoding).
        """
        caches = [cache.select(rows) for cache in self.caches]
        return TransformerState(self.memory[rows], self.memory_mask[rows], caches)


def _moved(old: Tensor, length: int, new: Tensor, room: int) -> Tensor:
    """An empty store for `room` positions like `new`, with the first `length` taken from `old`."""
    batch, heads, _, d = new.shape
    store = new.new_empty(batch, heads, room, d)
    if length:
        store[:, :, :length] = old[:, :, :length]
    return store
