"""Interval join: pairs of records that happened near each other, over all epochs; late ones come out apart."""

import pickle
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Bags, operator_settings
from tests.kit.operators.two_sides import NAN, WORKERS, run_two
from tidewheel.operators.joins.interval_join import Interval, IntervalJoin, Kept, TimedRecords
from tidewheel.operators.joins.interval_table_join import IntervalTableJoin
from tidewheel.operators.joins.join_keys import make_keys
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.windows.watermark import Watermark


class Event(NamedTuple):
    """A record with a key, when it happened, and a number that tells it from others."""

    key: Any
    at: Any
    number: int


Events = list[tuple[int, list[Event]]]


@st.composite
def event_feeds(draw: st.DrawFn) -> Events:
    """Events of few keys, in any order of event times, in any split into batches and epochs."""
    events = st.tuples(st.sampled_from([1, 2, None, NAN]), st.integers(0, 20))
    time, number, feed = 0, 0, []
    for step, batch in draw(st.lists(st.tuples(st.integers(0, 2), st.lists(events, max_size=4)), max_size=8)):
        time += step
        feed.append((time, [Event(key, at, number + place) for place, (key, at) in enumerate(batch)]))
        number += len(batch)
    return feed


def split_late(feed: Events, lateness: int) -> tuple[Events, Events]:
    """Return what is in time and what is late: before the greatest event time of earlier epochs, less the lateness."""
    in_time, late = [], []
    for time, events in feed:
        before = [event.at for earlier, batch in feed if earlier < time for event in batch]
        watermark = max(before) - lateness if before else -100
        in_time.append((time, [event for event in events if event.at >= watermark]))
        late.append((time, [event for event in events if event.at < watermark]))
    return in_time, late


def events_at(feed: Events) -> Bags:
    found: Bags = {}
    for time, events in feed:
        found.setdefault(time, Counter()).update(event.number for event in events)
    return {time: bag for time, bag in found.items() if bag}


def near(left: Events, right: Events, lower: int, upper: int) -> Bags:
    """Return the numbers of the pairs by their definition, at the later time of the two."""
    found: Bags = {}
    for time, event in [(time, event) for time, events in left for event in events]:
        for other_time, other in [(time, event) for time, events in right for event in events]:
            if event.key == other.key is not None and lower <= other.at - event.at <= upper:
                found.setdefault(max(time, other_time), Counter())[event.number, other.number] += 1
    return found


def numbers(results: list[tw.types.Captured], read: Callable[[Any], Any]) -> Bags:
    """Return what ``read`` finds in the records of results, by time."""
    found: Bags = {}
    for result in results:
        rows = result.batch.to_pylist() if isinstance(result.batch, pa.Table) else result.batch
        found.setdefault(result.time, Counter()).update(map(read, rows))
    return found


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


BOUNDS = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(lambda ends: (min(ends), max(ends)))
LATENESS = st.one_of(st.none(), st.integers(0, 6))
CLOCKS: list[tuple[Callable[[int], Any], Callable[[float], Any]]] = [
    (int, int),
    (lambda at: at / 2, lambda duration: duration / 2),
    (lambda at: datetime(2024, 1, 1) + minutes(at), minutes),  # noqa: DTZ001 - a time of no zone
    (lambda at: datetime(2024, 1, 1, tzinfo=UTC) + minutes(at), minutes),
    (minutes, minutes),
]


@operator_settings(100)
@given(event_feeds(), event_feeds(), BOUNDS, LATENESS, st.sampled_from(CLOCKS), WORKERS)
def test_what_comes_in_time_meets_all_its_partners(
    left: Events, right: Events, within: tuple[int, int], lateness: int | None, clock: Any, workers: int
) -> None:
    """Each pair of records in time comes once, and each late record once: nothing is lost, on any number of workers."""
    to_time, to_duration = clock
    length = (to_duration(within[0]), to_duration(within[1]))
    late = None if lateness is None else to_duration(lateness)

    def describe(one: tw.Stream[Any], other: tw.Stream[Any]) -> Any:
        joined = one.interval_join(other, lambda e: e.key, at=lambda e: to_time(e.at), within=length, lateness=late)
        return joined.results, joined.late, joined.other_late

    results, lefts, rights = run_two(describe, (left, right), workers)  # type: ignore[arg-type]
    (left_in_time, left_late), (right_in_time, right_late) = (split_late(feed, lateness or 0) for feed in (left, right))
    assert numbers(results, lambda pair: (pair[0].number, pair[1].number)) == near(left_in_time, right_in_time, *within)
    assert numbers(lefts, lambda event: event.number) == events_at(left_late)
    assert numbers(rights, lambda event: event.number) == events_at(right_late)


