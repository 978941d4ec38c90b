"""Folds by key, in one step or in two.

With two steps, each worker first folds its own records and sends pairs (key, state). Then each key's owner combines the
states.
"""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial, reduce
from operator import add as plus
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tidewheel.batches.batches import Batch, is_arrow
from tidewheel.operators.base.setting_aside import Aside, Caught, letter
from tidewheel.operators.epochs.fold import Fold
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.keys.record_keys import Keys, as_key, as_record, may_have_nan
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa

State = TypeVar("State")
Record = TypeVar("Record")

Start: TypeAlias = Callable[[], State]
"""Makes the state of a key, before its first record."""

Add: TypeAlias = Callable[[State, Record], State]
"""Returns the state with one more record in it."""

States: TypeAlias = dict[Any, Any]
"""States, or results, by key."""

_UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None), Decimal, date, datetime, timedelta})
"""Types of states that no function can change in place."""


@dataclass(frozen=True, slots=True)
class KeyFold:
    """The functions that fold the records of a key into a state, and make a result from it.

    Attributes:
        start: makes a state; None if the first record is the first state.
        result: makes the result of a key and its state; None for the pair.
    """

    keys: Keys
    start: Callable[[], Any] | None
    add: Callable[[Any, Any], Any]
    result: Callable[[Any, Any], Any] | None = None

    @classmethod
    def checked(
        cls, name: str, key: Any, schema: "pa.Schema | None", start: Any, add: Any, finish: Any = None
    ) -> "KeyFold":
        """Return the fold of an operator; raise GraphError if an argument cannot be used."""
        for argument, function in {"start": start, "add": add, "finish": finish}.items():
            if not callable(function) and (argument == "add" or function is not None):
                raise GraphError(f"{name}, for {argument}, takes a function, not {short(function)}")
        return cls(Keys.checked(name, key, schema), start, add, finish)

    def fold(self, states: States, batch: Batch) -> States:
        for key, rows in self.keys.grouped(batch).items():
            states[key] = self.fold_rows(states[key], rows) if key in states else self.begin(rows)
        return states

    def begin(self, rows: list[Any]) -> Any:
        if self.start is None:
            return self.fold_rows(rows[0], rows[1:])
        return self.fold_rows(self.start(), rows)

    def fold_rows(self, state: Any, rows: list[Any]) -> Any:
        """Return the state with some records added; raise TypeError as `added` does."""
        return added(self.add, state, rows) if rows else state

    def fold_each(self, states: States, key: Any, rows: list[Any], caught: Caught) -> list[Aside]:
        """Add the rows of a key one by one.

        Return a letter for each row for which a function raises a ``caught`` error. Such a row leaves the state as it
        was, unless the function has changed it in place.
        """
        failed = []
        for row in rows:
            try:
                states[key] = self.fold_rows(states[key], [row]) if key in states else self.begin([row])
            except caught as error:
                failed.append(Aside(letter(row, error)))
                error.__traceback__ = None  # it grows each time that a function raises the same object
        return failed

    def tried(self, caught: Caught) -> Callable[[States, Batch], list[Aside]] | None:
        """Return a function that adds a batch as `fold_each` does; None if nothing is caught."""

        def fold(states: States, batch: Batch) -> list[Aside]:
            groups = self.keys.grouped(batch).items()
            return [aside for key, rows in groups for aside in self.fold_each(states, key, rows, caught)]

        return fold if caught else None

    def results(self, states: States) -> list[Any]:
        return _pairs(states) if self.result is None else [self.result(*item) for item in states.items()]

    def per_epoch(self, caught: Caught = ()) -> Fold:
        """Return the fold of an epoch, for the workers that own the keys."""
        return Fold(dict, self.fold, self.results, tried=self.tried(caught))

    def partially(self, combine: Callable[[Any, Any], Any], caught: Caught = ()) -> Fold:
        """Return the first step of the fold, which makes pairs (key, state)."""
        add = self.combined(combine).add
        return Fold(dict, self.fold, _pairs, merge=lambda one, other: add(one, _pairs(other)), tried=self.tried(caught))

    def combined(self, combine: Callable[[Any, Any], Any]) -> Fold:
        return _combined(
            combine, self.results, self.results, _same if self.start is None and combine is self.add else _own
        )


