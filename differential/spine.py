"""Arrangements: updates indexed by key, in sorted batches that never change and are merged geometrically.

A `Spine` is a list of runs of batches, each run at least twice as large as the next. A new batch takes its place by
size, so that a few old updates are not merged with very many new ones. So the number of an update's merges, and the
number of runs that a look-up visits, are logarithmic.

Readers promise to ask only for times at or after some element of a frontier. ``since`` is the greatest lower bound of
its elements. A merge replaces each time by its least upper bound with ``since``. For all times that readers ask for,
the new time compares as the old time did, and has the same least upper bounds. So readers see no difference, and
updates whose times become equal are added up.

The source instead takes the least upper bound of the time and each element of the frontier, and then the greatest lower
bound of the results. Here this is the same, since coordinates are totally ordered and both operations distribute.

Source: McSherry, Lattuada, Schwarzkopf and Roscoe, "Shared arrangements" (VLDB 2020), section 4.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tidewheel.differential.batch import Batch, Placed, advanced, batch_of
from tidewheel.differential.codes import Translate
from tidewheel.differential.records import Integers
from tidewheel.differential.runs import Run, merged_runs
from tidewheel.differential.updates import FlatTime, Updates, concatenate


def at_or_before(times: Sequence[Integers], time: FlatTime) -> "np.typing.NDArray[np.bool_]":
    found = times[0] <= time[0]
    for times_at, coordinate in zip(times[1:], time[1:], strict=True):
        found &= times_at <= coordinate
    return found


_SMALL = 8192
"""A batch of up to this size is merged with any smaller batch: this costs less than looking into both."""


def ranges(starts: Integers, counts: Integers) -> Integers:
    """Return the whole numbers in several ranges, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    if total == len(counts) and counts.all():
        return starts
    offsets = starts - ends + counts
    return np.repeat(offsets, counts) + np.arange(total)


class Spine:
    """The updates of one collection by key.

    Attributes:
        runs: the runs of batches, the largest first.
        since: the time at or after which readers ask; None if there are no readers.
    """

    __slots__ = ("depth", "runs", "since")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.runs: list[Run] = []
        self.since: FlatTime | None = (0,) * depth

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @property
    def batches(self) -> list[Batch]:
        return [batch for run in self.runs for batch in run.batches]

    def insert(self, updates: Updates) -> None:
        self.add(batch_of(updates))

    def add(self, batch: Batch | None) -> None:
        if batch is None or self.since is None:
            return
        self.runs.append(Run([batch]))
        self.runs.sort(key=lambda run: run.count, reverse=True)
        place = len(self.runs) - 1
        while place > 0:
            if self.runs[place - 1].count < max(2 * self.runs[place].count, _SMALL):
                self._merge(place, self.since)
                place = len(self.runs)
            place -= 1

    def total(self) -> list[Batch]:
        """Merge all batches into one run; return its batches."""
        while len(self.runs) > 1:
            self._merge(len(self.runs) - 1, self.since or (0,) * self.depth)
        return self.batches

    def _merge(self, place: int, since: FlatTime) -> None:
        batches = merged_runs(self.runs[place - 1], self.runs[place], since)
        self.runs[place - 1 : place + 1] = [Run(batches)] if batches else []

    def let_go(self, since: FlatTime | None) -> None:
        """Record that readers ask only for times at or after ``since``; None if they have finished."""
        self.since = since
        if since is None:
            self.runs = []

    def look_up(self, keys: Integers) -> Updates:
        """Return the updates of ``keys``, which are distinct and in order; each update's key is an index in ``keys``.

        The updates are not added up, and their times are advanced to ``since``. Linear in the result, plus a binary
        search for each key and batch.
        """
        parts = []
        since = self.since or (0,) * self.depth
        for placed in self.place(keys):
            is_whole = int(placed.counts.sum()) == len(placed.batch)
            rows = None if is_whole else ranges(placed.starts, placed.counts)
            taken = placed.batch.take(np.repeat(placed.found, placed.counts), rows)
            parts.append(Updates(taken.keys, taken.values, tuple(map(advanced, taken.times, since)), taken.diffs))
        return concatenate(parts, self.depth)

    def place(self, keys: Integers) -> list[Placed]:
        """Find the rows of ``keys``, which are distinct and in order, in all batches."""
        return [placed for run in self.runs for placed in run.place(keys)]

    def translate(self, *, keys: Translate | None = None, values: Translate | None = None) -> None:
        """Replace the codes of all keys by ``keys(codes)``, and those of all values by ``values(codes)``."""
        batches, self.runs = self.batches, []
        for batch in batches:
            old = batch.updates
            new_keys = keys(old.keys) if keys is not None else old.keys
            new_values = values(old.values) if values is not None else old.values
            self.insert(Updates(new_keys, new_values, old.times, old.diffs))

    def column(self, column: Literal["keys", "values"]) -> Integers:
        """Return all values, or the distinct keys of each batch, in no particular order."""
        found = [batch.keys if column == "keys" else batch.values() for batch in self.batches]
        return np.concatenate([np.empty(0, np.int64), *found])
