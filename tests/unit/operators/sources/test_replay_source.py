"""Sources that play again what was captured."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import (
    DEADLINE_S,
    KINDS,
    Feed,
    Kind,
    bags,
    expected,
    feeds,
    operator_settings,
    send,
    settle,
)
from tests.kit.operators.sources import flow_of, read
from tests.unit.operators.sinks.test_capture import record
from tidewheel.operators.sinks.recording import recording_path
from tidewheel.progress import IntegerDomain, ProductDomain
from tidewheel.runtime.engines.local_job import LocalJob


@operator_settings()
@given(feeds(), st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_a_recording_is_the_same_on_any_number_of_workers(
    tmp_path_factory: pytest.TempPathFactory, feed: Feed, kind: Kind, recorded: int, replayed: int, from_files: bool
) -> None:
    """The same records at the same times in batches of the same kind, from logs or from memory."""
    folder = tmp_path_factory.mktemp("recording")
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(kind.number).capture_to(folder).capture("captured")
    with tw.run(flow, workers=recorded, engine="local") as job:
        send(job, "numbers", feed, kind)
        job.wait(DEADLINE_S)
        captured = job.captured("captured")
    results = read(tw.ReplaySource(folder if from_files else captured), replayed)
    assert bags(results, kind) == expected(feed)
    batches = sorted((result.time, str(result.batch), type(result.batch)) for result in results)
    assert batches == sorted((one.time, str(one.batch), type(one.batch)) for one in captured)


@operator_settings()
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.integers(1, 3), st.booleans())
def test_times_are_complete_as_early_as_they_can_be(
    tmp_path_factory: pytest.TempPathFactory, times: list[tuple[int, int]], workers: int, from_files: bool
) -> None:
    """In any order of times, which may be those of a loop: no batch comes behind the frontier, and all come."""
    domain = ProductDomain(IntegerDomain(), IntegerDomain())
    recording: Any = [tw.types.Captured(time, [number]) for number, time in enumerate(times)]
    if from_files:
        folder = tmp_path_factory.mktemp("recording")
        flow = tw.Dataflow("first", domain)
        flow.source("source", tw.ReplaySource(recording)).capture_to(folder)
        with tw.run(flow, workers=2, engine="local") as job:
            job.wait(DEADLINE_S)
        recording = folder
    flow = tw.Dataflow("again", domain)
    flow.source("source", tw.ReplaySource(recording)).probe("read").capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        assert isinstance(job, LocalJob)
        seen = 0
        frontier = job.probe("read").frontier
        while job.run_round():
            results = job.captured("results")
            assert all(frontier.less_equal(result.time) for result in results[seen:]) or workers > 1
            seen, frontier = len(results), job.probe("read").frontier
        job.wait(DEADLINE_S)
        assert Counter((one.time, *one.batch) for one in job.captured("results")) == Counter(
            (time, number) for number, time in enumerate(times)
        )


def test_a_recording_in_memory_completes_times_on_the_way() -> None:
    """Not only in the end: a time is complete when none is left that is at or before it."""
    source = tw.ReplaySource([tw.types.Captured(time, [time]) for time in (0, 2, 1, 3, 3)])
    with tw.run(flow_of(source), engine="local") as job:
        job.probe("read").wait_until(1, DEADLINE_S)
        assert [result.time for result in job.captured("results")] == [0, 2]
        job.probe("read").wait_until(3, DEADLINE_S)
        assert [result.time for result in job.captured("results")] == [0, 2, 1, 3]
        job.wait(DEADLINE_S)


def cut_short(folder: Path, workers: int = 2) -> None:
    """Record two epochs, and a part of a third one, and stop."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture_to(folder)
    with tw.run(flow, workers=workers, engine="local") as job:
        for time in range(3):
            for number in range(3):
                job.input("numbers").send([10 * time + number])
            if time < 2:
                job.input("numbers").advance_to(time + 1)
            settle(job)
        job.stop()


def test_a_recording_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    """Unless it is said that it may be; then the times that were complete are played, and no part of another."""
    cut_short(tmp_path)
    with raises(tw.GraphError):
        tw.ReplaySource(tmp_path)
    found = bags(read(tw.ReplaySource(tmp_path, partial=True), 3))
    assert found == {0: Counter([0, 1, 2]), 1: Counter([10, 11, 12])}


def test_a_time_has_to_be_complete_in_all_logs(tmp_path: Path) -> None:
    """Where one log ends before the others, as when its node has died, the others are played that far."""
    cut_short(tmp_path)
    whole = {0: Counter([0, 1, 2]), 1: Counter([10, 11, 12])}
    log = recording_path(tmp_path, 1)
    played = set()
    while bags(read(tw.ReplaySource(tmp_path, partial=True))):
        found = bags(read(tw.ReplaySource(tmp_path, partial=True), 2))
        assert found.items() <= whole.items()
        played.add(len(found))
        os.truncate(log, log.stat().st_size - 1)
    assert played == {1, 2}


def test_what_is_missing_or_mixed_is_refused(tmp_path: Path) -> None:
    """When the source is made, and not by a replay that lacks something."""
    with raises(tw.GraphError):
        tw.ReplaySource(tmp_path)
    record(tmp_path / "one", [(0, [1])], workers=2)
    record(tmp_path / "other", [(0, [1])], workers=2)
    recording_path(tmp_path / "one", 1).unlink()
    with raises(tw.GraphError):
        tw.ReplaySource(tmp_path / "one")
    recording_path(tmp_path / "other", 1).rename(recording_path(tmp_path / "one", 1))
    with raises(tw.GraphError):
        tw.ReplaySource(tmp_path / "one")


def test_a_recording_of_more_workers_may_be_left_of_an_older_run(tmp_path: Path) -> None:
    """Overwritten by a run with fewer workers it is that of those."""
    record(tmp_path, [(0, [1]), (0, [2]), (0, [3])], workers=3)
    record(tmp_path, [(0, [4])], workers=1, overwrite=True)
    assert bags(read(tw.ReplaySource(tmp_path))) == {0: Counter([4])}


def test_a_job_that_never_ran_recorded_nothing(tmp_path: Path) -> None:
    """That is cut short, too, and there is nothing to play."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture_to(tmp_path)
    tw.run(flow, engine="local").stop()
    with raises(tw.GraphError):
        tw.ReplaySource(tmp_path, partial=True)


def test_damage_is_found(tmp_path: Path) -> None:
    """In a batch only when it is played: then the job fails and names the file."""
    record(tmp_path, [(0, list(range(100)))])
    log = recording_path(tmp_path, 0)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(bytes(data))
    with raises(tw.JobError):
        read(tw.ReplaySource(tmp_path))
    data[8] ^= 1
    log.write_bytes(bytes(data))
    with raises(tw.GraphError):
        tw.ReplaySource(tmp_path)


@pytest.mark.parametrize("recording", [3, [1], [(0, [1])]])
def test_what_is_no_recording_is_refused(recording: Any) -> None:
    """When the source is made."""
    with raises(tw.GraphError):
        tw.ReplaySource(recording)


def test_times_of_another_domain_fail_the_job() -> None:
    """The error says which times the dataflow has."""
    with raises(tw.JobError):
        read(tw.ReplaySource([tw.types.Captured((0, 1), [1])]))


def test_an_empty_recording_just_ends(tmp_path: Path) -> None:
    """As an empty stream does."""
    assert read(tw.ReplaySource([])) == []
    record(tmp_path, [])
    assert read(tw.ReplaySource(tmp_path), 2) == []
