"""Folding the records of each key: at once, or partially where they are and then the partial states on their owner."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tidewheel.operators.keys.record_keys import Keys, as_key
from tidewheel.progress import GraphError
from tidewheel.transport.batches import Batch

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


@dataclass(frozen=True, slots=True)
class KeyFold:
    """How the records of a key become a state, and what is made of the state in the end.

    Attributes:
        keys: how keys are found.
        start: makes a state; None if the first record is the first state.
        add: returns the state with one more record in it.
        result: makes the result of a key and its state; None for the pair of them.
    """

    keys: Keys
    start: Callable[[], Any] | None
    add: Callable[[Any, Any], Any]
    result: Callable[[Any, Any], Any] | None = None

    @classmethod
    def checked(
        cls, name: str, key: Any, schema: "pa.Schema | None", start: Any, add: Any, finish: Any = None
    ) -> "KeyFold":
        """Return the fold of an operator; raise GraphError if one of the arguments cannot be used."""
        for argument, function in {"start": start, "add": add, "finish": finish}.items():
            if not callable(function) and (argument != "finish" or function is not None):
                raise GraphError(f"{name}, for {argument}, takes a function, not {function!r}")
        return cls(Keys.checked(name, key, schema), start, add, finish)

    def fold(self, states: States, batch: Batch) -> States:
        """Add the records of a batch to the states of their keys, in place; return the states."""
        for key, rows in self.keys.grouped(batch).items():
            states[key] = self.fold_rows(states[key], rows) if key in states else self.begin(rows)
        return states

    def begin(self, rows: list[Any]) -> Any:
        """Return a new state with some records in it, at least one."""
        if self.start is None:
            return self.fold_rows(rows[0], rows[1:])
        return self.fold_rows(self.start(), rows)

    def fold_rows(self, state: Any, rows: list[Any]) -> Any:
        """Return the state with some records in it; raise TypeError as `added` does."""
        return added(self.add, state, rows) if rows else state

    def results(self, states: States) -> list[Any]:
        """Return the results of some keys."""
        return list(states.items()) if self.result is None else [self.result(*item) for item in states.items()]


def added(add: Callable[[Any, Any], Any], state: Any, rows: list[Any], name: str = "the function") -> Any:
    """Return a state with some records in it, at least one.

    Raises:
        TypeError: what there was became None when a record was added.
    """
    first = add(state, rows[0])
    if first is None and state is not None:
        raise TypeError(
            f"{short(rows[0])} was added to {short(state)}, and {name} returned None. It must "
            "return the new state, or the one it was given if it has changed that in place"
        )
    return reduce(add, rows[1:], first)


def combined_to_none(of: str) -> TypeError:
    """Return the error of a function that has made nothing of two states."""
    return TypeError(f"combine returned None for {of}: it must return the state of both")


@dataclass(frozen=True, slots=True)
class EpochFold:
    """The fold of an epoch by key, on the workers that own the keys."""

    fold: KeyFold

    def start(self) -> States:
        """Return no states."""
        return {}

    def add(self, state: States, batch: Batch) -> States:
        """Add records to the states of their keys."""
        return self.fold.fold(state, batch)

    def finish(self, state: States) -> Iterable[Batch]:
        """Return the results of all keys as one batch."""
        return [self.fold.results(state)]


class PartialStates(EpochFold):
    """The first half of a fold by key, where the records are; pairs (key, partial state) come of it."""

    __slots__ = ()

    def size(self, state: States) -> int:
        """Return how many keys there are."""
        return len(state)

    def finish(self, state: States) -> Iterable[Batch]:
        """Return pairs (key, partial state) as one batch."""
        return [list(state.items())]


@dataclass(frozen=True, slots=True)
class CombinedStates(EpochFold):
    """The second half of a fold by key: puts the partial states of each key together, on its owner."""

    combine: Callable[[Any, Any], Any]

    def add(self, state: States, batch: Batch) -> States:
        """Combine partial states with those of their keys."""
        for sent, partial in batch:
            key = sent if type(sent) is str or type(sent) is int else as_key(sent)  # NaN is one key
            if key not in state:
                state[key] = partial
            elif (both := self.combine(state[key], partial)) is not None or state[key] is None:
                state[key] = both
            else:
                raise combined_to_none(f"the key {short(key)}")
        return state