def events_table(at: Callable[[int], Any], kind: pa.DataType, number: str) -> Any:
    def make(events: list[Event]) -> Any:
        return pa.table(
            {
                "k": pa.array([event.key for event in events], pa.float64()),
                f"{number}_at": pa.array([at(event.at) for event in events], kind),
                number: pa.array([event.number for event in events], pa.int64()),
            }
        )

    return make


COLUMN_CLOCKS: list[tuple[Callable[[int], Any], pa.DataType, pa.DataType, Callable[[float], Any]]] = [
    (int, pa.int64(), pa.uint8(), int),
    (lambda at: at / 2, pa.float64(), pa.float32(), lambda duration: duration / 2),
    (lambda at: datetime(2024, 1, 1) + minutes(at), pa.timestamp("us"), pa.timestamp("s"), minutes),  # noqa: DTZ001
    (
        lambda at: datetime(2024, 1, 1, tzinfo=UTC) + minutes(at),
        pa.timestamp("ns", "UTC"),
        pa.timestamp("ms", "Europe/Berlin"),
        minutes,
    ),
    (lambda at: date(2024, 1, 1) + timedelta(days=at), pa.date32(), pa.date64(), lambda days: timedelta(days=days)),
    (minutes, pa.duration("ms"), pa.duration("us"), minutes),
]


@operator_settings(100)
@given(event_feeds(), event_feeds(), BOUNDS, LATENESS, st.sampled_from(COLUMN_CLOCKS), WORKERS)
def test_rows_in_time_meet_all_their_partners(
    left: Events, right: Events, within: tuple[int, int], lateness: int | None, clock: Any, workers: int
) -> None:
    """The same for tables, with event times of all types, also different ones on both sides."""
    at, kind, other_kind, to_duration = clock

    def describe(one: tw.Stream[Any], other: tw.Stream[Any]) -> Any:
        joined = one.interval_join(
            other,
            "k",
            at="l_at",
            other_at="r_at",
            within=(to_duration(within[0]), to_duration(within[1])),
            lateness=None if lateness is None else to_duration(lateness),
        )
        return joined.results, joined.late, joined.other_late

    make: Any = (events_table(at, kind, "l"), events_table(at, other_kind, "r"))
    results, lefts, rights = run_two(describe, (left, right), workers, make)  # type: ignore[arg-type]
    assert all(isinstance(result.batch, pa.Table) for result in results + lefts + rights)
    (left_in_time, left_late), (right_in_time, right_late) = (split_late(feed, lateness or 0) for feed in (left, right))
    assert numbers(results, lambda row: (row["l"], row["r"])) == near(left_in_time, right_in_time, *within)
    assert numbers(lefts, lambda row: row["l"]) == events_at(left_late)
    assert numbers(rights, lambda row: row["r"]) == events_at(right_late)


def batches(*parts: Any) -> list[list[Any]]:
    return [[part] if len(part) else [] for part in parts]


def table_join(left: str, right: str, interval: Interval, lateness: int, suffix: str = "") -> IntervalTableJoin:
    columns = JoinedColumns(make_keys("test", "k", None), suffix)
    return IntervalTableJoin(columns, [left, right], interval, lateness)


def kept_at_first(lateness: int) -> Kept:
    """Return what an interval join of records keeps before the first epoch."""
    return Kept(TimedRecords({}), TimedRecords({}), Watermark(lateness), Watermark(lateness))


def test_records_without_partners_to_come_are_dropped() -> None:
    """What is kept does not grow with the stream, only with what the interval spans; it can be pickled."""
    join = IntervalJoin(Interval(-2, 3), lateness=1)
    kept = kept_at_first(1)
    most = 0
    for time in range(2000):
        events = [(key, time, (key, time)) for key in range(10)]
        found, late, other_late = join.process(kept, batches(events, events, [time], [time]), None)
        assert (late, other_late) == ([[]], [[]])
        assert len(next(iter(found))) == 10 * (1 + min(time, 2) + min(time, 3))
        most = max(most, kept.lefts.count, kept.rights.count)
        kept = pickle.loads(pickle.dumps(kept)) if time % 500 == 0 else kept
    assert most < 1500
    assert kept.lefts.count == sum(map(len, kept.lefts.by_key.values()))


