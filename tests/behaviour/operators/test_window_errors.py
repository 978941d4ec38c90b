"""Errors for windows that cannot be, when the dataflow is described."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run
from tidewheel.runtime.description.dataflow_description import description_of

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: tw.TumblingWindows(0), "length is greater than zero, it cannot be 0"),
        (lambda: tw.TumblingWindows(-1.5), "greater than zero"),
        (lambda: tw.TumblingWindows(timedelta()), "greater than zero"),
        (lambda: tw.TumblingWindows(float("nan")), "finite number"),
        (lambda: tw.TumblingWindows(float("inf")), "finite number"),
        (lambda: tw.TumblingWindows(True), "finite number"),
        (lambda: tw.TumblingWindows("5s"), "finite number, or a timedelta"),  # type: ignore[arg-type]
        (lambda: tw.TumblingWindows(HOUR, offset=5), "both as numbers or as timedeltas"),
        (lambda: tw.TumblingWindows(5, offset="noon"), "offset is a finite number"),  # type: ignore[arg-type]
        (lambda: tw.SlidingWindows(10, step=0), "step is greater than zero"),
        (lambda: tw.SlidingWindows(10, step=HOUR), "both as numbers or as timedeltas"),
        (lambda: tw.SlidingWindows(10, step=11), "leave gaps, and records in them would be lost"),
        (lambda: tw.SessionWindows(0), "gap is greater than zero"),
    ],
)
def test_windows_that_cannot_be(make: Callable[[], object], said: str) -> None:
    """Durations are positive and of one kind, and no time is in no window."""
    with pytest.raises(tw.GraphError, match=said):
        make()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"windows": 60}, "TumblingWindows, SlidingWindows or SessionWindows, not 60"),
        ({"key": None}, "a key is a function"),
        ({"key": 3}, "a key is a function"),
        ({"at": 3}, "at is a function of a record"),
        ({"lateness": -1}, "lateness is not negative"),
        ({"lateness": HOUR}, "both as numbers or as timedeltas"),
        ({"lateness": "1s"}, "lateness is a finite number"),
        ({"flush_at": "end"}, "flush_at is a time of the dataflow, where times are whole numbers from 0"),
        ({"start": int}, "go together"),
        ({"add": max}, "go together"),
        ({"combine": max}, "go together"),
        ({"start": 0, "add": max}, "start is a function, not 0"),
        ({"finish": "len"}, "finish is a function"),
        ({"at": None, "lateness": 1}, "no lateness"),
        ({"at": None, "flush_at": 1}, "no flush_at"),
        ({"at": None, "windows": tw.TumblingWindows(1.5)}, "last a number of epochs"),
        ({"at": None, "windows": tw.SessionWindows(HOUR)}, "last a number of epochs"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], said: str) -> None:
    """The error says what was given, and the description is as it was."""
    flow = tw.Dataflow("windows")
    records = flow.input("records")
    size = description_of(flow).size
    given = {"windows": tw.TumblingWindows(60), "key": lambda record: 0, "at": lambda record: 0, **arguments}
    with pytest.raises(tw.GraphError, match=said):
        records.window(given.pop("windows"), **given)
    assert description_of(flow).size == size


def test_epochs_have_to_be_integers_to_be_event_times() -> None:
    """With other times ``at`` says when a record happened, if they come one after the other."""
    numbers = tw.Dataflow("once", tw.progress.UnitDomain()).input("numbers")
    with raises(tw.GraphError):
        numbers.window(tw.TumblingWindows(5), key=lambda n: n, at=None)
    numbers.window(tw.TumblingWindows(5), key=lambda n: n, at=lambda n: n)


def test_an_add_that_returns_nothing_is_an_error() -> None:
    """A state that is forgotten would be a window that is lost."""

    def append(kept: list[int], number: int) -> Any:
        kept.append(number)

    def describe(stream: tw.Stream[int]) -> tw.Stream[Any]:
        return stream.window(tw.TumblingWindows(5), key=lambda n: 0, at=lambda n: n, start=list, add=append).results

    with raises(tw.JobError):
        run(describe, Case([(0, [1])]))


def test_a_combine_that_returns_nothing_is_an_error() -> None:
    """The records of both sessions would be lost."""

    def forget(one: list[int], other: list[int]) -> Any:
        one.extend(other)

    def describe(stream: tw.Stream[int]) -> tw.Stream[Any]:
        return stream.window(
            tw.SessionWindows(5),
            key=lambda n: 0,
            at=lambda n: n,
            lateness=9,
            start=list,
            add=lambda kept, n: [*kept, n],
            combine=forget,
        ).results

    with raises(tw.JobError):
        run(describe, Case([(0, [0, 8]), (1, [4])]))
