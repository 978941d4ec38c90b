"""Records that happened too far in the future to be true: they are put aside, and move no watermark."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, operator_settings
from tests.kit.operators.window_oracle import Kind

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
KINDS: list[Kind] = [tw.TumblingWindows(MINUTE), tw.SlidingWindows(MINUTE, MINUTE / 2), tw.SessionWindows(MINUTE)]


def noon() -> datetime:
    return NOON


def windows_of(
    epochs: Sequence[Sequence[Any]], kind: Kind, workers: int = 1, **arguments: Any
) -> tuple[list[Any], list[tw.types.LateRecord[Any]]]:
    """Return the records in windows, in order, and what came out late; a record is its own event time."""
    flow = tw.Dataflow("windows")
    made = flow.input("times").window(kind, key=lambda at: at.minute % 2, at=lambda at: at, **arguments)
    made.results.flat_map(lambda window: window.value).capture("in windows")
    made.late.capture("late")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("times") as times:
            for epoch, batch in enumerate(epochs):
                times.advance_to(epoch)
                times.send(list(batch))
        job.wait(DEADLINE_S)
        assert not any(one.records_dropped for one in job.statistics().operators.values())
        found = [[row for captured in job.captured(name) for row in captured.batch] for name in ("in windows", "late")]
    return sorted(found[0]), found[1]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("far", [datetime(2037, 1, 1), datetime.max], ids=["2037", "the end of time"])  # noqa: DTZ001, DTZ901
def test_a_record_of_the_far_future_makes_no_other_late(kind: Kind, workers: int, far: datetime) -> None:
    """Where event times are datetimes that is so unless the user says more; the record itself is late."""
    now = datetime.now(UTC)
    epochs = [[now + minute * MINUTE] for minute in range(4)]
    epochs[1] += [far.replace(tzinfo=UTC)] if far.year < 9999 else [now + timedelta(days=9999)]
    in_windows, late = windows_of(epochs, kind, workers)
    assert sorted(set(in_windows)) == [now + minute * MINUTE for minute in range(4)]
    assert {one.record for one in late} == {epochs[1][1]}
    assert all(DAY <= one.watermark - now < DAY + MINUTE and one.at > one.watermark for one in late)


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_each_window_of_it_is_told_of(kind: Kind) -> None:
    """A record that is too far ahead comes out once for each window that it belongs to, as one that is late does."""
    far = NOON + 2 * DAY
    _, late = windows_of([[NOON, far]], kind, clock=noon)
    ends = {"TumblingWindows": [1.0], "SlidingWindows": [0.5, 1.0], "SessionWindows": [1.0]}[type(kind).__name__]
    assert sorted((one.end - far) / MINUTE for one in late) == ends
    assert {(one.key, one.at, one.record, one.watermark) for one in late} == {(0, far, far, NOON + DAY)}


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_windows_that_would_end_after_the_end_of_time(kind: Kind) -> None:
    """The last datetime there is does not fail a job: it is late, by windows that are that moment."""
    last = datetime.max.replace(tzinfo=UTC)
    in_windows, late = windows_of([[NOON], [last]], kind, clock=noon)
    assert set(in_windows) == {NOON}
    assert {one.record for one in late} == {last}
    assert all(one.end >= one.start for one in late)


@operator_settings()
@given(
    st.lists(st.lists(st.integers(-4000, 4000), max_size=4), min_size=1, max_size=5),
    st.integers(0, 3000),
    st.sampled_from(KINDS[:2]),
    st.sampled_from((1, 2)),
)
def test_the_others_are_as_if_it_had_not_come(minutes: list[list[int]], most: int, kind: Kind, workers: int) -> None:
    """Results and late records of all that is not too far ahead are those of a job that never sees the rest."""
    epochs = [[NOON + minute * MINUTE for minute in batch] for batch in minutes]
    fine = [[at for at in batch if at <= NOON + most * MINUTE] for batch in epochs]
    arguments: dict[str, Any] = {"clock": noon, "at_most_ahead": most * MINUTE}
    in_windows, late = windows_of(epochs, kind, workers, **arguments)
    expected, expected_late = windows_of(fine, kind, workers, at_most_ahead=timedelta.max)
    ahead = [one for one in late if one.watermark == NOON + most * MINUTE and one.at > one.watermark]
    assert in_windows == expected
    assert sorted(one for one in late if one not in ahead) == sorted(expected_late)
    assert {one.record for one in ahead} == {at for batch in epochs for at in batch} - {at for b in fine for at in b}


@pytest.mark.parametrize(
    ("clock", "times", "ahead"),
    [
        (None, [datetime.now(UTC) + timedelta(hours=20)], 0),
        (None, [datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=20)], 0),  # of any zone, so up to 14 hours off
        (noon, [NOON + DAY, NOON + DAY + MINUTE], 1),
        (noon, [(NOON + DAY).astimezone(timezone(timedelta(hours=9))), NOON + DAY + MINUTE], 1),
        (noon, [NAIVE + DAY, NAIVE + DAY + MINUTE], 1),
        (lambda: NAIVE, [NAIVE + DAY, NAIVE + DAY + MINUTE], 1),
        (lambda: NOON.astimezone().replace(tzinfo=None), [NOON + DAY, NOON + DAY + MINUTE], 1),
    ],
)
def test_clocks_and_event_times_with_and_without_a_zone(clock: Any, times: list[datetime], ahead: int) -> None:
    """A naive event time meets a naive clock as it is, and an aware one as one of UTC; a naive clock is local."""
    assert len(windows_of([times], tw.TumblingWindows(MINUTE), clock=clock)[1]) == ahead


def numbers_late(feed: list[Any], length: Any, **arguments: Any) -> list[Any]:
    flow = tw.Dataflow("numbers")
    made = flow.source("numbers", tw.IterableSource([[(0, feed)]])).window(
        tw.TumblingWindows(length), key=lambda _: 0, at=lambda n: n, **arguments
    )
    made.results.capture("results")
    made.late.map(lambda late: late.record).capture("late")
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        return [record for captured in job.captured("late") for record in captured.batch]


def test_numbers_and_timedeltas_have_no_limit_unless_one_is_given() -> None:
    """They may count from anywhere; a clock says where the present is."""
    assert numbers_late([1, 10**12], 60) == []
    assert numbers_late([MINUTE, 10**6 * DAY], MINUTE) == []
    assert numbers_late([1, 160, 161.5], 60, at_most_ahead=60, clock=lambda: 100) == [161.5]
    assert numbers_late([time.time(), 10**12], 60, at_most_ahead=3600, clock=time.time) == [10**12]
    assert numbers_late([DAY, 3 * DAY], MINUTE, at_most_ahead=DAY, clock=lambda: DAY) == [3 * DAY]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"at_most_ahead": 60}, "give a clock, such as clock=time.time"),
        ({"at_most_ahead": MINUTE}, "give both as numbers or as timedeltas"),
        ({"at_most_ahead": -1, "clock": time.time}, "at_most_ahead is not negative"),
        ({"at_most_ahead": "1 min"}, "at_most_ahead is a finite number"),
        ({"clock": 7}, "clock is a function that returns the present"),
        ({"at": None, "at_most_ahead": 1, "clock": time.time}, "no at_most_ahead, no clock"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(arguments: dict[str, Any], why: str) -> None:
    """As the operator is described, with the reason."""
    numbers = tw.Dataflow("flow").input("numbers")
    with pytest.raises(tw.GraphError, match=why):
        numbers.window(tw.TumblingWindows(60), **{"key": abs, "at": abs, **arguments})
    if arguments.get("at", 1) is not None:
        with pytest.raises(tw.GraphError, match=why):
            numbers.interval_join(numbers, abs, at=abs, within=(0, 9), **arguments)


def test_a_clock_of_another_kind_fails_the_job() -> None:
    """The error shows what the clock says, and an event time."""
    with raises(tw.JobError):
        windows_of([[NOON]], tw.TumblingWindows(MINUTE), clock=lambda: 7)
    with raises(tw.JobError):
        numbers_late([MINUTE], MINUTE, at_most_ahead=MINUTE)


def joined(sides: tuple[list[Any], list[Any]], make: Any, arguments: dict[str, Any]) -> dict[str, list[Any]]:
    """Join two sides, each with one batch an epoch; return pairs and late rows, as event times."""
    flow = tw.Dataflow("join")
    left, right = (
        flow.source(name, tw.IterableSource([list(enumerate(map(make, side)))]))
        for name, side in zip(("left", "right"), sides, strict=True)
    )
    made = left.interval_join(right, within=(-MINUTE, MINUTE), **arguments)
    for name in ("results", "late", "other_late"):
        getattr(made, name).capture(name)
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait(DEADLINE_S)
        return {
            name: sorted(
                tuple(row.values()) if isinstance(row, dict) else row
                for captured in job.captured(name)
                for row in (captured.batch.to_pylist() if isinstance(captured.batch, pa.Table) else captured.batch)
            )
            for name in ("results", "late", "other_late")
        }


@pytest.mark.parametrize("zone", [UTC, None])
def test_joins_put_records_of_the_future_aside(zone: Any) -> None:
    """On either side, of records and of rows of tables; the others are paired as if these had not come."""
    now, far = NOON.replace(tzinfo=zone), (NOON + 40 * DAY).replace(tzinfo=zone)
    sides = ([[now, far], [now + MINUTE]], [[now], [far, now + MINUTE]])
    records = {"on": lambda at: 0, "at": lambda at: at, "clock": noon}
    pairs = [(now, now), (now, now + MINUTE), (now + MINUTE, now), (now + MINUTE, now + MINUTE)]
    assert joined(sides, list, records) == {"results": pairs, "late": [far], "other_late": [far]}

    def table(times: list[datetime]) -> pa.Table:
        return pa.table({"k": [0] * len(times), "at": pa.array(times, pa.timestamp("us", "UTC" if zone else None))})

    columns: dict[str, Any] = {"on": "k", "at": "at", "clock": noon, "suffix": "2"}
    of_tables = joined(sides, table, columns)
    assert [(row[1], row[-1]) for row in of_tables["results"]] == pairs
    assert (of_tables["late"], of_tables["other_late"]) == ([(0, far)], [(0, far)])
    unlimited = joined(sides, table, {**columns, "at_most_ahead": timedelta.max})
    assert unlimited["late"] == [(0, now + MINUTE)], "of the watermark that the far one has moved"


def test_a_job_that_goes_on_from_a_snapshot_reads_the_clock_again(tmp_path: Path) -> None:
    """As the page on windows says: what was too far ahead may be in time by then; what was in time still is."""

    def run(now: datetime, number: int) -> list[datetime]:
        flow = tw.Dataflow("again")
        made = flow.input("times").window(
            tw.TumblingWindows(MINUTE), key=lambda _: 0, at=lambda at: at, clock=partial(lambda at: at, now), finish=len
        )
        made.results.probe("done").ignore()
        made.late.map(lambda one: one.record).capture("late")
        with tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path)) as job:
            times = job.input("times")
            if number == 0:
                job.snapshot()
            times.advance_to(1)
            times.send([NOON, NOON + 2 * DAY])
            times.close()
            job.wait(DEADLINE_S)
            return [at for captured in job.captured("late") for at in captured.batch]

    assert run(NOON, 0) == [NOON + 2 * DAY]
    assert run(NOON + DAY, 1) == []
