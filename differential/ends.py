"""The *end* of a key, its least or greatest value, read from its first or last rows; and the times of keys.

The least value of a key is usually among the first rows of each sorted batch. So a look-up reads a few rows, and more
only if these do not decide. Bit masks for each batch have the times of a key's updates.

The rows also show whether the end can change at later times, when more updates count. It cannot if no row has a value
before the end or removes the end. A reduction then skips the key at those times.

Codes must be in the order of their values, as for whole numbers and floats. Codes of interned values are not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tidewheel.differential.batch import Placed, advanced
from tidewheel.differential.packing import taken
from tidewheel.differential.records import Integers
from tidewheel.differential.spine import at_or_before, ranges
from tidewheel.differential.updates import FlatTime, Updates, concatenate, split_by_time, summed, unique

Place: TypeAlias = Callable[[Integers], list[Placed]]
"""Finds the rows of keys in batches, as `Spine.place` does."""

_FIRST = 8
"""The number of rows of each key and batch that are read first."""

_FEW_ROWS = 2048
"""Reading up to this number of rows is faster than making masks of their times."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of several keys at one time.

    Attributes:
        places: the indexes of keys that have an end, in no particular order.
        is_settled: for each key, whether its end stays the same at all later times unless rows are added.
    """

    places: Integers
    values: Integers
    is_settled: "np.typing.NDArray[np.bool_]"


def ends_of(place: Place, placed: Sequence[Placed], keys: Integers, time: FlatTime, *, greatest: bool) -> Ends:
    """Return the least or greatest value of each key among the values with a positive count at ``time``.

    ``keys`` are distinct and in order; ``placed`` is ``place(keys)``.
    """
    if all(one.batch.only_adds(time) for one in placed):
        return _ends_of_added(placed, len(keys), greatest=greatest)
    places, values = [keys[:0]], [keys[:0]]
    is_settled = np.zeros(len(keys), bool)
    left, most = np.arange(len(keys)), _FIRST
    while len(left):
        updates, has_all, bounds = _read(placed, len(left), len(time), most, greatest=greatest)
        is_now = at_or_before(updates.times, time)
        has_later = not is_now.all()
        groups, found = _ends(updates.take(is_now) if has_later else updates, greatest=greatest)
        ends = np.zeros(len(left), np.int64)
        ends[groups] = found
        has_end = np.zeros(len(left), bool)
        has_end[groups] = True
        is_certain = has_end & ((ends > bounds) if greatest else (ends < bounds))
        is_done = has_all | is_certain
        chosen = is_done & has_end
        is_settled[left.compress(chosen)] = True
        if has_later:
            later = updates.take(~is_now)
            bound = ends.take(later.keys)
            is_nearer = (later.values > bound) if greatest else (later.values < bound)
            is_nearer |= (later.values == bound) & (later.diffs < 0)
            is_settled[left.take(later.keys.compress(is_nearer))] = False
        places.append(left.compress(chosen))
        values.append(ends.compress(chosen))
        left, most = left.compress(~is_done), most * 8
        placed = place(keys[left]) if len(left) else []
    return Ends(np.concatenate(places), np.concatenate(values), is_settled)


def _ends_of_added(placed: Sequence[Placed], count: int, *, greatest: bool) -> Ends:
    has_end = np.zeros(count, bool)
    ends = np.full(count, -(2**63) if greatest else 2**63 - 1, np.int64)
    closer = np.maximum if greatest else np.minimum
    for one in placed:
        rows = one.starts + one.counts - 1 if greatest else one.starts
        ends[one.found] = closer(ends[one.found], one.batch.values(rows))
        has_end[one.found] = True
    places = has_end.nonzero()[0]
    return Ends(places, ends.take(places), has_end)


def _read(
    placed: Sequence[Placed], count: int, depth: int, most: int, *, greatest: bool
) -> tuple[Updates, "np.typing.NDArray[np.bool_]", Integers]:
    """Read at most ``most`` rows of each of ``count`` keys."""
    has_all = np.ones(count, bool)
    bounds = np.full(count, -(2**63) if greatest else 2**63 - 1, np.int64)
    closer = np.maximum if greatest else np.minimum
    parts = []
    for one in placed:
        found, starts, counts = one.found, one.starts, one.counts
        taken = np.minimum(counts, most)
        if greatest:
            starts = starts + counts - taken
        is_cut = counts > most
        if is_cut.any():
            last = one.batch.values((starts if greatest else starts + taken - 1).compress(is_cut))
            cut = found.compress(is_cut)
            has_all[cut] = False
            bounds[cut] = closer(bounds[cut], last)
        parts.append(one.batch.take(np.repeat(found, taken), ranges(starts, taken)))
    return concatenate(parts, depth), has_all, bounds


def _ends(updates: Updates, *, greatest: bool) -> tuple[Integers, Integers]:
    groups, values, counts = summed([updates.keys, updates.values], updates.diffs)
    is_positive = counts > 0
    groups, values = groups.compress(is_positive), values.compress(is_positive)
    is_end = np.ones(len(groups), bool)
    np.not_equal(groups[1:], groups[:-1], out=is_end[:-1] if greatest else is_end[1:])
    return groups.compress(is_end), values.compress(is_end)


def next_bounds(placed: Sequence[Placed], count: int, time: FlatTime) -> Iterator[tuple[FlatTime, Integers]]:
    """Yield the least upper bounds of ``time`` and the other times of keys, each with the indexes of its keys.

    Of the bounds of a key, only the earliest are needed, since the later ones follow from them. If some bounds are not
    ordered, all are yielded.
    """
    together: dict[FlatTime, list[Integers]] = {}
    for bound, places in _bounds_with(placed, time):
        together.setdefault(bound, []).append(places)
    bounds = sorted(together)
    is_chain = all(a <= b for one, other in pairwise(bounds) for a, b in zip(one, other, strict=True))
    is_left = np.ones(count, bool)
    for bound in bounds:
        places = unique(*together[bound])
        if is_chain:
            places = places.compress(is_left.take(places))
            is_left[places] = False
        if len(places):
            yield bound, places


def _bounds_with(placed: Sequence[Placed], time: FlatTime) -> Iterator[tuple[FlatTime, Integers]]:
    """Yield the least upper bounds of ``time`` and updates' times, if later than ``time``, with the indexes of keys.

    A bound may occur several times.
    """
    rows = []
    for one in placed:
        masks = one.batch.time_masks() if one.places is not None and one.counts.sum() > _FEW_ROWS else None
        if masks is None or one.places is None:
            taken = one.batch.take(np.repeat(one.found, one.counts), ranges(one.starts, one.counts))
            rows.append(Updates(taken.keys, taken.values, tuple(map(advanced, taken.times, time)), taken.diffs))
        else:
            yield from _from_masks(*masks, one.found, one.places, time)
    together = concatenate(rows, len(time))
    is_later = ~at_or_before(together.times, time)
    if is_later.any():
        later = together.take(is_later)
        for bound, chosen in split_by_time(later.times):
            yield bound, later.keys[chosen]


def _from_masks(
    times: list[FlatTime], by_key: Integers, found: Integers, places: Integers, time: FlatTime
) -> Iterator[tuple[FlatTime, Integers]]:
    mine = taken(by_key, places)
    present = int(np.bitwise_or.reduce(mine))
    together: dict[FlatTime, int] = {}
    for bit, one in enumerate(times):
        if present >> bit & 1:
            bound = tuple(map(max, one, time))
            together[bound] = together.get(bound, 0) | 1 << bit
    for bound, bits in together.items():
        if bound != time:
            yield bound, found.compress((mine & bits) != 0)
