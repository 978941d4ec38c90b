"""The fold of a window: records are folded one by one, or kept together until the window closes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tidewheel.operators.epochs.key_fold import added, combined_to_none
from tidewheel.operators.windows.event_time import EVENT_TIME, RECORD, TimedRecord
from tidewheel.progress import GraphError


class WindowFold(Protocol):
    """What is kept of the records of one key in a window, and what is made of it in the end."""

    def start(self) -> Any:
        """Return what is kept before the first record."""

    def add(self, state: Any, records: list[TimedRecord]) -> Any:
        """Return what is kept once ``records``, sorted by event time, have come too; ``state`` may be changed."""

    def combine(self, state: Any, later: Any) -> Any:
        """Return what is kept of two sessions that have become one, the second of which began later."""

    def finish(self, state: Any) -> Any:
        """Return the value of the window."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Adds each record to a state as its epoch completes, in order of event time within the epoch."""

    make: Callable[[], Any]
    add_one: Callable[[Any, Any], Any]
    value: Callable[[Any], Any] | None
    both: Callable[[Any, Any], Any] | None

    def start(self) -> Any:
        """Return what is kept before the first record."""
        return self.make()

    def add(self, state: Any, records: list[TimedRecord]) -> Any:
        """Return the state with all records, at least one, added; raise TypeError if it becomes None."""
        return added(self.add_one, state, list(map(RECORD, records)), "add")

    def combine(self, state: Any, later: Any) -> Any:
        """Return the state of two sessions that have become one."""
        assert self.both is not None, "sessions without combine keep their records"
        both = self.both(state, later)
        if both is None and state is not None:
            raise combined_to_none("the states of two sessions")
        return both

    def finish(self, state: Any) -> Any:
        """Return what finish makes of the state."""
        return state if self.value is None else self.value(state)


@dataclass(frozen=True, slots=True)
class Collection:
    """Keeps the records; when the window closes they are put in order of event time, and folded if there is a fold."""

    value: Callable[[list[Any]], Any] | None = None
    then: Reduction | None = None

    def start(self) -> list[TimedRecord]:
        """Return what is kept before the first record."""
        return []

    def add(self, state: list[TimedRecord], records: list[TimedRecord]) -> list[TimedRecord]:
        """Return all records so far."""
        state.extend(records)
        return state

    def combine(self, state: list[TimedRecord], later: list[TimedRecord]) -> list[TimedRecord]:
        """Return the records of both sessions."""
        state.extend(later)
        return state

    def finish(self, state: list[TimedRecord]) -> Any:
        """Return what is made of the records."""
        state.sort(key=EVENT_TIME)
        if self.then is not None:
            return self.then.finish(self.then.add(self.then.start(), state))
        records = list(map(RECORD, state))
        return records if self.value is None else self.value(records)


def make_fold(
    start: object,
    add: object,
    finish: Callable[[Any], Any] | None,
    combine: Callable[[Any, Any], Any] | None,
    *,
    sessions: bool,
) -> WindowFold:
    """Return the fold that a user's functions describe; raise GraphError if some do not fit together."""
    for name, function in {"start": start, "add": add, "finish": finish, "combine": combine}.items():
        if function is not None and not callable(function):
            raise GraphError(f"operator 'window': {name} is a function, not {function!r}")
    if (start is None) != (add is None) or (combine is not None and add is None):
        raise GraphError(
            "operator 'window': start makes the state of a window, and add returns it with one record more. They go "
            "together, and combine goes with both. Leave them out to have the records themselves"
        )
    if not callable(start) or not callable(add):
        return Collection(finish)
    reduction = Reduction(start, add, finish, combine)
    return Collection(then=reduction) if sessions and combine is None else reduction
