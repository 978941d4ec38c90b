"""The reader of an arrangement that answers look-ups by key, as of a time."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tidewheel.differential.records import values_of
from tidewheel.differential.shared_arrangement import Number, SharedArrangement
from tidewheel.differential.spine import at_or_before
from tidewheel.differential.updates import summed, unique

Found: TypeAlias = list[tuple[Any, int]]
"""The values of one key, each with its count, which is not 0."""


class LookUp:
    """A reader of an arrangement of pairs outside of loops.

    Args:
        arrangement: what it reads.
        name: that of the operator.
    """

    def __init__(self, arrangement: SharedArrangement, name: str) -> None:
        self._arrangement = arrangement
        self._name = name
        self.let_go(0)

    @property
    def since(self) -> int:
        """The earliest epoch as of which it can be read."""
        return self._arrangement.since[0]

    def let_go(self, since: int) -> None:
        """Note that it is read as of ``since`` or later only."""
        self._arrangement.let_go(self._name, (since,))

    def receive(self, numbers: Sequence[Number]) -> None:
        """Receive updates."""
        for number in numbers:
            self._arrangement.take(self._name, number)

    def read(self, keys: Sequence[Any], time: int) -> list[Found]:
        """Return what each key has as of a time, which is `since` or later."""
        codes = self._arrangement.keys.find(keys)
        sought = unique(np.array([code for code in codes if code is not None], np.int64))
        found = self._arrangement.look_up(self._name, sought)
        found = found.take(at_or_before(found.times, (time,)))
        places, values, counts = summed([found.keys, found.values], found.diffs)
        by_code: dict[int | None, Found] = {}
        decoded = values_of(self._arrangement.values_of(values))
        for code, value, count in zip(sought[places].tolist(), decoded, counts.tolist(), strict=True):
            by_code.setdefault(code, []).append((value, count))
        return [by_code.get(code, []) for code in codes]
