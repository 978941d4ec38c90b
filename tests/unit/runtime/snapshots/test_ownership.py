"""The commits, finds and removals of an owner, on a folder of this machine and on an S3."""

import logging
from contextlib import ExitStack
from pathlib import Path

import pytest

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots import heartbeat
from tidewheel.runtime.snapshots.entries import Manifest
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotDamaged, SnapshotError
from tidewheel.runtime.snapshots.names import blob_name
from tidewheel.runtime.snapshots.ownership import Ownership
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.storage.folder import Folder
from tidewheel.storage.store_url import is_url


@pytest.fixture
def folder(url: str) -> SnapshotFolder:
    """An empty folder."""
    return SnapshotFolder(url)


@pytest.fixture
def owner(folder: SnapshotFolder, opened: ExitStack) -> Ownership:
    """Its owner, which keeps two snapshots."""
    return opened.enter_context(folder.claim("job", keep=2))


@pytest.fixture
def objects(folder: SnapshotFolder) -> Folder:
    """What lies under it."""
    found: Folder = folder._objects
    return found


def _commit(folder: SnapshotFolder, owner: Ownership, number: int, *earlier: Blob) -> Manifest:
    return owner.commit(number, [*earlier, _write(folder, owner, number)], {"epoch": number})


def _write(folder: SnapshotFolder, owner: Ownership, number: int) -> Blob:
    return folder.write(blob_name(owner.incarnation, number, "w0"), [b"state"])


def _numbers(owner: Ownership) -> list[int]:
    return [manifest.number for manifest in owner.snapshots()]


def test_snapshots_are_there_for_the_next_owner(folder: SnapshotFolder, owner: Ownership) -> None:
    """With their bodies and blobs, newest first."""
    manifests = [_commit(folder, owner, number) for number in (1, 2)]
    assert owner.snapshots() == manifests[::-1]
    owner.release()
    with folder.claim("next") as following:
        assert following.snapshots() == manifests[::-1]
        assert following.latest_intact() == manifests[1]
        assert following.next_snapshot == 3
        assert [folder.read(blob) for blob in manifests[1].blobs] == [b"state"]


def test_what_is_kept_has_its_blobs(folder: SnapshotFolder, owner: Ownership, objects: Folder) -> None:
    """Blobs that a later snapshot shares stay; what is being written stays, too."""
    first = _commit(folder, owner, 1)
    for number in (2, 3, 4):
        _commit(folder, owner, number, *first.blobs)
    under_way = _write(folder, owner, 5)
    owner.prune()
    assert _numbers(owner) == [4, 3]
    expected = {blob_name(1, number, "w0") for number in (1, 3, 4, 5)}
    assert set(objects.sizes("parts/")) == expected
    owner.commit(5, [under_way], {})
    _commit(folder, owner, 6)
    owner.prune()
    assert set(objects.sizes("parts/")) == {blob_name(1, number, "w0") for number in (5, 6)}
    assert set(objects.sizes("log/")) == {f"log/{number:010}.json" for number in (1, 6, 7)}


def test_a_number_is_committed_once(folder: SnapshotFolder, owner: Ownership) -> None:
    """Again, it is the same; a lower one is refused."""
    manifest = _commit(folder, owner, 3)
    assert _commit(folder, owner, 3) == manifest
    with pytest.raises(SnapshotError, match=r"snapshot 2 is not committed: .* has had snapshot 3\. Use number 4 or"):
        _commit(folder, owner, 2)


def test_a_blob_that_nothing_keeps_is_refused(folder: SnapshotFolder, owner: Ownership) -> None:
    """The snapshot would be damaged as soon as old ones are removed."""
    first = _commit(folder, owner, 1)
    _commit(folder, owner, 2)
    _commit(folder, owner, 3)
    with pytest.raises(SnapshotError, match=rf"snapshot 4 needs {first.blobs[0].name}, which no snapshot"):
        _commit(folder, owner, 4, *first.blobs)


