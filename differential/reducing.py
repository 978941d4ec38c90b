"""The reduction of a collection by key, one complete time after the other.

At a time ``t`` the state looks again at each key whose input has changed at ``t``, or that was put off until ``t``. It
accumulates the key's input at the times at or before ``t``, and computes what the output there has to be. From that it
subtracts what the output at or before ``t`` has been so far. The difference is what is sent at ``t``.

A change at ``t`` can change the output at later times than ``t``, too: where it meets another change of the key for the
first time. These are the least upper bounds of ``t`` with the other times at which the key's input has changed. So the
key is put off until those that are later. As that happens at these times again, the key is looked at, in the end, at
the least upper bounds of all sets of its times. Times are completed in an order in which none comes before a lesser
one, so such a bound is still to come.

Two things save most of this work. If one bound comes before another, the key is put off until the first, and from there
until the next. And it is not put off if neither the input nor the output that there is can change its result at a later
time, which `tidewheel.differential.ends` tells.

Source: McSherry, Murray, Isaacs and Isard, "Differential dataflow" (CIDR 2013), section 4.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tidewheel.differential.arrangements import Arrangements, Piece
from tidewheel.differential.batch import Batch, Placed, batch_of
from tidewheel.differential.codes import Codes, Translate
from tidewheel.differential.ends import ends_of, next_bounds
from tidewheel.differential.packing import constant
from tidewheel.differential.records import Array, Integers, array_of, as_pairs, gathered
from tidewheel.differential.reductions import Extreme, Reduction, Result, Rows, one_column
from tidewheel.differential.spine import at_or_before
from tidewheel.differential.updates import (
    MOST_KEYS,
    FlatTime,
    Updates,
    at_time,
    portions,
    split_by_time,
    summed,
    unique,
)

PUT_OFF = -1
"""The number that a `Piece` with keys that are put off has instead of that of a spine."""


class ReduceState(Arrangements):
    """The arrangements of the input and the output of a reduction, and the keys that are put off.

    Args:
        depth: the number of coordinates of times.
        operator: the name of the operator, for errors.
        keeps_values: whether the values of the output are some of the input.
    """

    def __init__(self, depth: int, operator: str, *, keeps_values: bool) -> None:
        values = Codes()
        super().__init__(depth, operator, [values, values if keeps_values else Codes()])
        self._put_off: dict[FlatTime, list[Integers]] = {}

    def let_go(self, since: FlatTime | None) -> None:
        """Note a lower bound of the times that will be completed, None if there are none."""
        for spine in self.spines.values():
            spine.let_go(since)

    def complete(
        self, time: FlatTime, arrays: Iterable[Array], reduction: Reduction
    ) -> tuple[Array | None, list[FlatTime]]:
        """Complete a time at which ``arrays`` have arrived, all that ever will.

        Returns:
            What the output changes by at ``time``, None if by nothing; and later times that have to be completed, too.

        Raises:
            TypeError: a record cannot be hashed, or is no pair where pairs are reduced.
        """
        for _, part in portions((time, array) for array in arrays):
            new = self._arrived(time, part, reduction)
            if new is not None:  # not apart from those that were put off, as the next part may change all codes
                self._put_off.setdefault(time, []).append(new.keys)
        parts = self._put_off.pop(time, [])
        if not parts:
            return None, []
        keys = unique(*parts) if len(parts) > 1 else parts[0]
        later, changes = list[FlatTime](), list[Array]()
        for first in range(0, len(keys), MOST_KEYS):
            some = keys[first : first + MOST_KEYS]
            placed = self.spines[0].place(some)
            result = self._result(time, some, placed, reduction)
            had = self.spines[1].look_up(some)
            is_now = at_or_before(had.times, time)
            if result.is_settled is not None:
                result.is_settled[had.keys[~is_now]] = False
            later += self._put_off_from(time, some, placed, result)
            change = self._difference(time, some, result, had if is_now.all() else had.take(is_now), reduction)
            changes += [] if change is None else [change]
        self.sweep()
        return (np.concatenate(changes) if len(changes) > 1 else changes[0]) if changes else None, later

    def _put_off_from(
        self, time: FlatTime, keys: Integers, placed: Sequence[Placed], result: Result
    ) -> Iterator[FlatTime]:
        """Put keys off until the later times at which their result may change; yield these times."""
        if result.is_settled is not None and result.is_settled.any():
            keys = keys[~result.is_settled]
            placed = self.spines[0].place(keys) if len(keys) else []
        for bound, places in next_bounds(placed, len(keys), time):
            self._put_off.setdefault(bound, []).append(keys[places])
            yield bound

    def _result(self, time: FlatTime, keys: Integers, placed: Sequence[Placed], reduction: Reduction) -> Result:
        """Return what the output of ``keys`` has to be at a time."""
        if isinstance(reduction, Extreme) and self._codes[0].kind in {"int", "float"}:
            ends = ends_of(self.spines[0], placed, keys, time, greatest=reduction.greatest)
            return Result(ends.places, ends.values, constant(1, len(ends.places)), ends.is_settled)
        found = self.spines[0].look_up(keys)
        is_now = at_or_before(found.times, time)
        if not is_now.all():
            found = found.take(is_now)
        groups, values, counts = summed([found.keys, found.values], found.diffs)
        return reduction.result(Rows(keys, groups, values, counts, self._keys, self._codes[0]))

    def _arrived(self, time: FlatTime, arrays: Sequence[Array], reduction: Reduction) -> Batch | None:
        if reduction.form == "pair":
            arrays = [as_pairs(array, f"operator {self.operator!r}") for array in arrays]
            (key, value), diffs = gathered(arrays)
            keys, values = self.encode_keys([key]), self.encode_values(0, value)
        else:
            columns, diffs = gathered(arrays)
            keys = self.encode_keys(columns)
            values = constant(0, len(keys))
        new = batch_of(at_time(keys, values, diffs, time))
        self.spines[0].add(new)
        return new

    def _difference(
        self, time: FlatTime, keys: Integers, result: Result, had: Updates, reduction: Reduction
    ) -> Array | None:
        """Return by what the output of ``keys`` changes at a time, where it is ``had``, and add it to the output."""
        values = result.values
        if not reduction.keeps_values:
            values = self.encode_values(1, values)
        counts = result.counts
        groups = result.groups
        if len(had):
            groups, values = np.concatenate([groups, had.keys]), np.concatenate([values, had.values])
            counts = np.concatenate([counts, -had.diffs])
        batch = batch_of(at_time(keys[groups], values, counts, time))
        if batch is None:
            return None
        self.spines[1].add(batch)
        changed = batch.updates
        columns = self._keys.decode(changed.keys)
        if reduction.form != "record":
            columns = [one_column(columns), self._codes[1].decode(changed.values)[0]]
        return array_of(columns, changed.diffs)

    def _key_codes(self) -> list[Integers]:
        return [*super()._key_codes(), *(keys for parts in self._put_off.values() for keys in parts)]

    def _translate_keys(self, change: Translate) -> None:
        super()._translate_keys(change)
        for time, parts in self._put_off.items():
            self._put_off[time] = [change(keys) for keys in parts]

    def _pieces(self) -> Iterator[Piece]:
        yield from super()._pieces()
        for time, parts in self._put_off.items():
            for keys in parts:
                row = at_time(keys, keys, keys, time)
                yield Piece(PUT_OFF, self._keys.decode(keys), row.values, row.times, row.diffs)

    def _load(self, piece: Piece) -> None:
        if piece.spine != PUT_OFF:
            super()._load(piece)
            return
        keys = self.encode_keys(piece.keys)
        for time, rows in split_by_time(piece.times):
            self._put_off.setdefault(time, []).append(keys[rows])
