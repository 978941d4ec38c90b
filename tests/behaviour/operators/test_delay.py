"""The delay operator."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.harness import KINDS, Case, run, settle
from tests.kit.operators.operator_case import number_of


def later(number: int, time: int) -> int:
    """Return when a number is due."""
    return time + number % 5


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_records_for_one_time_stay_together(kind: Any) -> None:
    """A batch is divided by times, each part in order and of the same kind; one that stays whole is the same object."""
    case = Case([(0, [3, 1, 8, 6]), (1, [5, 0])], kind)
    results = run(lambda stream: stream.delay(lambda record, time: later(number_of(record), time)), case)
    found = {result.time: result.batch for result in results if result.time != 1}
    assert {type(batch) for batch in found.values()} == {type(kind.make([]))}
    assert [number_of(row) for row in rows(found[3])] == [3, 8]
    assert sorted(number_of(row) for result in results if result.time == 1 for row in rows(result.batch)) == [
        0,
        1,
        5,
        6,
    ]


def rows(batch: Any) -> Any:
    return batch.to_pylist() if hasattr(batch, "to_pylist") else batch


def test_nothing_is_held_back() -> None:
    """A record goes on at once at its later time, while times before it go on being open, and later ones too."""
    flow = tw.Dataflow("test")
    flow.input("numbers").delay(lambda number, time: time + number).capture("results").probe("end")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([4])
        settle(job)
        assert [(result.time, result.batch) for result in job.captured("results")] == [(4, [4])]
        assert set(job.probe("end").frontier) == {0}
        job.input("numbers").advance_to(9)
        settle(job)
        assert set(job.probe("end").frontier) == {9}
        job.stop()


def test_times_within_a_loop() -> None:
    """Inside a loop, times are (t, round); a record may be moved to a later round of its epoch, or of another."""

    def describe(stream: tw.Stream[int]) -> tw.Stream[int]:
        with stream.flow.scope("loop") as loop:
            return stream.enter(loop).delay(lambda number, time: (time[0] + 1, time[1] + number))

    results = run(describe, Case([(2, [5])]))
    assert [(result.time, result.batch) for result in results] == [((3, 5), [5])]


@pytest.mark.parametrize(
    ("time", "said"),
    [(6, "a time only moves forward"), *((time, "that is no time here") for time in (-1, (8, 0), [8], 8.0, None))],
)
def test_a_time_that_is_not_later_is_an_error(time: Any, said: str) -> None:
    """The error shows the record, its time and what the function returned; a time is a time of the stream's scope."""
    with pytest.raises(tw.JobError, match=rf"'delay' failed on worker 0 at time 7: .*at time 7: {said}.* for 'x'"):
        run(lambda stream: stream.map(lambda _: "x").delay(lambda record, _: time), Case([(7, [1])]))
