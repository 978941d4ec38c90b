"""Blobs and claims, on a folder of this machine and on an S3."""

import pickle
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.messages import raises
from tests.kit.snapshots.owner_process import Owner
from tests.waiting import eventually
from tidewheel.runtime.errors import ConfigError
from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots import heartbeat
from tidewheel.runtime.snapshots.entries import Manifest
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotDamaged, SnapshotError, SnapshotFolderInUse
from tidewheel.runtime.snapshots.names import blob_name
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.storage.folder import Folder

NAME = blob_name(1, 1, "worker-0")


def objects_of(folder: SnapshotFolder) -> Folder:
    """Return what lies under a folder, to damage it."""
    objects: Folder = folder._objects
    return objects


def test_a_blob_is_its_frames_in_order(url: str) -> None:
    """Frames are buffers of any kind; empty ones count, too."""
    folder = SnapshotFolder(url)
    frames: list[Any] = [b"ab", b"", memoryview(b"cd"), np.arange(3, dtype=np.int64).reshape(1, 3)]
    blob = folder.write(NAME, frames)
    assert (blob.name, blob.size) == (NAME, 28)
    assert folder.read(blob) == b"abcd" + np.arange(3, dtype=np.int64).tobytes()
    assert folder.read(folder.write(NAME, [])) == b""


def test_a_large_blob_is_whole(url: str) -> None:
    """It is uploaded and read in pieces where the store is remote."""
    frames = [bytes([place]) * 5_000_003 for place in range(5)]
    folder = SnapshotFolder(url)
    blob = folder.write(NAME, frames)
    assert folder.read(blob) == b"".join(frames)


def test_a_folder_can_be_sent_to_a_worker(url: str) -> None:
    """It is opened again there, with the credentials of that process; blobs may be written by many threads at once."""
    folder: SnapshotFolder = pickle.loads(pickle.dumps(SnapshotFolder(url)))
    blobs: list[Blob] = []
    threads = [
        threading.Thread(target=lambda n=n: blobs.append(folder.write(blob_name(1, 1, f"w{n}"), [bytes([n])])))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(folder.read(blob) for blob in blobs) == [bytes([n]) for n in range(8)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"abcX", "its checksum is [0-9a-f]{8}, and that of"), (b"ab", "does not have the 4 bytes"), (None, "is missing")],
    ids=["a flipped byte", "half-written", "missing"],
)
def test_a_damaged_blob_is_refused(url: str, data: bytes | None, problem: str) -> None:
    """The error names it, what is wrong and what happens next."""
    folder = SnapshotFolder(url)
    blob = folder.write(NAME, [b"abcd"])
    if data is None:
        objects_of(folder).remove([NAME])
    else:
        objects_of(folder).write(NAME, [memoryview(data)])
    with pytest.raises(SnapshotDamaged, match=rf"{url}/{NAME} is damaged: .*{problem}"):
        folder.read(blob)


def test_a_large_blob_that_is_cut_is_refused(url: str) -> None:
    """As is one that could be read in one piece."""
    folder = SnapshotFolder(url)
    blob = folder.write(NAME, [bytes(20_000_000)])
    objects_of(folder).write(NAME, [memoryview(bytes(19_000_000))])
    with pytest.raises(SnapshotDamaged, match="does not have the 20000000 bytes"):
        folder.read(blob)


