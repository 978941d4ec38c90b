"""The join of two collections by key, one batch of updates at a time.

A join is linear in each side. So a batch of one side adds exactly its join with all updates received on the other side
to the result. A joined update is at the least upper bound of the two times. Each pair of updates meets once, when the
second of them arrives.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np

from tidewheel.differential.batch import Batch, batch_of
from tidewheel.differential.packing import CountOverflowError, constant, products, range_of
from tidewheel.differential.records import Column, Integers, values_of
from tidewheel.differential.shared_arrangement import Number, SharedArrangement
from tidewheel.differential.spine import ranges
from tidewheel.differential.updates import MOST_KEYS, FlatTime, concatenate


@dataclass(frozen=True, slots=True)
class Joined:
    """Joined updates: the columns of key, left value and right value, with times and diffs."""

    columns: tuple[Column, Column, Column]
    times: tuple[Integers, ...]
    diffs: Integers


class Join:
    """A reader of two arrangements, which may be the same.

    Args:
        depth: the number of coordinates of times; coordinates that an arrangement lacks are 0.
    """

    def __init__(self, depth: int, name: str, sides: Sequence[SharedArrangement]) -> None:
        self._depth = depth
        self._sides = sides
        self._readers = (f"{name}: left", f"{name}: right")
        for side, reader in zip(sides, self._readers, strict=True):
            side.let_go(reader, (0,) * depth)

    def let_go(self, left: FlatTime | None, right: FlatTime | None) -> None:
        """Record lower bounds of the times that can still arrive on each side; None for a side that has ended.

        Each side is compacted by the times that can arrive on the other side.
        """
        self._sides[0].let_go(self._readers[0], right)
        self._sides[1].let_go(self._readers[1], left)

    def some_keys(self) -> tuple[list[Any], list[Any]]:
        if any(side.is_empty(name) for side, name in zip(self._sides, self._readers, strict=True)):
            return [], []
        left, right = (side.some_keys(name) for side, name in zip(self._sides, self._readers, strict=True))
        return left, right

    def receive(self, side: int, arriving: Iterable[Sequence[Number]]) -> Iterator[Joined]:
        """Receive updates of side 0 or 1, up to a limit; yield the additions to the result, in parts.

        The result may be far larger than the updates.
        """
        taken = self._taken(side, arriving)
        if self._sides[1 - side].is_empty(self._readers[1 - side]):
            return
        for batch in taken:
            keys, starts = batch.index()
            for first in range(0, len(keys), MOST_KEYS):
                joined = self._joined(batch, keys[first : first + MOST_KEYS], starts[first:], side)
                if joined is not None:
                    yield joined

    def _taken(self, side: int, arriving: Iterable[Sequence[Number]]) -> Sequence[Batch]:
        own, small, large, count = self._sides[side], list[Batch](), list[Batch](), 0
        for numbers in arriving:
            for batch in (batch for number in numbers for batch in own.take(self._readers[side], number)):
                (small if len(batch) < MOST_KEYS else large).append(batch)
                count += len(batch)
            if count >= MOST_KEYS:
                break
        return [*large, *_together(small, own.depth)]

    def _joined(self, batch: Batch, keys: Integers, starts: Integers, side: int) -> Joined | None:
        own, other = self._sides[side], self._sides[1 - side]
        places, codes = (None, keys) if own is other else other.find_keys(own.keys_of(keys))
        found = other.look_up(self._readers[1 - side], codes)
        if not len(found):
            return None
        rows = found.keys if places is None else places.take(found.keys)
        mine = starts.take(rows)
        partners = starts.take(rows + 1) - mine
        if int(partners.max()) > 1:
            mine = ranges(mine, partners)
            again = np.repeat(np.arange(len(found)), partners)
            rows, found = rows[again], found.take(again)
        updates = batch.take(keys.take(rows), mine)
        values = [own.values_of(updates.values), other.values_of(found.values)]
        left, right = values if side == 0 else values[::-1]
        times = tuple(map(_upper_bounds, self._deep(updates.times), self._deep(found.times)))
        columns = own.keys_of(updates.keys), left, right
        try:
            return Joined(columns, times, products(updates.diffs, found.diffs))
        except CountOverflowError as error:
            sizes = [abs(one * two) for one, two in zip(updates.diffs.tolist(), found.diffs.tolist(), strict=True)]
            key, *sides = (values_of(column[[sizes.index(max(sizes))]])[0] for column in columns)
            raise CountOverflowError(short((key, tuple(sides)))) from error

    def _deep(self, times: Sequence[Integers]) -> list[Integers]:
        return [*times, *[constant(0, len(times[0]))] * (self._depth - len(times))]


def _together(batches: list[Batch], depth: int) -> list[Batch]:
    if len(batches) <= 1:
        return batches
    batch = batch_of(concatenate([batch.updates for batch in batches], depth))
    return [] if batch is None else [batch]


def _upper_bounds(one: Integers, two: Integers) -> Integers:
    least, latest = range_of(one)
    return one if least == latest and range_of(two)[1] <= latest else np.maximum(one, two)
