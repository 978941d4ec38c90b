"""The writer of a worker's parts: which files a part consists of, and what comes after one that failed."""

import errno
import os
import pickle
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.runtime.snapshots.part_writer import PartWriter
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.state import keyed_state
from tidewheel.runtime.state.keyed_state import KeyedState, entries_of
from tidewheel.runtime.state.operator_state import OperatorCut
from tidewheel.runtime.state.part_file import read_worker
from tidewheel.runtime.state.worker_part import OperatorPart, WorkerPart
from tidewheel.storage import local_folder


class Worker:
    """One that keeps two states by key, of which one changes more."""

    def __init__(self, folder: Path) -> None:
        self.folder = SnapshotFolder(folder)
        self.writer = PartWriter(self.folder, 1, "7f")
        self.states: dict[str, KeyedState[int, Any]] = {
            "much": KeyedState({key: key for key in range(40)}),
            "little": KeyedState({key: [key] for key in range(20)}),
        }
        self.number = 0

    def write(self) -> WrittenPart:
        """Take a part, and write it."""
        self.number += 1
        operators = {
            name: OperatorPart(OperatorCut(keyed={"state": state.cut()}), []) for name, state in self.states.items()
        }
        part = WorkerPart(self.number, 0, 1, operators, {-1: {}})
        return self.writer.write(part)

    def write_all_next(self) -> None:
        for state in self.states.values():
            state.write_all_next()

    def check(self, written: WrittenPart) -> None:
        """Check that the files of a part have all that the worker keeps."""
        assert written.failure is None
        saved = read_worker([self.folder.read(blob) for blob in written.blobs])
        for name, state in self.states.items():
            assert entries_of(saved.operators[name].keyed["state"], pickle.loads) == state


class Kept:
    """A frozen value."""

    def __init__(self, size: int) -> None:
        self.content = bytes(size)


def frozen_part(number: int, values: dict[str, Kept]) -> WorkerPart:
    """Return a part whose only operator has a state that names some frozen values."""
    return WorkerPart(number, 0, 1, {"join": OperatorPart(OperatorCut(states={"a": b"1"}, frozen=dict(values)), [])})


def check_frozen(worker: Worker, written: WrittenPart, values: dict[str, Kept]) -> None:
    assert written.failure is None
    found = read_worker([worker.folder.read(blob) for blob in written.blobs]).operators["join"]
    assert found.states == {"a": b"1"}
    for name, value in values.items():
        assert pickle.loads(found.frozen[name]).content == value.content


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(keyed_state, "_LEAST_SWEPT", 3)
    return Worker(tmp_path / "s")


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_files_are_added_and_let_go(worker: Worker) -> None:
    """Each part has one new file, and no more old ones than the longest sweeps need."""
    random = Random(0)
    most, written = 0, worker.write()
    for _ in range(100):
        worker.states["much"][random.randrange(60)] = worker.number
        worker.states["little"].pop(random.randrange(20), None)
        worker.states["little"][random.randrange(20)] = [worker.number]
        written = worker.write()
        worker.check(written)
        assert [f"{worker.number:010}" in blob.name for blob in written.blobs].count(True) == 1
        most = max(most, len(written.blobs))
    assert 5 <= most <= 2 * 60 // 3
    assert pickle.loads(written.positions) == {-1: {}}


def test_frozen_values_are_written_once(worker: Worker) -> None:
    """A part names the files of earlier ones that have most of its values, and no others."""
    values = {"large": Kept(10_000), "small": Kept(1000)}
    first = worker.writer.write(frozen_part(1, values))
    values |= {"new": Kept(500)}
    second = worker.writer.write(frozen_part(2, values))
    check_frozen(worker, second, values)
    assert first.blobs[0] in second.blobs
    assert len({blob.name.rpartition("-")[2] for blob in second.blobs}) == 1, "each name ends with that of the owner"
    assert sum(blob.size for blob in second.blobs if blob not in first.blobs) < 1500
    same = worker.writer.write(frozen_part(3, values))
    assert [blob for blob in same.blobs if blob not in second.blobs] == [same.blobs[-1]]
    del values["large"]
    last = worker.writer.write(frozen_part(4, values))
    check_frozen(worker, last, values)
    assert first.blobs[0] not in last.blobs, "little of it is needed, which is written again"
    assert sum(blob.size for blob in last.blobs) < 3000


def test_frozen_values_that_could_not_be_written_are_written_later(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the next part has all of them."""
    values = {"one": Kept(100)}
    with monkeypatch.context() as patch:
        patch.setattr(local_folder, "write_all", full)
        assert worker.writer.write(frozen_part(1, values)).failure is not None
    check_frozen(worker, worker.writer.write(frozen_part(2, values)), values)


def test_after_a_failure_only_a_whole_part_is_written(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it needs none of those that are missing; the reason names the file and what is wrong."""
    worker.check(worker.write())
    worker.states["much"][3] = -3
    with monkeypatch.context() as patch:
        patch.setattr(local_folder, "write_all", full)
        failed = worker.write()
    assert failed.blobs == ()
    assert failed.failure is not None
    assert "worker-0-7f is not written: the disk or the quota is full" in failed.failure
    worker.states["much"][4] = -4
    torn = worker.write()
    assert (torn.blobs, torn.failure) == ((), "an earlier part could not be written")
    worker.write_all_next()
    written = worker.write()
    worker.check(written)
    assert len(written.blobs) == 1
    worker.states["much"][5] = -5
    worker.check(worker.write())


def test_what_cannot_be_pickled_fails_the_part(worker: Worker) -> None:
    """A batch is pickled only when it is written; the job goes on."""
    part = WorkerPart(1, 0, 1, {"read": OperatorPart(OperatorCut(states={"a": b""}), [[(letter for letter in "ab")]])})  # type: ignore[list-item]
    written = worker.writer.write(part)
    assert written.failure is not None
    assert written.failure.startswith("operator 'read': ")
