"""Stateful map: a result for each record that depends on the records of its key before."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run
from tests.kit.operators.operator_case import number_of
from tests.laws.domains import BITEMPORAL, Bitemporal


def step(last: int, record: Any) -> tuple[int, tuple[int, int]]:
    number = number_of(record)
    return number, (number, number - last)


def zero() -> int | None:
    return 0


def test_records_that_are_equal_in_order_do_not_depend_on_how_they_came() -> None:
    """Their content decides which is first, on any number of workers."""
    events = [("b", 1), ("a", 1), ("c", 0), ("d", 1), ("e", 0)]

    def take_down(state: tuple[str, ...], event: tuple[str, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (*state, event[0]), (*state, event[0])

    found = set()
    for turn in range(len(events)):
        turned = events[turn:] + events[:turn]
        for workers in (1, 2):
            flow = tw.Dataflow("test")
            source = tw.IterableSource([[(0, turned[:2])], [(0, turned[2:])]])
            stream = flow.source("events", source)
            stream.stateful_map(lambda event: 0, start=tuple, step=take_down, order=lambda event: event[1]).capture(
                "results"
            )
            with tw.run(flow, workers=workers, engine="local") as job:
                job.wait()
                ((*_, last),) = [result.batch for result in job.captured("results")]
            found.add(last)
    (order,) = found
    assert set(order[:2]) == {"c", "e"}


COUNTS = (1, 1, 1, 4, 5)


def test_a_state_of_none_is_forgotten() -> None:
    """The key's next record begins anew, in the same epoch too, and nothing is kept for it."""

    def until_three(state: int | None, number: int) -> tuple[int | None, int]:
        assert state is not None, "each beginning is made"
        return (None if state == 2 else state + 1), state

    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(time, [7] * count) for time, count in enumerate(COUNTS)]]))
    numbers.stateful_map(lambda n: n, start=zero, step=until_three).capture("results")
    with tw.run(flow, engine="local") as job:
        (instance,) = (
            instance
            for core in job._cores  # type: ignore[attr-defined]
            for instance in core._instances
            if instance.name == "stateful_map"
        )
        job.wait()
        results = [result for found in job.captured("results") for result in found.batch]
        assert results == [0, 1, 2] * 4
        assert instance.kept.by_key == {"kept": {}}
        assert instance.kept.states == {"epochs": {}}


def test_rows_are_ordered_by_columns() -> None:
    """Arrow's records are dicts, ordered by a name or several."""
    table = pa.table({"k": ["a", "a", "a"], "at": [3, 1, 2], "n": [0, 1, 1]})

    def note(state: list[int], row: dict[str, Any]) -> tuple[list[int], tuple[int, ...]]:
        return [*state, row["at"]], (*state, row["at"])

    for order, expected in (("at", (1, 2, 3)), (("n", "at"), (3, 1, 2))):
        flow = tw.Dataflow("test")
        rows = flow.source("rows", tw.IterableSource([[(0, table)]]))
        rows.stateful_map("k", start=list, step=note, order=order).capture("results")
        with tw.run(flow, engine="local") as job:
            job.wait()
            assert [result.batch[-1] for result in job.captured("results")] == [expected]


def test_times_that_are_in_no_order_are_processed_as_they_complete() -> None:
    """A time of a user's domain comes after all that are less, and needs not wait for others."""
    flow = tw.Dataflow("test", BITEMPORAL)
    times = [Bitemporal(0, 2), Bitemporal(1, 0), Bitemporal(1, 1), Bitemporal(2, 2)]
    source = tw.IterableSource([[(time, [time])] for time in times])
    seen = flow.source("times", source).stateful_map(
        lambda time: 0, start=list, step=lambda past, time: ([*past, time], (past, time))
    )
    seen.capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        ((past, last),) = (
            record for result in job.captured("results") for record in result.batch if result.time == times[-1]
        )
    assert (set(past), last) == (set(times[:-1]), times[-1])
    assert past.index(times[1]) < past.index(times[2])


@pytest.mark.parametrize("returned", [None, 7, (1,), (1, 2, 3), [1, 2]])
def test_a_step_that_returns_no_pair_is_an_error(returned: Any) -> None:
    """The error names operator and time, and shows what was returned for which record of which key."""
    message = (
        r"operator 'stateful_map' failed on worker 0 at time 3: TypeError: step must return a pair .*, not .*, for"
    )
    with pytest.raises(tw.JobError, match=message + " the record 5 of the key 'odd'"):
        run(
            lambda stream: stream.stateful_map(lambda n: "odd", start=int, step=lambda s, n: returned), Case([(3, [5])])
        )


def test_a_key_that_cannot_be_one_is_named() -> None:
    """The error names the operator, and says what a key can be."""
    with raises(tw.JobError):
        run(lambda stream: stream.stateful_map(lambda n: [n], start=int, step=lambda s, n: (s, n)), Case([(0, [5])]))


def test_names_order_structured_arrays_and_tables() -> None:
    """By their columns, in which there may be nulls."""
    array = np.array([(1, 7), (1, 5), (2, 3)], dtype=[("k", "i8"), ("n", "i8")])
    table = pa.table({"k": [1, 1, 2], "n": [None, 5, 3]})
    for batch, expected in ((array, [(1, 5), (2, 7), (1, 3)]), (table, [(1, 5), (2, None), (1, 3)])):
        flow = tw.Dataflow("test")
        rows = flow.source("rows", tw.IterableSource([[(0, batch)]]))
        numbered = rows.stateful_map("k", start=int, step=lambda n, row: (n + 1, (n + 1, row)), order="n")
        numbered.capture("results")
        with tw.run(flow, engine="local") as job:
            job.wait()
            found = [pair for result in job.captured("results") for pair in result.batch]
        numbers = [(place, row["n"] if isinstance(row, dict) else row[1]) for place, row in found]
        assert sorted(numbers, key=str) == sorted(expected, key=str)
