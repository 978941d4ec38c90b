"""Event times of windows: datetimes, with and without zones, timedeltas and columns; and what is none."""

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, ignore_others
from tests.kit.operators.window_oracle import Kind

HOUR = timedelta(hours=1)
NOON = datetime(2024, 5, 1, 12)  # noqa: DTZ001 - times without a zone are tried too


def results_of(kind: Kind, *epochs: Any, workers: int = 1, **arguments: Any) -> list[tw.types.WindowResult[Any]]:
    """Return all results, of one batch an epoch; a record is its own time unless ``at`` says more."""
    arguments = {"key": lambda record: "all", "at": lambda record: record, **arguments}
    flow = tw.Dataflow("windows")
    windowed = flow.input("records").window(kind, **arguments)
    windowed.results.capture("results")
    windowed.late.capture("late")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("records") as records:
            for epoch, batch in enumerate(epochs):
                records.advance_to(epoch)
                records.send(batch)
        job.wait(DEADLINE_S)
        assert not job.captured("late")
        return [result for captured in job.captured("results") for result in captured.batch]


def test_datetimes_are_counted_from_the_midnight_of_1970() -> None:
    """Windows of a day begin at midnight, those of a week where the offset says, before 1970 too."""
    old = datetime(1969, 12, 31, 23, 59)  # noqa: DTZ001
    days = results_of(tw.TumblingWindows(24 * HOUR), [NOON, NOON + 11 * HOUR, NOON + 12 * HOUR, old])
    assert [(result.start, len(result.value)) for result in days] == [
        (datetime(1969, 12, 31), 1),  # noqa: DTZ001
        (datetime(2024, 5, 1), 2),  # noqa: DTZ001
        (datetime(2024, 5, 2), 1),  # noqa: DTZ001
    ]
    (week,) = results_of(tw.TumblingWindows(timedelta(7), offset=timedelta(4)), [NOON])
    assert (week.start.weekday(), week.end - week.start) == (0, timedelta(7))


def test_times_of_any_zone_are_those_of_utc() -> None:
    """What is the same moment is the same, wherever it is said; the hour that comes twice in autumn is two hours."""
    noon = NOON.replace(tzinfo=UTC)
    elsewhere = noon.astimezone(timezone(timedelta(hours=-7)))
    (result,) = results_of(tw.SlidingWindows(HOUR, HOUR), [noon, elsewhere])
    assert result == ("all", noon, noon + HOUR, [noon, noon])
    berlin = ZoneInfo("Europe/Berlin")
    first, second = (datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=fold) for fold in (0, 1))
    results = results_of(tw.SessionWindows(HOUR / 2), [second, first])
    assert [result.start.hour for result in results] == [0, 1]
    assert len(results_of(tw.SessionWindows(2 * HOUR), [first], [second], workers=2)) == 1


def test_a_difference_can_be_an_event_time() -> None:
    """Timedeltas, as since the start of an experiment, are counted from zero."""
    results = results_of(tw.TumblingWindows(HOUR), [HOUR / 2, HOUR, 3 * HOUR / 2])
    assert [(result.start, len(result.value)) for result in results] == [(timedelta(), 1), (HOUR, 2)]


def test_numbers_of_any_type_are_event_times() -> None:
    """Numbers of NumPy and fractions lie in windows as plain ones do."""
    times = [3, 3.5, np.int64(4), np.float32(4.5), Fraction(9, 2)]
    (result,) = results_of(tw.TumblingWindows(10), times)
    assert (result.start, len(result.value)) == (0, 5)
    assert len(results_of(tw.TumblingWindows(0.5), times)) == 4


def test_times_of_numpy_and_pandas_are_event_times() -> None:
    """A datetime64 and a Timestamp are the datetimes that they say."""
    times = [NOON, np.datetime64(NOON, "s"), pd.Timestamp(NOON)]
    (result,) = results_of(tw.TumblingWindows(HOUR), times)
    assert (result.start, len(result.value)) == (NOON, 3)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_columns_of_arrow(unit: str) -> None:
    """Key and time are read from columns, of tables and record batches, with and without zones."""
    columns = {"who": ["ann", "bob", "ann"], "when": pa.array([NOON, NOON, NOON + HOUR], pa.timestamp(unit, "UTC"))}
    arguments: dict[str, Any] = {"key": "who", "at": "when", "finish": len, "workers": 2}
    results = results_of(tw.SessionWindows(2 * HOUR), pa.table(columns), pa.record_batch(columns), **arguments)
    assert sorted((result.key, result.value) for result in results) == [("ann", 4), ("bob", 2)]
    assert {result.start for result in results} == {NOON.replace(tzinfo=UTC)}


def test_fields_of_numpy() -> None:
    """Structured arrays have columns too, and a key may be made of several."""
    array = np.array([(1, 2, 5), (1, 3, 6), (1, 2, 7)], dtype=[("a", int), ("b", int), ("at", int)])
    results = results_of(tw.TumblingWindows(10), array, key=("a", "b"), at="at", finish=len)
    assert sorted((result.key, result.value) for result in results) == [((1, 2), 2), ((1, 3), 1)]


