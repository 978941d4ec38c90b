"""Windows on event time: nothing is lost, and what comes out follows from what is in each epoch."""

from collections import Counter
from operator import add
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S, Bags, ignore_others, operator_settings
from tests.kit.operators.operator_case import plain
from tests.kit.operators.window_oracle import Event, Kind, Outcome, expected_windows, windows_of
from tidewheel.runtime.description.shards import owner_of

# ---------------------------------------------------------------------- for test_every_operator


def _bags(by_epoch: dict[int, list[tuple[Any, ...]]]) -> Bags:
    return {epoch: Counter(found) for epoch, found in by_epoch.items() if found}


# ---------------------------------------------------------------------- any events at all

KEYS = (0, 3, 4)
"""Keys that no two or four workers have all on one."""


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    """Windows of every kind whose durations are integers or quarters."""
    unit = draw(st.sampled_from((1, 0.25)))
    length = draw(st.integers(1, 12))
    offset = draw(st.none() | st.integers(-15, 15))
    if draw(st.booleans()):
        return tw.SessionWindows(length * unit)
    if draw(st.booleans()):
        return tw.TumblingWindows(length * unit, offset)
    return tw.SlidingWindows(length * unit, draw(st.integers(1, length)) * unit, offset)


def _quarter(number: int) -> float:
    return number / 4


@st.composite
def epochs(draw: st.DrawFn) -> dict[int, list[Event]]:
    """Events in epochs, out of order, many at one time; a slow drift makes some of them late."""
    found: dict[int, list[Event]] = {}
    number = 0
    for drift, epoch in enumerate(draw(st.lists(st.integers(0, 9), unique=True, max_size=6).map(sorted))):
        near = st.integers(6 * drift - 10, 6 * drift + 10)
        times = draw(st.lists(near | near.map(_quarter), min_size=1, max_size=9))
        found[epoch] = [Event(draw(st.sampled_from(KEYS)), at, number + index) for index, at in enumerate(times)]
        number += len(times)
    return found


def run_windows(
    kind: Kind, given_epochs: dict[int, list[Event]], workers: int = 1, in_batches_of: int = 3, **arguments: Any
) -> Outcome:
    """Return what comes out of windows, in the words of the oracle."""
    flow = tw.Dataflow("windows")
    windowed = flow.input("events").window(kind, key=lambda e: e.key, at=lambda e: e.at, **arguments)
    windowed.results.capture("results")
    windowed.late.capture("late")
    with tw.run(flow, workers=workers, engine="local") as job:
        with job.input("events") as events:
            for epoch, records in given_epochs.items():
                events.advance_to(epoch)
                for begin in range(0, len(records), in_batches_of):
                    events.send(records[begin : begin + in_batches_of])
        job.wait(DEADLINE_S)
        outcome = Outcome()
        for captured in job.captured("results"):
            found = outcome.results.setdefault(captured.time, [])
            found += [(*result[:3], tuple(sorted(event.number for event in result.value))) for result in captured.batch]
        for captured in job.captured("late"):
            outcome.late.setdefault(captured.time, []).extend(
                (late.key, late.start, late.end, late.record.number) for late in captured.batch
            )
    return outcome


@pytest.mark.parametrize("workers", [2, 4])
def test_the_events_of_these_tests_are_on_several_workers(workers: int) -> None:
    """Or a watermark of each worker on its own would be found right below."""
    assert len({owner_of(key, workers) for key in KEYS}) > 1


@operator_settings(max_examples=150)
@given(kinds(), epochs(), st.integers(0, 8), st.sampled_from((1, 2, 4)), st.integers(1, 9), st.none() | st.just(50))
def test_windows_are_those_of_plain_python(
    kind: Kind,
    given_epochs: dict[int, list[Event]],
    lateness: int,
    workers: int,
    in_batches_of: int,
    flush_at: int | None,
) -> None:
    """Each window comes out once, with its records, at the epoch that closes it; each late record at its own."""
    outcome = run_windows(kind, given_epochs, workers, in_batches_of, lateness=lateness, flush_at=flush_at)
    expected = expected_windows(kind, given_epochs, lateness, flush_at)
    assert _bags(outcome.results) == _bags(expected.results)
    assert _bags(outcome.late) == _bags(expected.late)


@operator_settings(max_examples=100)
@given(kinds(), epochs(), st.integers(0, 3), st.sampled_from((1, 2, 4)))
def test_a_window_never_loses_a_record(
    kind: Kind, given_epochs: dict[int, list[Event]], lateness: int, workers: int
) -> None:
    """What goes in is what comes out and what is late, record by record, once for each window it belongs to."""
    outcome = run_windows(kind, given_epochs, workers, lateness=lateness)
    came_in = Counter[int]()
    for event in (event for events in given_epochs.values() for event in events):
        came_in[event.number] = 1 if isinstance(kind, tw.SessionWindows) else len(windows_of(event.at, kind))
    came_out = Counter(number for results in outcome.results.values() for one in results for number in one[3])
    late = Counter(one[3] for found in outcome.late.values() for one in found)
    assert came_in == came_out + late


@operator_settings(max_examples=60)
@given(st.integers(1, 9), epochs(), st.integers(0, 8), st.sampled_from((1, 2, 4)), st.randoms())
def test_order_within_an_epoch_changes_nothing(
    gap: int, given_epochs: dict[int, list[Event]], lateness: int, workers: int, random: Any
) -> None:
    """Records of an epoch meet the watermark of the epochs before it, in any order and any batches."""
    shuffled = {epoch: random.sample(events, len(events)) for epoch, events in given_epochs.items()}
    one, other = (
        run_windows(tw.SessionWindows(gap), found, of_workers, size, lateness=lateness)
        for found, of_workers, size in ((given_epochs, 1, 100), (shuffled, workers, 2))
    )
    assert (_bags(one.results), _bags(one.late)) == (_bags(other.results), _bags(other.late))


