"""The arrangement of one collection, for all operators of a worker that ask for it by the same key.

A message tells each reader the number of new updates, at their time. Readers receive it at different moments. Until all
have, the updates are a spine by themselves; then they are added to the main one. A reader sees the main spine, and of
the others those whose numbers it has received. So it sees just what it would have in an arrangement of its own.

Each reader promises a frontier. The main spine is compacted to the greatest lower bound of them all. A reader in a loop
sees times with further coordinates, which are 0 and nowhere stored. Of its own times only the outer coordinates matter.

Source: McSherry, Lattuada, Schwarzkopf and Roscoe, "Shared arrangements" (VLDB 2020), sections 4 and 5.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from tidewheel.differential.arrangements import Arrangements, Owners
from tidewheel.differential.batch import Batch, batch_of
from tidewheel.differential.codes import Codes
from tidewheel.differential.records import Array, Column, Integers, as_pairs, gathered
from tidewheel.differential.spine import Spine
from tidewheel.differential.updates import FlatTime, Updates, at_time, concatenate, lower_bound

Number: TypeAlias = tuple[int, int]
"""The number of some updates: the worker that has arranged them, and how many others it had before."""

MAIN = 0
"""The number of the main spine."""


class SharedArrangement(Arrangements):
    """The pairs of a collection by key.

    Args:
        depth: the number of coordinates of times.
        operator: the name of the operator that has asked for it first, for errors.

    Attributes:
        readers: what each reader has promised: a lower bound of the times that it will ask for, None for no times.
    """

    def __init__(self, depth: int, operator: str) -> None:
        super().__init__(depth, operator, [Codes()])
        self.readers: dict[str, FlatTime | None] = {}
        self._missing: dict[Number, set[str]] = {}  # the readers that have not received some updates
        self._count = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "readers": {}}

    @property
    def depth(self) -> int:
        """The number of coordinates of times."""
        return self._depth

    def receive(self, worker: int, time: FlatTime, arrays: Sequence[Array]) -> Number | None:
        """Add updates at a time; return their number for all readers, None if the sum of them is nothing.

        Raises:
            TypeError: a record is no pair, or cannot be hashed.
        """
        columns, diffs = gathered([as_pairs(array, f"operator {self.operator!r}") for array in arrays])
        keys, values = self.encode_keys(columns[:1]), self.encode_values(MAIN, columns[1])
        batch = batch_of(at_time(keys, values, diffs, time))
        if batch is None:
            return None
        number = worker, self._count
        self._count += 1
        self._spine(number).add(batch)
        self._missing[number] = set(self.readers)
        self.sweep()
        return number

    def take(self, reader: str, number: Number) -> list[Batch]:
        """Have a reader receive updates; none if it has them already, or another worker has them all."""
        if reader not in self._missing.get(number, ()):
            return []
        batches = self.spines[number].batches
        self._missing[number].remove(reader)
        if self._missing[number].isdisjoint(self.readers):
            del self.spines[number], self._missing[number], self._codes[number]
            for batch in batches:
                self.spines[MAIN].add(batch)
        return batches

    def let_go(self, reader: str, since: FlatTime | None) -> None:
        """Note a lower bound of the times for which a reader will ask, None for no times."""
        self.readers[reader] = since and since[: self._depth]
        self.spines[MAIN].let_go(lower_bound([one for one in self.readers.values() if one is not None]))

    def look_up(self, reader: str, keys: Integers) -> Updates:
        """Return what a reader sees of some keys, as `Spine.look_up` does."""
        seen = [MAIN, *(number for number, missing in self._missing.items() if reader not in missing)]
        return concatenate([self.spines[number].look_up(keys) for number in seen], self._depth)

    def find_keys(self, column: Column) -> tuple[Integers | None, Integers]:
        """Return the places of those keys that may be here, None for all places, and their codes, in order.

        Args:
            column: distinct keys; numbers are in order.
        """
        places, codes = self._keys.known(column, self._translate_keys)
        if places is None:
            return None, codes
        order = np.argsort(codes, kind="stable")
        return places[order], codes[order]

    def keys_of(self, codes: Integers) -> Column:
        """Return the keys of codes."""
        return self._keys.decode(codes)[0]

    def values_of(self, codes: Integers) -> Column:
        """Return the values of codes."""
        return self._codes[MAIN].decode(codes)[0]

    def divided(self, owners: Owners, workers: int, make: Callable[[], Self]) -> list[Self]:
        """Return what each of so many workers gets. The numbers stay: each worker has some of the updates of each."""
        shares = super().divided(owners, workers, make)
        for share in shares:
            share._missing = {number: set(self._missing[number]) for number in share.spines if number != MAIN}
            share._count = self._count
        return shares

    def add(self, other: Self) -> Self:
        """Add what another has; return this one."""
        super().add(other)
        self._missing |= other._missing
        self._count = max(self._count, other._count)
        return self

    def _spine(self, number: Any) -> Spine:
        if number not in self.spines:
            self.spines[number], self._codes[number] = Spine(self._depth), self._codes[MAIN]
        return self.spines[number]
