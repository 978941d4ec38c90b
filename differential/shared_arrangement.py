"""The arrangement of one collection by one key, shared by all operators of a worker that read it.

Each set of new updates has a number, which a message sends to each reader at the time of the updates. Until all readers
have received the number, the updates are in a spine of their own; then they are added to the main spine. A reader sees
the main spine and the spines whose numbers it has received, as if it had an arrangement of its own.

Each reader promises a frontier: it asks for no earlier times. The main spine is compacted to the greatest lower bound
of these frontiers. A reader in a loop has times with more coordinates. In the arrangement the inner coordinates are 0
and not stored; only the outer ones matter.

A reduction also keeps its result here, and the keys that it will look at.

Source: McSherry, Lattuada, Schwarzkopf and Roscoe, "Shared arrangements" (VLDB 2020), sections 4 and 5.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from tidewheel.differential.batch import Batch, Placed, batch_of
from tidewheel.differential.codes import Codes, Translate, overflow_of
from tidewheel.differential.key_set import KeySet
from tidewheel.differential.packing import CountOverflowError, constant
from tidewheel.differential.records import Array, Column, Integers, as_pairs, gathered, values_of
from tidewheel.differential.spine import Spine
from tidewheel.differential.updates import FlatTime, Updates, at_time, concatenate, lower_bound, unique

Number: TypeAlias = tuple[int, int]
"""The number of a set of updates: the worker that has arranged it, and the count of the worker's earlier sets."""

Owners: TypeAlias = Callable[[Sequence[Column], int], "np.typing.NDArray[Any]"]
"""Returns the worker that owns each key, given the columns of the keys and the number of workers."""

_SOME = 100

MAIN = 0
"""The number of the main spine. The spine of a reduction's result has the reduction's name in place of a number."""


