"""Substreams that end by themselves, when nothing of them has happened for some event time."""

import pickle
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.behaviour.operators.test_substreams import assert_nothing_left, seen_by
from tests.behaviour.operators.test_window import epochs
from tests.kit.operators.harness import DEADLINE_S, Bags, Feed, operator_settings, settle
from tests.kit.operators.operator_case import ONLY_ARROW, OperatorCase, by_time, number_of
from tests.kit.operators.time_out_oracle import Ended, expected_substreams
from tests.kit.operators.window_oracle import Event
from tidewheel.operators.substreams.time_out import Deadlines

# ---------------------------------------------------------------------- for test_every_operator


def _key(record: Any) -> int:
    return number_of(record) % 5


def _numbers(key: int, rows: list[Any]) -> tuple[int, tuple[int, ...]]:
    return key, tuple(sorted(map(number_of, rows)))


def _expected(keys: int, timeout: int, lateness: int) -> Any:
    def expected(feed: Feed) -> Bags:
        events = {t: [Event(number % keys, number, number) for number in found] for t, found in by_time(feed).items()}
        found: Bags = {}
        for epoch, key, numbers in expected_substreams(events, timeout, lateness):
            found.setdefault(epoch, Counter())[key, numbers] += 1
        return found

    return expected


CASES = [
    OperatorCase(
        "substreams",
        lambda stream: stream.substreams("timed", _key, at=number_of, timeout=4).collect_substream(_numbers),
        _expected(5, timeout=4, lateness=0),
        name="time-out",
    ),
    OperatorCase(
        "substreams",
        lambda stream: (
            stream.rebalance()
            .substreams("timed by column", lambda row: 0, at="n", timeout=2, lateness=3)
            .collect_substream(_numbers)
        ),
        _expected(1, timeout=2, lateness=3),
        kinds=ONLY_ARROW,
        name="time-out by column",
    ),
]


# ---------------------------------------------------------------------- any events at all


def _in_order(key: int, events: list[Event]) -> tuple[int, tuple[int, ...]]:
    return key, tuple(sorted(event.number for event in events))


def _found(job: tw.Job, name: str) -> list[Ended]:
    return sorted((entry.time, *row) for entry in job.captured(name) for row in entry.batch)


def assert_no_state_left(job: tw.Job) -> None:
    """See that a job of the local engine keeps nothing of any substream or record."""
    assert_nothing_left(job)
    for core in job._cores:  # type: ignore[attr-defined]
        for instance in core._instances:
            assert not any(notificator.tokens for notificator in instance.kept.notificators)
            for state in instance.kept.states.values():
                if hasattr(state, "deadlines"):
                    assert not state.waiting
                    assert not state.watermark.greatest
                    assert not state.deadlines._by_key
                    assert not state.deadlines._heap
                else:
                    assert not state


