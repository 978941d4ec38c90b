"""The fold of a window, epoch by epoch or, for a list of records, when the window closes."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import iadd
from typing import Any

from tidewheel.operators.epochs.key_fold import added, combined_to_none
from tidewheel.operators.windows.event_time import EVENT_TIME, RECORD, TimedRecord
from tidewheel.progress import GraphError


@dataclass(frozen=True, slots=True)
class WindowFold:
    """The functions that fold the records of one key in a window into a state, and make a value from it.

    Attributes:
        add: returns the state with records added, which are sorted by event time; it may change the given state.
        combine: merges the states of two sessions; the second began later.
    """

    start: Callable[[], Any]
    add: Callable[[Any, list[TimedRecord]], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]


def make_fold(
    start: object,
    add: object,
    finish: Callable[[Any], Any] | None,
    combine: Callable[[Any, Any], Any] | None,
    *,
    sessions: bool,
) -> WindowFold:
    """Return the fold of the user's functions; raise GraphError if they do not fit together."""
    for name, function in {"start": start, "add": add, "finish": finish, "combine": combine}.items():
        if function is not None and not callable(function):
            raise GraphError(f"operator 'window': {name} is a function, not {function!r}")
    if (start is None) != (add is None) or (combine is not None and add is None):
        raise GraphError(
            "operator 'window': start makes the state of a window, and add returns it with one record more. They go "
            "together, and combine goes with both. Leave them out to have the records themselves"
        )
    value = finish or (lambda state: state)
    if not callable(start) or not callable(add):
        return _collection(value)
    if sessions and combine is None:
        return _collection(lambda records: value(added(add, start(), records, "add")))
    return _reduction(start, add, combine, value)


def _collection(value: Callable[[list[Any]], Any]) -> WindowFold:
    def finish(state: list[TimedRecord]) -> Any:
        state.sort(key=EVENT_TIME)
        return value(list(map(RECORD, state)))

    return WindowFold(list, iadd, iadd, finish)


def _reduction(
    start: Callable[[], Any],
    add: Callable[[Any, Any], Any],
    combine: Callable[[Any, Any], Any] | None,
    finish: Callable[[Any], Any],
) -> WindowFold:
    def add_all(state: Any, timed: list[TimedRecord]) -> Any:
        return added(add, state, list(map(RECORD, timed)), "add")

    def combine_two(state: Any, later: Any) -> Any:
        assert combine is not None, "sessions without combine keep their records"
        both = combine(state, later)
        if both is None and state is not None:
            raise combined_to_none("the states of two sessions")
        return both

    return WindowFold(start, add_all, combine_two, finish)
