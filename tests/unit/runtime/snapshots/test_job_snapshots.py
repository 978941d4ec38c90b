"""A job whose last snapshot is damaged goes on from the one before, on a folder of this machine and on an S3."""

import logging
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.storage.folder import Folder

NUMBERS = [[3, 4], [5], [3, 6], [4, 8]]
"""The numbers that are sent at each epoch."""
DAMAGES = ["flipped", "half-written", "missing", "manifest"]


def flow() -> tw.Dataflow:
    made = tw.Dataflow("sums")
    made.input("numbers").stateful_map(lambda n: n % 2, start=int, step=added, name="sums").probe("done").capture(
        "sums"
    )
    return made


def added(total: int, number: int) -> tuple[int, tuple[int, int]]:
    return total + number, (number % 2, total + number)


def begin(url: str, workers: int = 2) -> tw.types.Job:
    return tw.run(flow(), workers=workers, engine="local", snapshots=tw.Snapshots(url, every_s=1000))


def send_on(job: tw.types.Job, until: int = len(NUMBERS)) -> None:
    numbers = job.input("numbers")
    for time in range(numbers.position.batches, until):
        numbers.advance_to(time)
        numbers.send(NUMBERS[time])


def sums(job: tw.types.Job) -> Counter[Any]:
    return Counter((one.time, record) for one in job.captured("sums") for record in one.batch)


def finished(job: tw.types.Job) -> Counter[Any]:
    send_on(job)
    job.input("numbers").close()
    job.wait()
    return sums(job)


@pytest.fixture
def expected() -> Counter[Any]:
    with tw.run(flow(), workers=2, engine="local") as job:
        return finished(job)


@pytest.fixture
def objects(url: str) -> Folder:
    """What lies in a folder of which each of two snapshots has an epoch more."""
    with begin(url) as job:
        for until in (1, 2):
            send_on(job, until)
            job.snapshot()
        job.stop()
    found: Folder = SnapshotFolder(url)._objects
    return found


def damage(objects: Folder, number: int, kind: str) -> str:
    """Damage a snapshot; return the name of the object."""
    prefix = "log/" if kind == "manifest" else "parts/"
    names = sorted(objects.sizes(prefix))  # of the log: a claim first, and a release last
    name = names[number] if kind == "manifest" else next(n for n in names if f"-{number:010}-worker-1" in n)
    data = bytearray(objects.read(name) or b"")
    if kind == "missing":
        objects.remove([name])
    elif kind == "half-written":
        objects.write(name, [memoryview(data)[: len(data) // 2]])
    else:
        data[len(data) // 2] ^= 1
        objects.write(name, [memoryview(data)])
    return name


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("workers", [2, 3])
def test_a_job_goes_on_from_the_snapshot_before_a_damaged_one(
    kind: str, workers: int, url: str, objects: Folder, expected: Counter[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """All workers do, and the input; a warning names the damaged object and both snapshots. Nothing is lost."""
    name = damage(objects, 2, kind)
    with begin(url, workers) as job:
        (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
        why = "a newer one may be lost: " if kind == "manifest" else "snapshot 2 is damaged: "
        assert warning.getMessage().startswith(f"{url}: snapshot 1 is used, because {why}{name}")
        assert job.input("numbers").position.batches == 1
        send_on(job, 3)
        assert job.snapshot() > 1 + (kind != "manifest")
        job.stop()
    with begin(url, workers) as job:
        assert job.input("numbers").position.batches == 3
        assert finished(job) == expected


@pytest.mark.parametrize("kind", DAMAGES)
def test_no_snapshot_that_is_intact_is_an_error(kind: str, url: str, objects: Folder, opened: ExitStack) -> None:
    """It names each damaged object and the remedy, and the folder is free; the job does not begin without state."""
    names = [damage(objects, number, kind) for number in (1, 2)]
    for _ in range(2):
        with pytest.raises(tw.errors.SnapshotError, match=f"{url} has no intact snapshot: .*To begin without") as error:
            begin(url)
        assert all(name in str(error.value) for name in names)


def test_a_snapshot_of_a_newer_format_is_an_error(url: str, objects: Folder) -> None:
    """An older one is not taken in its place: what is new may be more than the format."""
    data = objects.read("log/0000000003.json")
    assert data is not None
    objects.write("log/0000000003.json", [memoryview(data.replace(b'"version":2', b'"version":3'))])
    with raises(tw.errors.SnapshotError):
        begin(url)


def everything(objects: Folder) -> set[str]:
    return {name for prefix in ("log/", "parts/", "heartbeats/") for name in objects.sizes(prefix)}


def test_a_folder_that_was_removed_stays_empty(url: str, objects: Folder, expected: Counter[Any]) -> None:
    """The job goes on without writing there; another one begins anew in its place, and neither harms the other."""
    with tw.run(flow(), workers=2, engine="local", snapshots=tw.Snapshots(url, every_s=0.001)) as first:
        objects.remove(list(everything(objects)))
        with pytest.raises(tw.errors.SnapshotError, match=r"the folder was removed\. Snapshots of this run are lost"):
            first.snapshot()
        for until in (3, 4):
            send_on(first, until)
            first.probe("done").wait_until(until - 1)
            assert everything(objects) == set()
        with begin(url) as second:
            send_on(second, 2)
            second.snapshot()
            with raises(tw.errors.SnapshotError):
                first.snapshot()
            assert finished(first) == expected
            first.stop()
            second.stop()
    with begin(url) as second:
        assert second.input("numbers").position.batches == 2
        assert finished(second) == expected


def test_what_is_written_after_another_job_has_begun_in_the_place_harms_nothing(
    url: str, expected: Counter[Any]
) -> None:
    """Both have the same incarnation, and write other files; the first one takes no snapshot any more."""
    objects = SnapshotFolder(url)._objects
    with begin(url) as first:
        objects.remove(list(everything(objects)))
        with begin(url) as second:
            send_on(second, 2)
            second.snapshot()
            second.stop()
        with pytest.raises(tw.errors.SnapshotError, match="the folder was removed"):
            first.snapshot()
        first.stop()
    with begin(url) as second:
        assert second.input("numbers").position.batches == 2
        assert finished(second) == expected