def _go_round(laps: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    moved = laps.exchange(lambda lap: sum(lap[1:])).map(lambda lap: (lap[0], lap[1], lap[2] - 1))
    return moved.filter(lambda lap: lap[2] > 0), moved.filter(lambda lap: lap[2] == 0)


def _laps(events: tw.Stream[Any]) -> tw.Stream[Any]:
    return events.map(lambda e: (e, e.number, e.number % 4 + 1)).iterate(_go_round).map(lambda lap: lap[0])


WAYS: dict[str, Callable[[tw.Stream[Any]], tw.Stream[Any]]] = {
    "straight": lambda events: events,
    "to another worker": lambda events: events.exchange(lambda e: e.number),
    "round a loop": _laps,
}
"""The ways of records to the operator that tells what belongs together."""


@operator_settings(150)
@given(
    epochs(), st.integers(1, 16), st.integers(0, 8), st.integers(1, 3), st.integers(1, 9), st.sampled_from(list(WAYS))
)
def test_substreams_are_those_of_plain_python(
    given_epochs: dict[int, list[Event]],
    timeout: int,
    lateness: int,
    workers: int,
    in_batches_of: int,
    way: str,
) -> None:
    """On any number of workers, right from an input, however records are sent and wherever they go behind it.

    In the end nothing is kept.
    """
    flow = tw.Dataflow("timed")
    timed = flow.input("events").substreams(
        "timed", lambda e: e.key, at=lambda e: e.at, timeout=timeout / 2, lateness=lateness
    )
    WAYS[way](timed).collect_substream(_in_order).capture("substreams")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("events") as handle:
            for epoch, events in given_epochs.items():
                handle.advance_to(epoch)
                for begin in range(0, len(events), in_batches_of):
                    handle.send(events[begin : begin + in_batches_of])
        job.wait(DEADLINE_S)
        assert _found(job, "substreams") == expected_substreams(given_epochs, timeout / 2, lateness)
        assert_no_state_left(job)


@operator_settings(100)
@given(epochs(), st.integers(1, 16), st.integers(0, 8), st.integers(1, 3), st.integers(0, 30))
def test_a_record_of_the_future_happened_at_the_greatest_time_so_far(
    given_epochs: dict[int, list[Event]], timeout: int, lateness: int, workers: int, now: int
) -> None:
    """Whichever records are ahead of the clock, the substreams are those of records with that time instead."""
    first = {-1: [Event(99, -20, -1)]}  # so that there is a greatest time
    by_epoch = {epoch + 1: events for epoch, events in (first | given_epochs).items()}
    flow = tw.Dataflow("ahead")
    timed = flow.input("events").substreams(
        "timed",
        lambda e: e.key,
        at=lambda e: e.at,
        timeout=timeout / 2,
        lateness=lateness,
        at_most_ahead=2,
        clock=lambda: now - 2,
    )
    timed.collect_substream(_in_order).capture("substreams")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("events") as handle:
            for epoch, events in by_epoch.items():
                handle.advance_to(epoch)
                handle.send(events)
        job.wait(DEADLINE_S)
        found = _found(job, "substreams")
        assert_no_state_left(job)
    expected: dict[int, list[Event]] = {}
    greatest: Any = -20
    for epoch, events in by_epoch.items():
        greatest = max([greatest, *(event.at for event in events if event.at <= now)])
        expected[epoch] = [event._replace(at=min(event.at, greatest)) for event in events]
    assert found == expected_substreams(expected, timeout / 2, lateness)


@st.composite
def epochs_with_ends(draw: st.DrawFn) -> tuple[dict[int, list[Event]], set[int]]:
    """Epochs, and the numbers of events that are the last of their substreams, none with its key behind it."""
    found = draw(epochs())
    last = {(epoch, event.key): event.number for epoch, events in found.items() for event in events}
    return found, {number for number in last.values() if draw(st.booleans())}


@operator_settings(80)
@given(epochs_with_ends(), st.integers(1, 12), st.integers(0, 8), st.integers(1, 3), st.booleans())
def test_ends_may_be_promised_beside_a_time_out(
    given_ends: tuple[dict[int, list[Event]], set[int]], timeout: int, lateness: int, workers: int, in_rounds: bool
) -> None:
    """By a last record or by the operator before, which end what is open, as does the time-out of what stays open."""
    given_epochs, ends = given_ends

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, events in input:
                for event in events:
                    output.send(token, [event])
                    if event.number in ends:
                        context.end_substream(token, event.key)

        return schedule

    flow = tw.Dataflow("both")
    read = flow.input("events").unary("read", build)
    rule: dict[str, Any] = {"at": lambda e: e.at, "timeout": timeout, "lateness": lateness}
    marked = read.substreams("marked", lambda e: e.key, **rule)
    marked.collect_substream(_in_order).capture("marked")
    by_last = read.map(lambda e: e).substreams("last", lambda e: e.key, last=lambda e: e.number in ends, **rule)
    by_last.collect_substream(_in_order).capture("last")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("events") as handle:
            for epoch, events in given_epochs.items():
                handle.advance_to(epoch)
                handle.send(events, worker=0)
                if in_rounds:
                    settle(job)
        job.wait(DEADLINE_S)
        expected = expected_substreams(given_epochs, timeout, lateness, lambda event: event.number in ends)
        assert _found(job, "marked") == expected
        assert _found(job, "last") == expected
        assert_no_state_left(job)


def test_an_end_may_be_promised_in_an_epoch_without_records() -> None:
    """Then nothing is left to time out; one that is promised of nothing ends a substream without records."""
    events: list[Any] = []

    def build(context: Any) -> Any:
        def schedule(input: Any, output: Any) -> None:
            for token, batch in input:
                for key, at in batch:
                    if at is None:
                        context.end_substream(token, key)
                    else:
                        output.send(token, [(key, at)])

        return schedule

    flow = tw.Dataflow("marks only")
    read = flow.input("events").unary("read", build)
    timed = read.substreams("timed", lambda e: e[0], at=lambda e: e[1], timeout=5)
    watched = timed.unary("watch", seen_by(events), bound="soft")
    watched.collect_substream(lambda key, found: (key, len(found))).capture("counts")
    with tw.run(flow, workers=2, engine="local") as job:
        with job.input("events") as handle:
            for epoch, batch in enumerate([[("a", 0)], [("a", None)], [("b", 99)], [("a", None)], [("c", 104)]]):
                handle.advance_to(epoch)
                handle.send(batch)
        job.wait(DEADLINE_S)
        assert sorted(row for entry in job.captured("counts") for row in entry.batch) == [("a", 1), ("b", 1), ("c", 1)]
        for worker in range(2):
            told = Counter(key for at, kind, key in events if at == worker and kind == "end")
            assert told == Counter("aabc")
        assert_no_state_left(job)


@operator_settings(60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), max_size=12), st.integers(1, 9), st.integers(1, 3))
def test_of_events_in_order_substreams_are_the_sessions_that_windows_find(
    steps: list[tuple[int, int]], gap: int, workers: int
) -> None:
    """Where each epoch has one event, and event time never goes back."""
    flow = tw.Dataflow("sessions")
    events = flow.input("events")
    timed = events.substreams("timed", lambda e: e.key, at=lambda e: e.at, timeout=gap)
    timed.collect_substream(_in_order).capture("substreams")
    windowed = events.window(tw.SessionWindows(gap), key=lambda e: e.key, at=lambda e: e.at)
    windowed.results.map(lambda one: _in_order(one.key, one.value)).capture("windows")
    windowed.late.ignore()
    at = 0
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("events") as handle:
            for number, (key, step) in enumerate(steps):
                at += step
                handle.advance_to(number)
                handle.send([Event(key, at, number)])
        job.wait(DEADLINE_S)
        substreams, windows = ([row for _, *row in _found(job, name)] for name in ("substreams", "windows"))
        assert sorted(substreams) == sorted(windows)