def test_floats_that_have_no_exact_sum_are_lost_nowhere() -> None:
    """Tenths are rounded at the borders of windows, and in one of them all the same."""
    times = [number / 10 for number in range(-300, 300)]
    assert sum(len(result.value) for result in results_of(tw.TumblingWindows(0.1), times)) == 600
    kept = {at for result in results_of(tw.SlidingWindows(0.3, step=0.1), times) for at in result.value}
    assert kept == set(times)
    assert {at for result in results_of(tw.SlidingWindows(0.3, step=0.3), times) for at in result.value} == set(times)


@pytest.mark.parametrize(
    ("kind", "time", "said"),
    [
        (tw.TumblingWindows(10), None, "no event time, but None"),
        (tw.TumblingWindows(10), float("nan"), "no event time, but nan"),
        (tw.TumblingWindows(10), float("inf"), "inf, which is no time"),
        (tw.TumblingWindows(10), np.float64("inf"), "inf, which is no time"),
        (tw.TumblingWindows(10), "12:00", "is to be a number"),
        (tw.TumblingWindows(10), True, "is to be a number"),
        (tw.TumblingWindows(10), NOON, "for datetimes give a timedelta"),
        (tw.SessionWindows(HOUR), 12, "is to be a datetime or a timedelta"),
        (tw.SessionWindows(HOUR), NOON.date(), "is to be a datetime or a timedelta"),
        (tw.SessionWindows(HOUR), pd.NaT, "no event time, but NaT"),
        (tw.SessionWindows(HOUR), np.datetime64("NaT"), "no event time, but None"),
    ],
)
def test_what_is_no_event_time_is_an_error_that_names_the_record(kind: Kind, time: Any, said: str) -> None:
    """A record without a time lies in no window, so the dataflow fails rather than lose it."""
    good = NOON if isinstance(kind, tw.SessionWindows) else 1
    with raises(tw.JobError) as error:
        results_of(kind, [("a", good)], [("a", good), ("the one", time)], at=lambda record: record[1])
    assert "the one" in str(error.value)
    assert said in str(error.value)


def test_times_with_and_without_a_zone_cannot_be_compared() -> None:
    """Nobody knows which comes first, so it is an error, within a batch and between batches."""
    with raises(tw.JobError):
        results_of(tw.TumblingWindows(HOUR), [NOON, NOON.replace(tzinfo=UTC)])
    with raises(tw.JobError):
        results_of(tw.TumblingWindows(HOUR), [NOON], [NOON.replace(tzinfo=UTC)])


def test_a_column_that_is_not_there_is_an_error() -> None:
    """It says which columns there are."""
    with raises(tw.JobError):
        results_of(tw.TumblingWindows(1), pa.table({"time": [1]}), key="time", at="at")


@pytest.mark.parametrize("offset", [None, 0.05, -0.3])
@pytest.mark.parametrize("length", [0.1, 0.3, 1.1, 1e-3, 60.0])
def test_floats_lie_in_the_window_that_they_come_in(length: float, offset: float | None) -> None:
    """Also at the borders, where a division is rounded."""
    borders = [number * length for number in range(-20, 300)]
    times = [time for border in borders for time in (border, np.nextafter(border, -9e9), np.nextafter(border, 9e9))]
    results = results_of(tw.TumblingWindows(length, offset), [float(time) for time in times])
    assert sum(len(result.value) for result in results) == len(times)
    for result in results:
        assert all(result.start <= time < result.end for time in result.value)


def test_what_comes_at_the_watermark_is_in_time() -> None:
    """0.5 is in the window that begins there, which the watermark 0.5 does not close."""
    (result,) = results_of(tw.TumblingWindows(0.1), [0.5], [0.5])
    assert (result.start, result.value) == (0.5, [0.5, 0.5])


def test_a_session_past_the_end_of_time_is_refused() -> None:
    """The error shows the record."""
    with raises(tw.JobError):
        results_of(tw.SessionWindows(HOUR), [NOON, datetime.max], at_most_ahead=timedelta.max)  # noqa: DTZ901


class Odd:
    """A record that nothing can be compared with."""

    def __init__(self, n: int) -> None:
        self.n = n


@pytest.mark.parametrize("kind", [tw.TumblingWindows(10), tw.SlidingWindows(10, 5), tw.SessionWindows(10)], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        str,
        lambda n: (n, "a"),
        lambda n: {"n": n, "m": None},
        lambda n: {"n": None if n == 3 else n},
        Odd,
        lambda n: math.nan if n % 2 else float(n),
        lambda n: (math.nan if n % 2 else float(n), n),
        lambda n: {"m": math.nan if n % 2 else float(n), "n": n},
    ],
    ids=["text", "tuples", "rows", "rows with nulls", "objects", "NaN", "tuples with NaN", "rows with NaN"],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_what_happened_at_one_time_is_in_order_of_content(kind: Kind, make: Any, workers: int) -> None:
    """However it came, and by way of whichever worker."""

    def values(order: list[int]) -> list[Any]:
        flow = tw.Dataflow("windows")
        flow.input("records").window(kind, key=lambda _: "all", at=lambda _: 0).results.capture("results")
        ignore_others(flow)
        with tw.run(flow, workers=workers, engine="local") as job:
            with job.input("records") as records:
                for number in order:
                    records.send([make(number)])
            job.wait(DEADLINE_S)
            results = [result for captured in job.captured("results") for result in captured.batch]
        return [[repr(getattr(record, "n", record)) for record in result.value] for result in results]

    assert values([1, 2, 3, 4]) == values([4, 3, 2, 1]) == values([3, 1, 4, 2]) != []
