"""The heartbeat of an owner, as other jobs see it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.snapshots.simulated_owners import PROCESS
from tests.waiting import eventually
from tidewheel.runtime.snapshots import heartbeat
from tidewheel.runtime.snapshots.entries import Owner
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.runtime.snapshots.heartbeat import Heartbeat, beats
from tidewheel.storage.local_folder import LocalFolder

OWNER = Owner("job", PROCESS, "now", 3, "7f")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beat and look often, and count as dead after a second."""
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.02)
    monkeypatch.setattr(heartbeat, "_LOOK_S", 0.05)
    monkeypatch.setattr(heartbeat, "SILENCE_S", 1.0)


@contextmanager
def _beating(folder: Any) -> Iterator[None]:
    beating = Heartbeat(folder, OWNER)
    try:
        yield
    finally:
        beating.stop()


def test_a_beating_owner_lives(tmp_path: Path) -> None:
    """Also one that has just begun, whose first beat is not there yet."""
    folder = LocalFolder(tmp_path, SnapshotError)
    assert not beats(folder, OWNER)
    with _beating(folder):
        assert beats(folder, OWNER)


def test_a_silent_owner_is_dead(tmp_path: Path) -> None:
    """Its last beat stays, and does not change."""
    folder = LocalFolder(tmp_path, SnapshotError)
    with _beating(folder):
        assert eventually(lambda: folder.read("heartbeats/000003") is not None)
    assert not beats(folder, OWNER)


def test_the_beat_of_a_former_owner_does_not_count(tmp_path: Path) -> None:
    """One that goes on after a stop beats elsewhere."""
    folder = LocalFolder(tmp_path, SnapshotError)
    with _beating(folder):
        assert not beats(folder, Owner("job", PROCESS, "now", 4, "80"))


def test_a_store_that_fails_for_a_while_ends_no_heartbeat(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning says that another job may take over."""
    folder = LocalFolder(tmp_path, SnapshotError)
    failures = iter(range(3))
    write: Callable[..., None] = folder.write

    class Failing:
        def write(self, name: str, frames: list[memoryview]) -> None:
            if next(failures, None) is not None:
                raise SnapshotError("the store does not answer")
            write(name, frames)

    with caplog.at_level(logging.WARNING), _beating(Failing()):
        assert eventually(lambda: folder.read("heartbeats/000003") is not None)
    assert [record.getMessage() for record in caplog.records] == [
        "another job may take the folder over, as the heartbeat does not arrive: the store does not answer"
    ]