# ---------------------------------------------------------------------- one rule after the other


def ended(*by_epoch: list[tuple[str, Any]], **rule: Any) -> list[Any]:
    """Return the event times of each substream of (key, event time), with its key."""
    flow = tw.Dataflow("rules")
    timed = flow.input("events").substreams("timed", lambda e: e[0], at=lambda e: e[1], **rule)
    timed.collect_substream(lambda key, events: (key, sorted(at for _, at in events))).capture("ended")
    with tw.run(flow, engine="local") as job:
        with job.input("events") as handle:
            for epoch, events in enumerate(by_epoch):
                handle.advance_to(epoch)
                handle.send(events)
        job.wait(DEADLINE_S)
        return sorted(row for entry in job.captured("ended") for row in entry.batch)


def test_a_time_out_after_the_latest_is_over() -> None:
    """And just before is not, as with windows, in which a gap apart is not less than a gap apart."""
    assert ended([("a", 0)], [("a", 5)], timeout=5) == [("a", [0]), ("a", [5])]
    assert ended([("a", 0)], [("a", 4)], timeout=5) == [("a", [0, 4])]


def test_records_of_an_epoch_are_never_parted() -> None:
    """Whether they open a substream or one of them goes on with one that is open."""
    assert ended([("a", 0), ("a", 100)], timeout=5) == [("a", [0, 100])]
    assert ended([("a", 0)], [("a", 100), ("a", 3)], timeout=5) == [("a", [0, 3, 100])]


