"""The arrangement of a collection that is read from outside, by key and as of a time."""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from tidewheel.differential.arrangements import Arrangements, Owners
from tidewheel.differential.codes import Codes
from tidewheel.differential.records import Array, as_pairs, gathered, values_of
from tidewheel.differential.spine import at_or_before
from tidewheel.differential.updates import FlatTime, at_time, summed, unique

Found: TypeAlias = list[tuple[Any, int]]
"""The values of one key, each with its count, which is not 0."""


class LookUpState(Arrangements):
    """The values of a collection of pairs by key, outside of loops.

    Args:
        operator: the name of the operator, for errors.
    """

    def __init__(self, operator: str) -> None:
        super().__init__(1, operator, [Codes()])

    @property
    def since(self) -> int:
        """The earliest epoch as of which it can be read."""
        (since,) = self.spines[0].since or (0,)
        return since

    def let_go(self, since: int) -> None:
        """Note that it is read as of ``since`` or later only."""
        self.spines[0].let_go((since,))

    def receive(self, time: FlatTime, array: Array) -> None:
        """Add updates at a time. Raises TypeError if a record is no pair, or cannot be hashed."""
        (key, value), diffs = gathered([as_pairs(array, f"operator {self.operator!r}")])
        keys, values, diffs = summed([self.encode_keys([key]), self.encode_values(0, value)], diffs)
        self.spines[0].insert(at_time(keys, values, diffs, time))
        self.sweep()

    def read(self, keys: Sequence[Any], time: int) -> list[Found]:
        """Return what each key has as of a time, which is `since` or later."""
        codes = self._keys.find(keys)
        sought = unique(np.array([code for code in codes if code is not None], np.int64))
        found = self.spines[0].look_up(sought)
        found = found.take(at_or_before(found.times, (time,)))
        places, values, counts = summed([found.keys, found.values], found.diffs)
        by_code: dict[int | None, Found] = {}
        decoded = values_of(self._codes[0].decode(values)[0])
        for code, value, count in zip(sought[places].tolist(), decoded, counts.tolist(), strict=True):
            by_code.setdefault(code, []).append((value, count))
        return [by_code.get(code, []) for code in codes]

    def divided(self, owners: Owners, workers: int, make: Callable[[], Self]) -> list[Self]:
        """Return what each of so many workers gets. None of it can be read as of times before `since`."""
        shares = super().divided(owners, workers, make)
        for share in shares:
            share.let_go(self.since)
        return shares

    def add(self, other: Self) -> Self:
        """Add what another has; return this one, which can be read as of times that both have."""
        self.let_go(max(self.since, other.since))
        return super().add(other)