def added(add: Callable[[Any, Any], Any], state: Any, rows: list[Any], name: str = "the function") -> Any:
    """Return a state with at least one record added.

    Raises:
        TypeError: the function returned None.
    """
    first = add(state, rows[0])
    if first is None and state is not None:
        raise TypeError(
            f"{short(rows[0])} was added to {short(state)}, and {name} returned None. It must "
            "return the new state, or the one it was given if it has changed that in place"
        )
    return reduce(add, rows[1:], first)


def combined_to_none(of: str) -> TypeError:
    return TypeError(f"combine returned None for {of}: it must return the state of both")


def counting_folds(keys: Keys) -> tuple[Fold, Fold]:
    """Return both steps of the fold that counts the records of each key.

    >>> first, second = counting_folds(Keys(None))
    >>> counts = first.finish(first.add(first.start(), ["to", "be", "to"]))
    >>> counts, second.finish(second.add(second.add(second.start(), counts), [("be", 3)]))
    ([('to', 2), ('be', 1)], [('to', 2), ('be', 4)])
    """
    of_odd_keys = _pairs if keys.key is not None else lambda counts: [(as_record(key), counts[key]) for key in counts]
    return Fold(Counter, partial(_count, keys), _pairs), _combined(plus, _pairs, of_odd_keys, _same)


def _count(keys: Keys, counts: Counter[Any], batch: Batch) -> Counter[Any]:
    if is_arrow(batch) and not callable(keys.key) and _count_columns(keys, counts, batch):
        return counts
    found = keys.of(batch)
    try:
        counts.update(found)
    except TypeError:
        keys.check(found)
        counted = next(place for place, key in enumerate(found) if not _is_hashable(key))
        counts.update(map(as_key, found[counted:]))  # rows and lists are keys in another form
    return counts


def _count_columns(keys: Keys, counts: Counter[Any], batch: Batch) -> bool:
    import pyarrow as pa

    table = as_table(batch)
    names = table.column_names if keys.key is None else keys.names
    if not names or not set(names) <= set(table.column_names):
        return False
    try:
        counted = table.group_by(names).aggregate([([], "count_all")])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # a column of lists or structs
        return False
    found = map(as_key, keys.of(counted.drop_columns("count_all")))
    for key, count in zip(found, counted["count_all"].to_pylist(), strict=True):
        counts[key] = counts.get(key, 0) + count
    return True


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _combined(
    combine: Callable[[Any, Any], Any],
    finish: Callable[[States], Batch],
    finish_odd: Callable[[States], Batch],
    own: Callable[[Any], Any],
) -> Fold:
    """Return the fold that combines the states of each key; its records are pairs (key, state)."""

    def add(states: States, batch: list[tuple[Any, Any]]) -> States:
        if not states:
            states.update(batch if own is _same else ((key, own(state)) for key, state in batch))
            if len(states) == len(batch):
                return states
            states.clear()
        for key, state in batch:
            if key not in states:
                states[key] = own(state)
            elif (both := combine(states[key], own(state))) is not None or states[key] is None:
                states[key] = both
            else:
                raise combined_to_none(f"the key {short(key)}")
        return states

    def finish_all(states: States) -> Batch:
        if not may_have_nan(states):
            return finish(states)
        return finish_odd(add({}, [(as_key(key), state) for key, state in states.items()]))

    return Fold(dict, add, finish_all)


def _same(state: Any) -> Any:
    return state


def _own(state: Any) -> Any:
    """Return a copy of a state, or the state itself if it cannot change.

    The copy goes into a message, which must not change while a snapshot is written and the worker goes on.
    """
    return state if _is_unchanging(state) else deepcopy(state)


def _is_unchanging(state: Any) -> bool:
    kind = type(state)
    if kind is tuple:
        return all(map(_is_unchanging, state))
    return kind in _UNCHANGING or (kind.__module__ == "numpy" and not hasattr(state, "__len__"))


def _pairs(states: States) -> list[Any]:
    return list(states.items())