def test_lateness_keeps_a_substream_open() -> None:
    """For records that are out of order over epochs; a key has one substream meanwhile."""
    assert ended([("a", 0)], [("b", 9)], [("a", 3)], timeout=5, lateness=5) == [("a", [0, 3]), ("b", [9])]
    assert ended([("a", 0)], [("b", 9)], [("a", 3)], timeout=5) == [("a", [0]), ("a", [3]), ("b", [9])]
    assert ended([("a", 0)], [("a", 9)], [("a", 3)], timeout=5, lateness=5) == [("a", [0, 3, 9])]


def test_no_record_is_late() -> None:
    """A record long before the watermark opens a substream of one epoch, or goes on with one that is open."""
    assert ended([("b", 99)], [("a", 1)], [("a", 2)], timeout=5) == [("a", [1]), ("a", [2]), ("b", [99])]
    assert ended([("a", 99)], [("a", 1)], timeout=5) == [("a", [1, 99])]


@pytest.mark.parametrize("far", [timedelta(days=3650), timedelta(days=2, hours=1), None])
def test_a_datetime_of_the_far_future_ends_no_substream(far: timedelta | None) -> None:
    """More than a day ahead of the wall clock, unless the user says more; a record's own substream goes on as well."""
    now = datetime.now(UTC)
    minute = timedelta(minutes=1)
    wrong = datetime.max.replace(tzinfo=UTC) if far is None else now + far
    feed: Any = [[("a", now), ("b", now)], [("b", wrong)], [("a", now + minute)], [("b", now + minute)]]
    assert ended(*feed, timeout=3 * minute) == [("a", [now, now + minute]), ("b", sorted([now, wrong, now + minute]))]
    feed += [[("c", now + 9 * minute)], [("a", now + 9 * minute)]]
    assert ended(*feed, timeout=3 * minute) == [
        ("a", [now, now + minute]),
        ("a", [now + 9 * minute]),
        ("b", sorted([now, wrong, now + minute])),
        ("c", [now + 9 * minute]),
    ]
    if far is not None:
        parted = ended([("a", now)], [("b", wrong)], [("a", now)], timeout=minute, at_most_ahead=timedelta.max)
        assert parted == [("a", [now]), ("a", [now]), ("b", [wrong])]


def test_a_record_of_the_future_may_come_first() -> None:
    """Before there is a watermark: its substream ends when event time has come to what is not too far ahead."""
    feed = [[("a", 999)], [("a", 998)], [("b", 3)], [("a", 4)], [("b", 14)], [("b", 15)], [("a", 16)]]
    clock = chain([10, 10], repeat(99))
    assert ended(*feed, timeout=5, at_most_ahead=0, clock=lambda: next(clock)) == [
        ("a", [4, 998, 999]),
        ("a", [16]),
        ("b", [3]),
        ("b", [14, 15]),
    ]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_ends_are_told_while_the_stream_goes_on(workers: int) -> None:
    """On workers that have no record in the epoch by which event time goes on, too."""
    flow = tw.Dataflow("going on")
    timed = flow.input("events").substreams("timed", lambda e: e[0], at=lambda e: e[1], timeout=10)
    timed.collect_substream(lambda key, events: key).capture("keys")
    with tw.run(flow, workers=workers, engine="local") as job:
        handle = job.input("events")
        handle.send([(key, key) for key in range(20)])
        handle.advance_to(1)
        settle(job)
        assert sorted(row for entry in job.captured("keys") for row in entry.batch) == list(range(10))
        handle.send([(100, 25)])
        settle(job)
        assert len(job.captured("keys")) <= workers, "the epoch is not complete"
        handle.advance_to(2)
        settle(job)
        assert sorted(row for entry in job.captured("keys") for row in entry.batch) == list(range(16))
        handle.close()
        job.wait(DEADLINE_S)