@operator_settings(max_examples=60)
@given(st.integers(1, 9), epochs(), st.integers(0, 30), st.sampled_from((1, 2, 4)))
def test_sessions_that_merge_their_states_are_those_that_keep_their_records(
    gap: int, given_epochs: dict[int, list[Event]], lateness: int, workers: int
) -> None:
    """A bridge between sessions makes one of what was kept for both."""
    arguments: dict[str, Any] = {"start": list, "add": lambda kept, event: [*kept, event], "lateness": lateness}
    merged = run_windows(tw.SessionWindows(gap), given_epochs, workers, combine=add, **arguments)
    kept = run_windows(tw.SessionWindows(gap), given_epochs, workers, **arguments)
    assert (
        _bags(merged.results)
        == _bags(kept.results)
        == _bags(expected_windows(tw.SessionWindows(gap), given_epochs, lateness).results)
    )


def test_a_record_between_two_sessions_makes_them_one() -> None:
    """They are reported once, from the first record of one to the gap after the last of the other."""
    events = {0: [Event(0, 0, 0), Event(0, 8, 1), Event(1, 4, 2)], 1: [Event(0, 4, 3)]}
    outcome = run_windows(tw.SessionWindows(5), events, lateness=5)
    assert plain(outcome.results) == plain({1: [(0, 0, 13, (0, 1, 3)), (1, 4, 9, (2,))]})
    apart = run_windows(tw.SessionWindows(4), events, lateness=5)
    assert [len(one[3]) for one in apart.results[1]] == [1, 1, 1, 1], "a gap apart is not less than a gap apart"


def test_a_record_that_missed_one_of_its_windows_is_in_the_others() -> None:
    """It is late for each that is closed, says why, and is counted in those that are open."""
    flow = tw.Dataflow("windows")
    windowed = flow.input("times").window(
        tw.SlidingWindows(10, step=5), key=lambda at: "all", at=lambda at: at, lateness=1, finish=len
    )
    windowed.results.capture("results")
    windowed.late.capture("late")
    with tw.run(flow, engine="local") as job:
        with job.input("times") as times:
            times.send([11])
            times.advance_to(1)
            times.send([7])
        job.wait(DEADLINE_S)
        (late,) = job.captured("late")
        assert (late.time, late.batch) == (1, [tw.types.LateRecord("all", 0, 10, 7, 7, 10)])
        assert [(captured.time, captured.batch) for captured in job.captured("results")] == [
            (1, [tw.types.WindowResult("all", 5, 15, 2), tw.types.WindowResult("all", 10, 20, 1)])
        ]


def test_a_window_has_its_records_in_order_of_event_time() -> None:
    """Lists, and folds of sessions that keep their records, are in order of event time, over all epochs."""
    feed = {0: [5, 3, 9], 1: [4, 0], 2: [7]}
    for kind in (tw.TumblingWindows(10), tw.SessionWindows(10)):
        flow = tw.Dataflow("windows")
        numbers = flow.input("numbers")
        numbers.window(kind, key=lambda n: 0, at=lambda n: n, lateness=10).results.capture("lists")
        numbers.window(
            kind, key=lambda n: 0, at=lambda n: n, lateness=10, start=str, add=lambda text, n: f"{text}{n}", finish=int
        ).results.capture("folds")
        ignore_others(flow)
        with tw.run(flow, engine="local") as job:
            with job.input("numbers") as handle:
                for epoch, batch in feed.items():
                    handle.advance_to(epoch)
                    handle.send(batch)
            job.wait(DEADLINE_S)
            assert job.captured("lists")[0].batch[0].value == [0, 3, 4, 5, 7, 9]
            by_epoch = 359047 if isinstance(kind, tw.TumblingWindows) else 34579
            assert job.captured("folds")[0].batch[0].value == by_epoch


@pytest.mark.parametrize("windows", [tw.TumblingWindows(10), tw.SlidingWindows(10, 5), tw.SessionWindows(10)], ids=repr)
@pytest.mark.parametrize("at", [None, lambda record: record[1]], ids=["epochs", "times"])
def test_a_key_with_nan_is_one_key_after_a_snapshot(tmp_path: Path, windows: Any, at: Any) -> None:
    """The NaN of the snapshot is another object, and not equal to that of later records."""

    def run(folder: Path) -> Any:
        flow = tw.Dataflow("nan")
        records = flow.input("records")
        records.probe("done")
        records.window(windows, key=lambda record: record[0], at=at, finish=len).results.capture("counts")
        ignore_others(flow)
        return tw.run(flow, engine="local", snapshots=tw.Snapshots(folder))

    def send(job: Any, epoch: int) -> None:
        job.input("records").advance_to(epoch)
        job.input("records").send([(("x", float("nan")), epoch), (float("nan"), epoch)])

    def outcome(job: Any) -> list[str]:
        send(job, 2)
        job.input("records").close()
        job.wait(DEADLINE_S)
        return sorted(str(result) for one in job.captured("counts") for result in one.batch)

    with run(tmp_path / "whole") as job:
        send(job, 1)
        whole = outcome(job)
    with run(tmp_path / "stopped") as job:
        send(job, 1)
        job.input("records").advance_to(2)
        job.probe("done").wait_until(2, timeout_s=DEADLINE_S)
        job.stop(snapshot=True)
    with run(tmp_path / "stopped") as job:
        assert outcome(job) == whole