def test_rows_without_partners_to_come_are_dropped() -> None:
    """Of tables no row is kept that nothing in time can match."""
    join = table_join("a", "b", Interval(-2, 3), 1)
    kept: Any = join.start()
    for time in range(50):
        left, right = pa.table({"k": [1, 2], "a": [time, time]}), pa.table({"k": [1, 2], "b": [time, time]})
        join.process(kept, batches(left, right, [time], [time]), None)
        assert len(kept.lefts.rows) <= 2 * 5
        assert len(kept.rights.rows) <= 2 * 4
    assert pickle.loads(pickle.dumps(kept)).lefts.rows == kept.lefts.rows


MANY = [("other", 3, number) for number in range(3000)]
"""Records that make it worth looking for those that are not needed any more."""


def test_the_last_partner_that_may_come_is_waited_for() -> None:
    """What is kept reaches just as far as what is in time: a record at the watermark meets all of its partners."""
    join = IntervalJoin(Interval(1, 5), 0)
    kept = kept_at_first(0)
    join.process(kept, batches([("k", 0, "l"), *MANY], [("k", 1, "r"), ("k", 5, "s"), *MANY], [0], [5]), None)
    assert kept.lefts.needed
    assert kept.rights.needed
    ((found,), *late) = join.process(kept, batches([("k", 0, "m")], [("k", 5, "t")], [0], [5]), None)
    assert late == [[[]], [[]]]
    assert sorted(found) == [("l", "t"), ("m", "r"), ("m", "s"), ("m", "t")]


def test_the_last_partner_in_a_table_is_waited_for() -> None:
    """The same for tables."""

    def events(*rows: tuple[int, str]) -> pa.Table:
        return pa.table({"k": [1] * len(rows), "at": [at for at, _ in rows], "name": [name for _, name in rows]})

    join = table_join("at", "at", Interval(1, 5), 0, "_2")
    kept = join.start()
    join.process(kept, batches(events((0, "l")), events((1, "r"), (5, "s")), [0], [5]), None)
    found, *_ = join.process(kept, batches(events((0, "m")), events((5, "t")), [0], [5]), None)
    pairs = sorted((row["name"], row["name_2"]) for table in found for row in table.to_pylist())
    assert pairs == [("l", "t"), ("m", "r"), ("m", "s"), ("m", "t")]


def test_a_side_that_is_behind_is_waited_for() -> None:
    """Records are kept for partners of a side that has come less far; that one's own watermark says what is late."""

    def describe(one: tw.Stream[Any], other: tw.Stream[Any]) -> Any:
        joined = one.interval_join(other, lambda e: e.key, at=lambda e: e.at, within=(0, 1))
        return joined.results, joined.other_late

    left: Any = [(0, [Event("a", 10, 1)]), (1, [Event("a", 10_000, 2)])]
    right: Any = [(2, [Event("a", 11, 3)]), (3, [Event("a", 10, 4)])]
    results, late = run_two(describe, (left, right), 2)
    assert [(result.time, result.batch) for result in results] == [(2, [(left[0][1][0], right[0][1][0])])]
    assert [(result.time, result.batch) for result in late] == [(3, right[1][1])]


BIG: list[tuple[Callable[[int], Any], pa.DataType, Any, Any]] = [
    (int, pa.int64(), (0, 2**63 - 1), None),
    (int, pa.int64(), (-(2**70), 2**70), 2**70),
    (lambda at: 2**63 - 10 + at, pa.int64(), (-3, 100), 3),
    (lambda at: at - 2**63, pa.int64(), (-100, 3), 2**63),
    (lambda at: datetime(2020, 1, 1) + minutes(at), pa.timestamp("ns"), (minutes(0), timedelta(200_000)), None),  # noqa: DTZ001
    (minutes, pa.duration("ns"), (-timedelta(200_000), minutes(3)), timedelta(200_000)),
]


