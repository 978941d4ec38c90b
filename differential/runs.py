"""Runs: sequences of batches, each with greater keys than the previous batch.

A merge of two long runs makes a new run batch by batch, and frees the old batches on the way. So it needs little
memory, and its columns stay in the processor's cache. All rows of a key are in one batch of a run.
"""

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tidewheel.differential.batch import Batch, Placed, merged
from tidewheel.differential.records import Integers
from tidewheel.differential.updates import FlatTime, unique

_MOST_AT_ONCE = 1 << 20
"""The largest number of rows that a merge makes into one batch in a single step."""

_PART = 1 << 17
"""The approximate number of rows that a larger merge takes from each run at a time."""

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Makes glibc's allocator return free memory to the system. Large merges are rare, so the time it takes does not
matter."""


class Run:
    """A sequence of batches, each with greater keys than the previous batch."""

    __slots__ = ("_firsts", "batches", "count")

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.count = sum(map(len, batches))
        self._firsts = [batch.key_at(0) for batch in batches[1:]]

    def place(self, keys: Integers) -> Sequence[Placed]:
        """Find the rows of ``keys``, which are distinct and in order, in all batches."""
        if len(self.batches) == 1:
            placed = self.batches[0].place(keys)
            return () if placed is None else (placed,)
        cuts = pairwise([0, *keys.searchsorted(self._firsts).tolist(), len(keys)])
        return [
            placed
            for batch, (first, last) in zip(self.batches, cuts, strict=True)
            if first < last and (placed := batch.place(keys[first:last], first)) is not None
        ]


def merged_runs(one: Run, other: Run, since: FlatTime) -> list[Batch]:
    """Return the batches of the sum of two runs, with times advanced to ``since``; this empties both runs."""
    if one.count + other.count <= _MOST_AT_ONCE:
        both = merged([*one.batches, *other.batches], since)
        return [] if both is None else [both]
    made, bounds = list[Batch](), unique(np.array([*_cuts(one.batches), *_cuts(other.batches)], np.int64)).tolist()
    one.batches.reverse()
    other.batches.reverse()
    for bound in (*bounds, None):
        parts = [*_taken(one.batches, bound), *_taken(other.batches, bound)]
        both = merged(parts, since) if parts else None
        if both is not None:
            made.append(both.part(0, len(both)))
    if _TRIM is not None:
        _TRIM(0)
    return made


def _cuts(batches: Sequence[Batch]) -> list[int]:
    keys, count = list[int](), 0
    for batch in batches:
        for first in range(0, len(batch), _PART):
            if count >= _PART:
                keys.append(batch.key_at(first))
                count = 0
            count += min(_PART, len(batch) - first)
    return keys


def _taken(batches: list[Batch], bound: int | None) -> list[Batch]:
    taken = list[Batch]()
    while batches:
        batch = batches.pop()
        count = len(batch) if bound is None else batch.rows_before(bound)
        if count == len(batch):
            taken.append(batch)
            continue
        if count:
            taken.append(batch.part(0, count))
        batches.append(batch.part(count, len(batch)))
        break
    return taken
