"""A folder of this machine: atomic, durable, private, and clear about a full disk."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.kit.messages import raises
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.storage.local_folder import LocalFolder

FULL_DISK = """
import resource, sys
from pathlib import Path
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.storage.local_folder import LocalFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
folder = LocalFolder(Path(sys.argv[1]), SnapshotError)
folder.write("parts/small", [memoryview(bytes(900))])
try:
    folder.write("parts/large", [memoryview(bytes(900))] * 2)
except SnapshotError as error:
    print(error)
"""


def test_one_of_many_puts_an_object_that_is_absent(tmp_path: Path) -> None:
    """Also when all try at the same moment; the object is that of the winner, and nothing half-written stays."""
    folder = LocalFolder(tmp_path / "a" / "b", SnapshotError)
    start = threading.Barrier(8)
    winners: list[bytes] = []

    def put(data: bytes) -> None:
        start.wait(10)
        if folder.put_new("log/0000000001.json", data):
            winners.append(data)

    threads = [threading.Thread(target=put, args=(bytes([number]) * 100,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert folder.read("log/0000000001.json") == winners[0]
    assert folder.sizes("log/") == {"log/0000000001.json": 100}


def test_many_frames_are_written_in_order(tmp_path: Path) -> None:
    """More than one call of the operating system takes."""
    folder = LocalFolder(tmp_path, SnapshotError)
    frames = [number.to_bytes(2, "big") for number in range(5000)]
    folder.write("parts/a", [memoryview(frame) for frame in frames])
    assert folder.read("parts/a") == b"".join(frames)


def test_a_short_write_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system may write a part of what it is asked for."""
    write = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, frames: write(descriptor, [memoryview(frames[0])[:3]]))
    folder = LocalFolder(tmp_path, SnapshotError)
    folder.write("parts/a", [memoryview(b"abcdefgh"), memoryview(b"ijklm")])
    assert folder.read("parts/a") == b"abcdefghijklm"


@pytest.mark.parametrize("new", [True, False])
def test_an_object_survives_a_loss_of_power(new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it has its name, and each directory that has a new name in it after that."""
    synced: list[tuple[Path, bool]] = []
    folder, path = LocalFolder(tmp_path / "new", SnapshotError), tmp_path / "new" / "parts" / "a"
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)  # a file's
    if new:
        assert folder.put_new("parts/a", b"x")
    else:
        folder.write("parts/a", [memoryview(b"x")])
    assert synced[0] == (tmp_path, False)
    assert synced[1] == (tmp_path / "new", False)
    assert (synced[2][0].parent, synced[2][0].suffix, synced[2][1]) == (path.parent, ".partial", False)
    assert synced[3:] == [(path.parent, True)]


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit of the size of files plays the full disk."""
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == (
        f"{tmp_path}/parts/large is not written: the disk or the quota is full (File too large). "
        "Make room, keep fewer snapshots, or use another folder\n"
    )
    assert LocalFolder(tmp_path, SnapshotError).sizes("parts/") == {"parts/small": 900}


def test_a_path_that_is_no_directory_is_an_error(tmp_path: Path) -> None:
    """With the reason of the operating system."""
    (tmp_path / "file").write_bytes(b"")
    with raises(SnapshotError):
        LocalFolder(tmp_path / "file", SnapshotError).write("parts/a", [memoryview(b"x")])


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    """A job unpickles its contents."""
    folder = LocalFolder(tmp_path, SnapshotError)
    folder.write("parts/a", [memoryview(b"x")])
    assert stat.S_IMODE((tmp_path / "parts" / "a").stat().st_mode) == 0o600
    tmp_path.chmod(0o777)
    for attempt in (lambda: folder.read("parts/a"), lambda: folder.put_new("parts/b", b"x")):
        with raises(SnapshotError):
            attempt()


def test_what_is_missing_is_no_error(tmp_path: Path) -> None:
    """Neither to read nor to list nor to remove."""
    folder = LocalFolder(tmp_path / "none", SnapshotError)
    assert folder.read("parts/a") is None
    assert folder.sizes("parts/") == {}
    folder.remove(["parts/a"])
    assert not (tmp_path / "none").exists()