class SharedArrangement:
    """The records of a collection by key.

    Args:
        operator: the operator that first asked for the arrangement, for errors.
        by_record: True if whole records are the keys, with value 0; otherwise records are pairs.

    Attributes:
        keys: the codes of keys; ``values`` has the codes of values.
        readers: for each reader a lower bound of the times that it will ask for; None if it has finished.
        since: the least time that can be read; earlier times are compacted, perhaps on another worker.
        awaiting: for each reduction and time, the keys to look at.
    """

    def __init__(self, depth: int, operator: str, *, by_record: bool = False) -> None:
        self.depth = depth
        self.spines: dict[Any, Spine] = {MAIN: Spine(depth)}
        self.keys, self.values = Codes(), Codes()
        self.readers: dict[str, FlatTime | None] = {}
        self.since: FlatTime = (0,) * depth
        self.awaiting: dict[tuple[str, FlatTime], KeySet] = {}
        self._operator = operator
        self._by_record = by_record
        self._results: dict[str, Codes] = {}  # the codes of results with other values than the main spine
        self._missing: dict[tuple[int, ...], set[str]] = {}  # the readers that have not received some updates
        self._count = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "readers": {}}

    def receive(self, worker: int, time: FlatTime, arrays: Sequence[Array]) -> Number | None:
        """Add updates at a time; return the number to send to readers; None if the updates cancel out.

        Raises:
            TypeError: a record cannot be hashed, or the arrangement is by key and a record is not a pair.
        """
        if self._by_record:
            columns, diffs = gathered(arrays)
            keys, values = self._encode_keys(columns), constant(0, len(diffs))
        else:
            columns, diffs = gathered([as_pairs(array, f"operator {self._operator!r}") for array in arrays])
            keys, values = self._encode_keys(columns[:1]), self.encode_values(MAIN, columns[1])
        updates = at_time(keys, values, diffs, time)
        try:
            batch = batch_of(updates)
        except CountOverflowError as error:
            raise self.overflow_of(updates, MAIN) from error
        if batch is None:
            return None
        number = worker, self._count
        self._count += 1
        self._spine(number).add(batch)
        self._missing[number] = set(self.readers)
        self._sweep()
        return number

    def take(self, reader: str, number: Number) -> list[Batch]:
        """Return the updates with this number to a reader, except those that the reader has received already."""
        taken = list[Batch]()
        for part in [one for one, missing in self._missing.items() if one[:2] == number and reader in missing]:
            batches = self.spines[part].batches
            self._missing[part].remove(reader)
            if self._missing[part].isdisjoint(self.readers):
                del self.spines[part], self._missing[part]
                for batch in batches:
                    self._add(batch)
            taken += batches
        return taken

    def let_go(self, reader: str, since: FlatTime | None) -> None:
        """Record a lower bound of the times that a reader will ask for; None if it has finished."""
        promised = since and since[: self.depth]
        if self.readers.get(reader, ()) == promised:
            return
        self.readers[reader] = promised
        least = lower_bound([one for one in self.readers.values() if one is not None])
        self.spines[MAIN].let_go(least)
        self.since = tuple(map(max, self.since, least or self.since))
        if reader in self.spines:
            self.spines[reader].let_go(since)

    def is_empty(self, reader: str) -> bool:
        return not any(spine.runs for spine in self._seen(reader))

    def some_keys(self, reader: str) -> list[Any]:
        for batch in (batch for spine in self._seen(reader) for batch in spine.batches):
            return values_of(self.keys_of(batch.column(0, np.arange(min(len(batch), _SOME)))))
        return []

    def look_up(self, reader: str, keys: Integers) -> Updates:
        """As `Spine.look_up`, among the updates that a reader sees."""
        return concatenate([spine.look_up(keys) for spine in self._seen(reader)], self.depth)

    def place(self, reader: str, keys: Integers) -> list[Placed]:
        """As `Spine.place`, among the updates that a reader sees."""
        return [placed for spine in self._seen(reader) for placed in spine.place(keys)]

    def find_keys(self, column: Column) -> tuple[Integers | None, Integers]:
        """Return the indexes of the keys that may be in the arrangement (None for all), and their codes, in order."""
        places, codes = self.keys.known(column, self._translate_keys)
        if places is None:
            return None, codes
        order = np.argsort(codes, kind="stable")
        return places[order], codes[order]

    def keys_of(self, codes: Integers) -> Column:
        return self.keys.decode(codes)[0]

    def values_of(self, codes: Integers) -> Column:
        return self.values.decode(codes)[0]

    def result(self, reduction: str, *, keeps_values: bool) -> tuple[Spine, Codes]:
        """Return the spine of a reduction's result, and the codes of its values: with ``keeps_values``, the input's."""
        if not keeps_values:
            self._results.setdefault(reduction, Codes())
        return self._spine(reduction), self._codes(reduction)

    def encode_values(self, spine: Any, column: Column) -> Integers:
        codes = self._codes(spine)

        def translate(change: Translate) -> None:
            for one in self._with(codes):
                one.translate(values=change)

        return codes.encode([column], translate)

    def overflow_of(self, updates: Updates, spine: Any) -> CountOverflowError:
        """Return the error for updates of a spine with too large counts; the error names a record."""
        return overflow_of(updates, self.keys, None if self._by_record else self._codes(spine))

    def divided(self, owners: Owners, workers: int, make: Callable[[], Self]) -> list[Self]:
        """Divide the arrangement among workers; return the parts, each an arrangement made by ``make``.

        Each worker gets a part of the updates of each number.
        """
        shares = [make()._like(self) for _ in range(workers)]
        for spine, keys, others in self._pieces():
            owner = owners(keys, workers)
            for worker in np.unique(owner).tolist():
                rows = owner == worker
                shares[worker]._load(spine, [one[rows] for one in keys], [one[rows] for one in others])
        for share in shares:
            share._missing = {number: set(self._missing[number]) for number in self._missing if number in share.spines}
        return shares

    def add(self, other: Self) -> Self:
        """Add another arrangement to this one; the sum can be read at times at which both could be read."""
        self._like(other)
        for spine, keys, others in other._pieces():
            self._load(self._part(spine, other._missing.get(spine)), keys, others)
        return self

    def _part(self, spine: Any, missing: set[str] | None) -> Any:
        """Return the number for updates that the readers ``missing`` have not received; None stands for all readers.

        A reader may have received the updates of a number from one worker only; such updates get longer numbers.
        """
        while missing is not None and self._missing.setdefault(spine, set(missing)) != missing:
            spine = (*spine, 0)
        return spine

    def _like(self, other: Self) -> Self:
        for reduction in other._results:
            self._results.setdefault(reduction, Codes())
        self._count = max(self._count, other._count)
        self.since = tuple(map(max, self.since, other.since))
        return self

    def _sweep(self) -> None:
        if self.keys.wants_sweep:
            waiting = (keys for awaiting in self.awaiting.values() for keys in awaiting.parts())
            self.keys.sweep(np.concatenate([*(spine.column("keys") for spine in self.spines.values()), *waiting]))
        for codes in (self.values, *self._results.values()):
            if codes.wants_sweep:
                codes.sweep(np.concatenate([spine.column("values") for spine in self._with(codes)]))

    def _add(self, batch: Batch) -> None:
        main = self.spines[MAIN]
        try:
            main.add(batch)
        except CountOverflowError as error:
            parts = [one.updates for one in (*main.batches, batch)]
            raise self.overflow_of(concatenate(parts, self.depth), MAIN) from error

    def _seen(self, reader: str) -> list[Spine]:
        numbers = (number for number, missing in self._missing.items() if reader not in missing)
        return [self.spines[MAIN], *(self.spines[number] for number in numbers)]

    def _codes(self, spine: Any) -> Codes:
        return self._results.get(spine, self.values)

    def _with(self, codes: Codes) -> list[Spine]:
        return [spine for number, spine in self.spines.items() if self._codes(number) is codes]

    def _spine(self, number: Any) -> Spine:
        if number not in self.spines:
            self.spines[number] = Spine(self.depth)
        return self.spines[number]

    def _encode_keys(self, columns: Sequence[Column]) -> Integers:
        return self.keys.encode(columns, self._translate_keys)

    def _translate_keys(self, change: Translate) -> None:
        for spine in self.spines.values():
            spine.translate(keys=change)
        before, self.awaiting = self.awaiting, {}
        for waiting, keys in before.items():
            self.awaiting[waiting] = KeySet()
            for some in keys.parts():
                self.awaiting[waiting].add(unique(change(some)))

    def _pieces(self) -> Iterator[tuple[Any, list[Column], list[Column]]]:
        for number, spine in self.spines.items():
            if spine.batches:
                found = concatenate([batch.updates for batch in spine.batches], self.depth)
                values = self._codes(number).decode(found.values)[0]
                yield number, self.keys.decode(found.keys), [values, *found.times, found.diffs]
        for awaiting, keys in self.awaiting.items():
            for codes in keys.parts():
                yield awaiting, self.keys.decode(codes), []

    def _load(self, spine: Any, columns: Sequence[Column], others: Sequence[Column]) -> None:
        keys = self._encode_keys(columns)
        if not others:
            self.awaiting.setdefault(spine, KeySet()).add(unique(keys))
            return
        values, *times, diffs = others
        self._spine(spine).insert(Updates(keys, self.encode_values(spine, values), tuple(times), diffs))