def test_a_lost_answer_loses_no_snapshot(
    folder: SnapshotFolder, owner: Ownership, objects: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has put the manifest, and its answer did not arrive: the next one may need blobs that it had before."""
    first = _commit(folder, owner, 1)
    _commit(folder, owner, 2)
    put_new = objects.put_new

    def lost(name: str, data: bytes) -> bool:
        put_new(name, data)
        raise SnapshotError("no answer")

    blob = _write(folder, owner, 3)
    with monkeypatch.context() as patch:
        patch.setattr(objects, "put_new", lost)
        with pytest.raises(SnapshotError, match="no answer"):
            owner.commit(3, [blob], {})
    owner.prune()
    newest = _commit(folder, owner, 4, *first.blobs, blob)
    assert _numbers(owner) == [4, 3]
    owner.prune()
    assert owner.latest_intact() == newest


@pytest.mark.parametrize("cut", [False, True], ids=["missing", "half-written"])
def test_a_damaged_snapshot_is_passed_over(
    cut: bool, folder: SnapshotFolder, owner: Ownership, objects: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that names it; the one before counts among those that are kept."""
    first, second = _commit(folder, owner, 1), _commit(folder, owner, 2)
    name = second.blobs[0].name
    if cut:
        objects.write(name, [memoryview(b"sta")])
    else:
        objects.remove([name])
    with caplog.at_level(logging.WARNING):
        assert owner.latest_intact() == first
    problem = "has 3 bytes, and 5 were written" if cut else "is missing"
    assert f"{folder.url}: snapshot 1 is used, because snapshot 2 is damaged: {name} {problem}" in caplog.text
    _commit(folder, owner, 3)
    assert _numbers(owner) == [3, 2, 1]
    _commit(folder, owner, 4)
    assert _numbers(owner) == [4, 3]


def test_a_reader_that_finds_damage_gets_the_snapshot_before(
    folder: SnapshotFolder, objects: Folder, caplog: pytest.LogCaptureFixture, opened: ExitStack
) -> None:
    """A flipped byte is found when it is read, and damages every snapshot that needs the blob."""
    owner = opened.enter_context(folder.claim("job", keep=3))
    first, second = _commit(folder, owner, 1), _commit(folder, owner, 2)
    third = _commit(folder, owner, 3, *second.blobs)
    name = second.blobs[0].name
    objects.write(name, [memoryview(b"statf")])
    assert owner.latest_intact() == third
    with pytest.raises(SnapshotDamaged) as damaged:
        folder.read(second.blobs[0])
    owner.found_damaged(damaged.value)
    for _ in range(2):
        caplog.clear()
        assert owner.latest_intact() == first
        for number in (3, 2):
            assert f"snapshot 1 is used, because snapshot {number} is damaged: {name}: its checksum" in caplog.text


def _flip(objects: Folder, name: str) -> None:
    data = bytearray(objects.read(name) or b"")
    data[len(data) // 2] ^= 1
    objects.write(name, [memoryview(data)])


def test_a_damaged_manifest_is_passed_over(
    folder: SnapshotFolder, owner: Ownership, objects: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that names the file; the next owner goes on behind it, and removes it once it is old."""
    first, second = _commit(folder, owner, 1), _commit(folder, owner, 2)
    owner.release()
    _flip(objects, "log/0000000003.json")
    with folder.claim("next", keep=2) as following:
        assert following.latest_intact() == first
        expected = (
            f"{folder.url}: snapshot 1 is used, because a newer one may be lost: log/0000000003.json is damaged: "
        )
        assert expected in caplog.text
        assert following.incarnation == 3
        _commit(folder, following, following.next_snapshot)
        for _ in range(2):
            _commit(folder, following, following.next_snapshot)
        following.prune()
        assert "log/0000000003.json" not in objects.sizes("log/")
        assert second.blobs[0].name not in objects.sizes("parts/")


def test_a_log_without_a_readable_snapshot_is_an_error(folder: SnapshotFolder, objects: Folder) -> None:
    """What is damaged may have been a snapshot, so the job does not begin without state."""
    with folder.claim("job") as owner:
        _commit(folder, owner, 1)
    _flip(objects, "log/0000000002.json")
    assert folder.stored_snapshots() == []
    with (
        folder.claim("next") as following,
        pytest.raises(SnapshotDamaged, match=r"a newer one may be lost: log/0000000002"),
    ):
        following.latest_intact()


def test_the_names_of_an_owner_whose_claim_is_damaged_are_not_used_again(
    folder: SnapshotFolder, owner: Ownership, objects: Folder
) -> None:
    """It may still write, and would else overwrite the blobs of the next owner."""
    _flip(objects, "log/0000000001.json")
    with folder.claim("next") as following:
        assert following.incarnation == owner.incarnation + 1
        assert blob_name(following.incarnation, 1, "w") != blob_name(owner.incarnation, 1, "w")
        with pytest.raises(FencedError, match=r"job 'next' .* has claimed the folder"):
            _commit(folder, owner, 1)


def test_no_intact_snapshot_is_an_error(folder: SnapshotFolder, owner: Ownership, objects: Folder) -> None:
    """A job must not begin without its state unnoticed."""
    assert owner.latest_intact() is None
    _commit(folder, owner, 1)
    objects.remove(list(objects.sizes("parts/")))
    expected = rf"{folder.url} has no intact snapshot: snapshot 1 is damaged: .* is missing. Restore .* another folder"
    with pytest.raises(SnapshotDamaged, match=expected):
        owner.latest_intact()


def test_a_deleted_snapshot_is_gone(folder: SnapshotFolder, owner: Ownership, objects: Folder) -> None:
    """The blobs that another one needs stay."""
    first = _commit(folder, owner, 1)
    second = _commit(folder, owner, 2, *first.blobs)
    owner.delete(1)
    assert owner.snapshots() == [second]
    assert set(objects.sizes("parts/")) == {blob.name for blob in second.blobs}
    with pytest.raises(SnapshotError, match=r"has no snapshot 1: .* lists them"):
        owner.delete(1)
    owner.delete(2)
    assert objects.sizes("parts/") == {}


def test_with_the_last_snapshot_all_goes(folder: SnapshotFolder, owner: Ownership, objects: Folder) -> None:
    """Nothing is left of the folder, and the next job finds a new one."""
    _commit(folder, owner, 1)
    _commit(folder, owner, 2)
    owner.delete(2)
    owner.delete(1)
    owner.release()
    assert [*objects.sizes("log/"), *objects.sizes("parts/"), *objects.sizes("heartbeats/")] == []
    assert is_url(folder.url) or not Path(folder.url).exists()
    with folder.claim("next") as following:
        assert (following.snapshots(), following.next_snapshot) == ([], 1)


def test_what_comes_after_a_deletion_stays(folder: SnapshotFolder, owner: Ownership, objects: Folder) -> None:
    """A snapshot that is committed once all are deleted, and the claim of another owner."""
    _commit(folder, owner, 1)
    owner.delete(1)
    second = _commit(folder, owner, 2)
    owner.release()
    with folder.claim("next") as following:
        assert following.snapshots() == [second]
        following.delete(2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heartbeat, "beats", lambda *_: False)
            other = folder.claim("other")
        third = _commit(folder, other, 3)
    assert [stored.manifest for stored in folder.stored_snapshots()] == [third]
    other.release()


def test_half_written_entries_go(folder: SnapshotFolder, owner: Ownership, objects: Folder) -> None:
    """A writer that was killed leaves them in a folder of a machine."""
    halves = ["log/0000000001.json.0f.partial", "parts/000001-0000000001-w0.0f.partial"]
    for name in halves:
        objects.write(name, [memoryview(b"x")])
    _commit(folder, owner, 1)
    owner.prune()
    assert not {*halves} & {*objects.sizes("log/"), *objects.sizes("parts/")}