def test_tables_stay_tables() -> None:
    """Times and keys are read from columns; datetimes go with a timedelta."""
    flow = tw.Dataflow("tables")
    timed = flow.input("hits").substreams("visits", "user", at="at", timeout=timedelta(minutes=30))
    timed.capture("hits")
    timed.collect_substream(lambda user, hits: (user, len(hits))).capture("visits")
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    hits = [("ann", 0), ("bob", 10), ("ann", 29), ("bob", 60), ("ann", 90)]
    with tw.run(flow, engine="local") as job:
        with job.input("hits") as handle:
            for epoch, (user, minute) in enumerate(hits):
                handle.advance_to(epoch)
                handle.send(pa.table({"user": [user], "at": [start + timedelta(minutes=minute)]}))
        job.wait(DEADLINE_S)
        assert all(isinstance(entry.batch, pa.Table) for entry in job.captured("hits"))
        assert sum(len(entry.batch) for entry in job.captured("hits")) == len(hits)
        visits = sorted(row for entry in job.captured("visits") for row in entry.batch)
        assert visits == [("ann", 1), ("ann", 2), ("bob", 1), ("bob", 1)]


def test_memory_is_of_live_substreams_only() -> None:
    """Thousands of short sessions, some of whose keys come again: what is kept does not grow with the epochs."""
    sessions, keys, sizes = 200, 997, list[int]()
    flow = tw.Dataflow("many")
    timed = flow.input("numbers").substreams("many", lambda n: n % keys, at=lambda n: n, timeout=sessions)
    timed.collect_substream(lambda key, numbers: key).capture("keys")
    with tw.run(flow, workers=2, engine="local") as job:
        with job.input("numbers") as handle:
            for epoch in range(30):
                handle.advance_to(epoch)
                handle.send(list(range(epoch * sessions, (epoch + 1) * sessions)))
                settle(job)
                cores = job._cores  # type: ignore[attr-defined]
                gates = [gate for core in cores for gate in core._substreams.gates]
                states = [one.kept.states for core in cores for one in core._instances if one.name != "keys"]
                sizes.append(len(pickle.dumps(states)))
                assert sum(map(len, gates)) <= 3 * sessions
        job.wait(DEADLINE_S)
        assert sum(len(entry.batch) for entry in job.captured("keys")) == 30 * sessions
        assert max(sizes[10:]) <= 1.5 * max(sizes[2:10])
        assert_no_state_left(job)


@operator_settings(100)
@given(
    st.lists(
        st.tuples(st.sampled_from(("put off", "drop", "take")), st.integers(0, 200), st.integers(0, 40)), max_size=400
    )
)
def test_deadlines_are_those_of_a_dict(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is put off, dropped and taken; its heap is not longer than twice what it has, and a few."""
    deadlines, known = Deadlines(), dict[int, int]()
    for step, key, time in steps:
        if step == "put off":
            deadlines.put_off(key, time)
            known[key] = max(time, known.get(key, 0))
        elif step == "drop":
            deadlines.drop(key)
            known.pop(key, None)
        else:
            past: list[Any] = deadlines.take_past(time)
            assert [known[one] for one in past] == sorted(known[one] for one in past)
            assert set(past) == {one for one, deadline in known.items() if deadline <= time}
            known = {one: deadline for one, deadline in known.items() if deadline > time}
        assert len(deadlines._by_key) == len(known)
        assert deadlines.of(key) == known.get(key)
        assert len(deadlines._heap) <= 2 * len(known) + 64


def test_deadlines_of_what_was_dropped_are_forgotten() -> None:
    """Also where what was not dropped goes, which made them few beside it."""
    deadlines = Deadlines()
    for key in range(1000):
        deadlines.put_off(key, key)
    for key in range(500, 900):
        deadlines.drop(key)
    assert deadlines.take_past(499) == list(range(500))
    assert len(deadlines._by_key) == 100
    assert len(deadlines._heap) <= 264