def test_a_released_folder_is_claimed_at_once(url: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next job has the next incarnation; nothing looks at a heartbeat."""
    monkeypatch.setattr(heartbeat, "beats", None)
    with SnapshotFolder(url).claim("first") as first:
        assert (first.incarnation, first.next_snapshot, first.latest_intact()) == (1, 1, None)
    second = opened.enter_context(SnapshotFolder(url).claim("second"))
    assert second.incarnation == 2


def test_a_living_owner_is_named(url: str, opened: ExitStack) -> None:
    """The error says which job, process, host and since when, and what to do."""
    opened.enter_context(SnapshotFolder(url).claim("payments"))
    expected = rf"{url} belongs to job 'payments' \(process \d+ on \S+, since \d{{4}}-.*Stop that job, or use another"
    with pytest.raises(SnapshotFolderInUse, match=expected):
        SnapshotFolder(url).claim("other")


def test_a_killed_owner_is_followed_at_once(url: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is gone, so nothing looks at a heartbeat; its snapshot is there, and what it had begun goes."""
    owner = opened.enter_context(Owner(url))
    assert owner.ask("claim") == "owns"
    assert owner.ask("commit") == "committed 1"
    assert owner.ask("write") == "written"
    owner.kill()
    monkeypatch.setattr(heartbeat, "beats", None)
    folder = SnapshotFolder(url)
    second = opened.enter_context(folder.claim("second"))
    found = second.latest_intact()
    assert found is not None
    assert (found.number, found.body) == (1, {"workers": 2})
    assert len(objects_of(folder).sizes("parts/")) == 2
    second.prune()
    assert set(objects_of(folder).sizes("parts/")) == {blob.name for blob in found.blobs}


def test_a_stopped_owner_is_fenced(url: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeat is silent, so another job takes over; when it goes on, it commits nothing and learns who owns."""
    monkeypatch.setattr(heartbeat, "SILENCE_S", 0.5)
    owner = opened.enter_context(Owner(url))
    assert owner.ask("claim") == "owns"
    owner.stop()
    second = opened.enter_context(SnapshotFolder(url).claim("second"))
    owner.go_on()
    assert "FencedError: job 'second'" in owner.ask("commit")
    assert second.snapshots() == []
    second.commit(1, [], {})
    assert owner.ask("release") == "released"
    assert [manifest.number for manifest in second.snapshots()] == [1]


def test_one_of_two_jobs_that_start_together_owns(url: str, opened: ExitStack) -> None:
    """In two processes, at the same moment; the other one learns who does."""
    owners = [opened.enter_context(Owner(url)) for _ in range(2)]
    for owner in owners:
        owner.tell("claim")
    answers = sorted(owner.answer() for owner in owners)
    assert answers[1] == "owns"
    assert "SnapshotFolderInUse" in answers[0]


def test_a_heartbeat_ends_with_its_owner(url: str) -> None:
    """Release ends the thread, and removes the object."""
    folder = SnapshotFolder(url)
    owner = folder.claim("job")
    assert eventually(lambda: bool(objects_of(folder).sizes("heartbeats/")))
    owner.release()
    assert not [thread for thread in threading.enumerate() if thread.name == "tidewheel snapshots heartbeat"]
    assert objects_of(folder).sizes("heartbeats/") == {}


def test_a_newer_format_is_an_error_and_stays(url: str) -> None:
    """Nobody claims or lists such a folder, so nobody removes from it."""
    folder = SnapshotFolder(url)
    with folder.claim("job") as owner:
        owner.commit(1, [folder.write(blob_name(owner.incarnation, 1, "w"), [b"x"])], {})
    data = objects_of(folder).read("log/0000000002.json")
    assert data is not None
    assert objects_of(folder).put_new("log/0000000004.json", data.replace(b'"version":2', b'"version":3,"new":[1]'))
    before = {**objects_of(folder).sizes("log/"), **objects_of(folder).sizes("parts/")}
    for attempt in (lambda: folder.claim("job"), folder.stored_snapshots):
        with raises(SnapshotError):
            attempt()
    assert {**objects_of(folder).sizes("log/"), **objects_of(folder).sizes("parts/")} == before


def test_a_store_without_put_if_absent_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs could overwrite each other's snapshots there."""
    folder = SnapshotFolder(url)
    objects = objects_of(folder)

    def put_new(name: str, data: bytes) -> bool:
        objects.write(name, [memoryview(data)])
        return True

    monkeypatch.setattr(objects, "put_new", put_new)
    with pytest.raises(SnapshotError, match=r"ignores If-None-Match.*Use a store with conditional writes"):
        folder.claim("job")


def test_snapshots_are_listed_without_a_claim(url: str, opened: ExitStack) -> None:
    """With what is wrong with each."""
    folder = SnapshotFolder(url)
    owner = opened.enter_context(folder.claim("job"))
    blobs = [folder.write(blob_name(owner.incarnation, number, "w"), [b"abc"]) for number in (1, 2)]
    manifests: list[Manifest] = [owner.commit(blob_of + 1, [blobs[blob_of]], {"n": blob_of}) for blob_of in range(2)]
    objects_of(folder).remove([blobs[0].name])
    stored = SnapshotFolder(url).stored_snapshots()
    assert [(snapshot.manifest, snapshot.damage) for snapshot in stored] == [
        (manifests[1], ""),
        (manifests[0], f"{blobs[0].name} is missing"),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("ftp://host/a", "ftp://host/a is no folder for snapshots: use a path"),
        ("s3:///a", "no folder for snapshots"),
        ("s3://me:secret@bucket/a", "s3://bucket/a is given with a user, .* into the environment"),
        ("az://bucket/a?sig=secret", "az://bucket/a is given with a user, a query"),
    ],
)
def test_a_wrong_url_is_refused(wrong: str, message: str) -> None:
    """And no secret of it is shown."""
    with pytest.raises(SnapshotError, match=message) as raised:
        SnapshotFolder(wrong)
    assert "secret" not in str(raised.value)


def test_local_urls_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute ones, since a worker may run in another directory."""
    monkeypatch.chdir(tmp_path)
    assert SnapshotFolder("here").url == str(tmp_path / "here")
    assert SnapshotFolder(tmp_path / "a b").url == SnapshotFolder(f"file://{tmp_path}/a%20b").url


def test_a_folder_keeps_at_least_one_snapshot(tmp_path: Path) -> None:
    """Anything else is a mistake."""
    with raises(ConfigError):
        SnapshotFolder(tmp_path).claim("job", keep=0)


@pytest.mark.parametrize("folder", [None, 5, "", b"snapshots"])
def test_settings_name_a_folder(folder: Any) -> None:
    """None is what a variable of the environment that is not set returns."""
    with raises(ConfigError):
        Snapshots(folder)


def test_settings_say_how_often() -> None:
    every_s: Any = "10"
    with raises(ConfigError):
        Snapshots("here", every_s=every_s)


def test_errors_can_be_pickled() -> None:
    """They cross from a worker to the driver."""
    error = pickle.loads(pickle.dumps(FencedError("text")))
    assert (type(error), str(error)) == (FencedError, "text")