@pytest.mark.parametrize(("to_time", "kind", "within", "lateness"), BIG)
def test_distances_may_go_beyond_the_type(to_time: Any, kind: pa.DataType, within: Any, lateness: Any) -> None:
    """Without an end, in effect: columns give what functions give, and nothing goes round."""
    left: Events = [(0, [Event(1, 5, 0), Event(1, 9, 1)]), (1, [Event(1, 2, 2), Event(2, 0, 3)])]
    right: Events = [(0, [Event(1, 7, 0)]), (1, [Event(1, 6, 1)]), (2, [Event(2, 1, 2), Event(1, 3, 3)])]

    def by_functions(one: tw.Stream[Any], other: tw.Stream[Any]) -> Any:
        at = lambda e: to_time(e.at)  # noqa: E731
        joined = one.interval_join(other, lambda e: e.key, at=at, within=within, lateness=lateness)
        return joined.results, joined.late, joined.other_late

    def by_columns(one: tw.Stream[Any], other: tw.Stream[Any]) -> Any:
        joined = one.interval_join(other, "k", at="l_at", other_at="r_at", within=within, lateness=lateness)
        return joined.results, joined.late, joined.other_late

    pairs, lefts, rights = run_two(by_functions, (left, right), 2)  # type: ignore[arg-type]
    make: Any = (events_table(to_time, kind, "l"), events_table(to_time, kind, "r"))
    rows, late, other_late = run_two(by_columns, (left, right), 2, make)  # type: ignore[arg-type]
    assert pairs
    assert numbers(rows, lambda row: (row["l"], row["r"])) == numbers(pairs, lambda p: (p[0].number, p[1].number))
    assert numbers(late, lambda row: row["l"]) == numbers(lefts, lambda event: event.number)
    assert numbers(other_late, lambda row: row["r"]) == numbers(rights, lambda event: event.number)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"within": 3}, r"'interval_join': within is \(lower, upper\), two distances in time, not 3"),
        ({"within": (3, 1)}, r"within=\(3, 1\) has its lower end first"),
        ({"within": (0, "1")}, "an end of within is a finite number, or a timedelta where times are datetimes"),
        ({"within": (0, timedelta(1))}, "are all numbers or all timedeltas"),
        ({"within": (0, 1), "lateness": timedelta(1)}, "are all numbers or all timedeltas"),
        ({"within": (0, 1), "lateness": -1}, "lateness is not negative, it cannot be -1"),
        ({"within": (0, 1), "suffix": "_2"}, "suffix='_2' is for names of columns; functions make pairs"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: Any, message: str) -> None:
    """What is wrong is said when the dataflow is described."""
    stream: Any = tw.Dataflow("test").input("numbers")
    with pytest.raises(tw.GraphError, match=message):
        stream.interval_join(stream, len, at=len, **arguments)


def test_it_is_refused_where_it_cannot_work() -> None:
    """By names event times stand in columns; in loops there is no order of epochs; streams are of one scope."""
    flow = tw.Dataflow("test")
    stream: Any = flow.input("numbers")
    with raises(tw.GraphError):
        stream.interval_join(stream, "k", at=len, within=(0, 1))
    inner = stream.enter(flow.scope("loop"))
    with raises(tw.GraphError):
        inner.interval_join(inner, len, at=len, within=(0, 1))
    with raises(tw.GraphError):
        stream.interval_join(inner, len, at=len, within=(0, 1))


@pytest.mark.parametrize(
    ("kind", "at", "within", "message"),
    [
        (pa.int64(), None, (0, 1), "a row has no event time: column 'l_at' is null or not finite"),
        (pa.float64(), NAN, (0, 1), "a row has no event time: column 'l_at' is null or not finite"),
        (pa.uint64(), 2**63, (0, 1), "column 'l_at' of uint64 has event times beyond int64: cast it to float64 before"),
        (pa.string(), "a", (0, 1), "column 'l_at' of string has no event times: where distances are 0 it has numbers"),
        (pa.int64(), 1, (minutes(0), minutes(1)), "column 'l_at' of int64 has no event times: .* it has timestamps"),
    ],
)
def test_rows_without_an_event_time_are_an_error(kind: Any, at: Any, within: Any, message: str) -> None:
    """The error says which column it is about, and what it is to have."""
    feeds: Any = ([(0, [Event(1, at, 1)])], [])
    make: Any = (events_table(lambda at: at, kind, "l"), list)
    with pytest.raises(tw.JobError, match=message):
        run_two(
            lambda one, other: [one.interval_join(other, "k", at="l_at", other_at="r_at", within=within).results],
            feeds,
            make=make,
        )


def test_times_with_and_without_a_zone_do_not_mix() -> None:
    """Event times that Python could not compare are an error for columns too."""
    feeds: Any = ([(0, [Event(1, 1, 1)])], [(0, [Event(1, 1, 1)])])
    make: Any = (events_table(int, pa.timestamp("s"), "l"), events_table(int, pa.timestamp("s", "UTC"), "r"))
    with raises(tw.JobError):
        run_two(
            lambda one, other: [
                one.interval_join(other, "k", at="l_at", other_at="r_at", within=(minutes(0), minutes(1))).results
            ],
            feeds,
            make=make,
        )
