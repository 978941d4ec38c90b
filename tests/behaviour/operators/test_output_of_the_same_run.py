"""A job that goes back to its beginning, as it has no snapshot yet, goes on with what it has written itself.

Files are visible before a snapshot has their epoch only with ``visible="epoch"``, or without snapshots.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle

EPOCHS = 4

Read = Callable[[Path], dict[int, list[int]]]


def files_in(folder: Path) -> dict[int, list[int]]:
    """Return what write_files has written, by epoch."""
    return {
        int(epoch.name.removeprefix("epoch=")): sorted(
            json.loads(line)["value"] if "value" in line else json.loads(line)
            for file in epoch.iterdir()
            for line in file.read_text().splitlines()
        )
        for epoch in folder.glob("epoch=*")
    }


def played(folder: Path) -> dict[int, list[int]]:
    """Return what is played of a recording, by epoch."""
    flow = tw.Dataflow("played")
    flow.source("recording", tw.ReplaySource(folder)).capture("numbers")
    found: dict[int, list[int]] = {}
    with tw.run(flow, engine="local") as job:
        job.wait()
        for one in job.captured("numbers"):
            found.setdefault(one.time, []).extend(one.batch)
    return {time: sorted(numbers) for time, numbers in found.items()}


KINDS: dict[str, tuple[Callable[[Any, Path], Any], Read]] = {
    "write_files": (lambda stream, folder: stream.write_files(folder, "jsonl", visible="epoch"), files_in),
    "capture_to": (lambda stream, folder: stream.capture_to(folder), played),
}


def begin(kind: str, folder: Path, snapshots: str | None = "snapshots", workers: int = 2) -> tw.types.Job:
    flow = tw.Dataflow("same run")
    KINDS[kind][0](flow.input("numbers").exchange(lambda n: n), folder / "out")
    settings = None if snapshots is None else tw.Snapshots(folder / snapshots, every_s=1000)
    return tw.run(flow, workers=workers, engine="local", snapshots=settings)


def send(job: tw.types.Job, until: int = EPOCHS) -> None:
    numbers = job.input("numbers")
    for time in range(numbers.position.batches, until):
        numbers.advance_to(time)
        numbers.send([10 * time + number for number in range(4)])
    settle(job)


def finish(job: tw.types.Job) -> None:
    with job:
        send(job)
        job.input("numbers").close()
        job.wait()


WHOLE = {time: [10 * time + number for number in range(4)] for time in range(EPOCHS)}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("lives", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_begins_again_goes_on_with_its_own_output(
    kind: str, lives: int, workers: int, tmp_path: Path
) -> None:
    """Stopped without a snapshot, once and more often, with another number of workers: all is there once."""
    for life in range(lives):
        with begin(kind, tmp_path) as job:
            send(job, until=1 + life)
            job.stop()
    finish(begin(kind, tmp_path, workers=workers))
    assert KINDS[kind][1](tmp_path / "out") == WHOLE


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_after_a_beginning_is_gone_on_from(kind: str, tmp_path: Path) -> None:
    """The run is the same one from its first beginning on, also where one snapshot lies in between."""
    for until, takes in ((1, False), (2, True), (3, False)):
        with begin(kind, tmp_path) as job:
            send(job, until)
            job.stop(snapshot=takes)
    finish(begin(kind, tmp_path))
    assert KINDS[kind][1](tmp_path / "out") == WHOLE


@pytest.mark.parametrize("snapshots", [None, "others"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_output_of_another_run_is_not_overwritten(kind: str, snapshots: str | None, tmp_path: Path) -> None:
    """Of a job with another folder of snapshots, or without."""
    with begin(kind, tmp_path) as job:
        send(job, until=2)
        job.stop()
    with raises(tw.JobError):
        finish(begin(kind, tmp_path, snapshots=snapshots))


@pytest.mark.parametrize("kind", KINDS)
def test_a_description_that_is_run_twice_is_two_runs(kind: str, tmp_path: Path) -> None:
    """Without snapshots nothing goes back, so what is there is of another run."""
    flow = tw.Dataflow("twice")
    KINDS[kind][0](flow.source("numbers", tw.RecordSource([1, 2, 3])), tmp_path / "out")
    with tw.run(flow, engine="local") as job:
        job.wait()
    with raises(tw.JobError), tw.run(flow, engine="local") as job:
        job.wait()
