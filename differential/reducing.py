"""The reduction of a collection by key, one complete time after the other.

At a time ``t`` the reducer looks at each key whose input has changed at ``t``, and at keys postponed to ``t``. It adds
up the key's input at or before ``t`` and computes the output. Then it subtracts the previous output at or before ``t``,
and sends the difference.

A change at ``t`` can also change the output at later times, namely at the least upper bounds of ``t`` and the other
times of the key's input. So the key is postponed to those bounds that are later than ``t``. There it is postponed
again, and so reaches the least upper bounds of all sets of its times. No time is completed before an earlier time, so
these bounds are not complete yet.

Two things save most of this work. If a bound is before another, the key is postponed only to the first, and from there
to the next. And a key is not postponed if neither its input nor its output can change the result later, as
`tidewheel.differential.ends` determines.

Source: McSherry, Murray, Isaacs and Isard, "Differential dataflow" (CIDR 2013), section 4.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tidewheel.differential.batch import Placed, batch_of
from tidewheel.differential.ends import ends_of, next_bounds
from tidewheel.differential.key_set import KeySet
from tidewheel.differential.packing import CountOverflowError, constant
from tidewheel.differential.records import Array, Integers, array_of
from tidewheel.differential.reductions import Extreme, Reduction, Result, Rows, one_column
from tidewheel.differential.shared_arrangement import MAIN, Number, SharedArrangement
from tidewheel.differential.spine import at_or_before
from tidewheel.differential.updates import FlatTime, Updates, at_time, summed


class Reducer:
    """A reader of an arrangement that also keeps its result in the arrangement."""

    def __init__(self, arrangement: SharedArrangement, name: str, reduction: Reduction) -> None:
        self._arrangement = arrangement
        self._name = name
        self._reduction = reduction
        self._output, self._codes = arrangement.result(name, keeps_values=reduction.keeps_values)
        self.let_go((0,) * arrangement.depth)

    def let_go(self, since: FlatTime | None) -> None:
        """Record a lower bound of the times still to complete; None if there are none."""
        self._arrangement.let_go(self._name, since)

    def receive(self, time: FlatTime, numbers: Iterable[Number]) -> None:
        """Receive updates at a time; call `complete` for that time afterwards."""
        for number in numbers:
            for batch in self._arrangement.take(self._name, number):
                self._await(time, batch.keys)

    def _await(self, time: FlatTime, keys: Integers) -> None:
        self._arrangement.awaiting.setdefault((self._name, time), KeySet()).add(keys)

    def complete(self, time: FlatTime) -> tuple[list[Array], list[FlatTime]]:
        """Complete a time whose updates have all been received.

        Returns:
            The changes of the output at ``time``, in parts, and later times that must also be completed.
        """
        awaiting = self._arrangement.awaiting.pop((self._name, time), KeySet())
        later, changes = list[FlatTime](), list[Array]()
        for some in awaiting.parts():
            placed = self._arrangement.place(self._name, some)
            result = self._result(time, some, placed)
            had = self._output.look_up(some)
            is_now = at_or_before(had.times, time)
            if result.is_settled is not None:
                result.is_settled[had.keys.compress(~is_now)] = False
            later += self._put_off_from(time, some, placed, result)
            change = self._difference(time, some, result, had if is_now.all() else had.take(is_now))
            changes += [] if change is None else [change]
        return changes, later

    def _put_off_from(
        self, time: FlatTime, keys: Integers, placed: Sequence[Placed], result: Result
    ) -> Iterator[FlatTime]:
        if result.is_settled is not None and result.is_settled.any():
            keys = keys.compress(~result.is_settled)
            placed = self._arrangement.place(self._name, keys) if len(keys) else []
        for bound, places in next_bounds(placed, len(keys), time):
            self._await(bound, keys.take(places))
            yield bound

    def _result(self, time: FlatTime, keys: Integers, placed: Sequence[Placed]) -> Result:
        """Compute the output for ``keys`` at a time, with the codes of its values.

        This may change the codes of the previous output.
        """
        arrangement, reduction = self._arrangement, self._reduction
        if isinstance(reduction, Extreme) and arrangement.values.kind in {"int", "float"}:
            place = partial(arrangement.place, self._name)
            ends = ends_of(place, placed, keys, time, greatest=reduction.greatest)
            return Result(ends.places, ends.values, constant(1, len(ends.places)), ends.is_settled)
        found = arrangement.look_up(self._name, keys)
        is_now = at_or_before(found.times, time)
        if not is_now.all():
            found = found.take(is_now)
        try:
            groups, values, counts = summed([found.keys, found.values], found.diffs)
        except CountOverflowError as error:
            raise arrangement.overflow_of(replace(found, keys=keys.take(found.keys)), MAIN) from error
        result = reduction.result(Rows(keys, groups, values, counts, arrangement.keys, arrangement.values))
        if reduction.keeps_values:
            return result
        return replace(result, values=arrangement.encode_values(self._name, result.values))

    def _difference(self, time: FlatTime, keys: Integers, result: Result, had: Updates) -> Array | None:
        groups, values, counts = result.groups, result.values, result.counts
        if len(had):
            groups, values = np.concatenate([groups, had.keys]), np.concatenate([values, had.values])
            counts = np.concatenate([counts, -had.diffs])
        updates = at_time(keys.take(groups), values, counts, time)
        try:
            batch = batch_of(updates)
        except CountOverflowError as error:
            raise self._arrangement.overflow_of(updates, self._name) from error
        if batch is None:
            return None
        self._output.add(batch)
        changed = batch.updates
        columns = self._arrangement.keys.decode(changed.keys)
        if self._reduction.form != "record":
            columns = [one_column(columns), self._codes.decode(changed.values)[0]]
        return array_of(columns, changed.diffs)
