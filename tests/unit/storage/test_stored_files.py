"""Files that are found, in folders and in object stores."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.progress import GraphError
from tidewheel.storage.epoch_manifests import BEGUN, MANIFESTS, EpochManifest, manifest_bytes
from tidewheel.storage.object_store import RemoteFolder
from tidewheel.storage.stored_files import FileFinder, opened

NAMES = ["a.txt", "b.txt", "deep/er/c.txt", ".tmp/d.txt", "_temporary/d.txt", ".tmp.txt", "_temporary.txt"]


@pytest.fixture(params=["folder", "bucket"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place with these files."""
    if request.param == "folder":
        for name in NAMES:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(name)
        return str(tmp_path)
    bucket: str = request.getfixturevalue("bucket")
    for name in NAMES:
        RemoteFolder(f"{bucket}/some", 20, OSError).write(name, [memoryview(name.encode())])
    RemoteFolder(bucket, 20, OSError).write("somewhere/x.txt", [memoryview(b"x")])
    return f"{bucket}/some"


def found(base: str, *names: str) -> list[str]:
    paths = [f"{base}/{name}" if name else base for name in names]
    return [file.path.removeprefix(f"{base}/") for file in FileFinder("test", paths, GraphError).find()]


def test_files_are_found_by_path_pattern_and_folder(base: str) -> None:
    """Each once, in the order of their names; what is hidden in a folder is unfinished."""
    everything = ["a.txt", "b.txt", "deep/er/c.txt"]
    assert found(base, "") == found(base, "", "a.txt", "[ab].txt") == everything
    assert found(base, "[ab].txt") == found(base, "[a-b].*") == everything[:2]
    assert found(base, "**/[abc].txt") == everything
    assert found(base, "deep", "b.txt") == everything[1:]
    assert found(base, "deep/*") == found(base, "nothing", "nothing/*") == []


def test_a_url_of_files_is_a_path(tmp_path: Path) -> None:
    """With another slash before it."""
    (tmp_path / "a b.txt").write_text("x")
    [file] = FileFinder("test", f"file://{tmp_path}/a%20b.txt", GraphError).find()
    assert file.path == str(tmp_path / "a b.txt")


def test_a_version_changes_with_the_content(tmp_path: Path, bucket: str) -> None:
    """And not by itself."""
    (tmp_path / "file").write_text("one")
    RemoteFolder(bucket, 20, OSError).write("file", [memoryview(b"one")])
    finders = [FileFinder("test", place, GraphError) for place in (tmp_path / "file", f"{bucket}/file")]
    before = [finder.find() for finder in finders]
    assert [finder.find() for finder in finders] == before
    (tmp_path / "other").write_text("two")
    (tmp_path / "other").rename(tmp_path / "file")
    RemoteFolder(bucket, 20, OSError).write("file", [memoryview(b"two")])
    for finder, [file] in zip(finders, before, strict=True):
        [now] = finder.find()
        assert (now.path, now.size) == (file.path, file.size)
        assert now.version != file.version
        with opened(now) as reader:
            assert reader.read() == b"two"


def test_of_epochs_the_committed_ones_are_found(bucket: str) -> None:
    """Those files that manifests list, and none before the first manifest."""
    folder = RemoteFolder(f"{bucket}/out", 20, OSError)
    finder = FileFinder("test", f"{bucket}/out", GraphError)
    folder.put_new(BEGUN, b"")
    for name in ("epoch=0/a", "epoch=0/b", "epoch=1/a"):
        folder.write(name, [memoryview(b"x")])
    assert finder.find() == []
    folder.put_new(f"{MANIFESTS}epoch=0.json", manifest_bytes(EpochManifest("run", ("epoch=0/b",))))
    assert [file.path for file in finder.find()] == [f"{bucket}/out/epoch=0/b"]
    folder.put_new(f"{MANIFESTS}epoch=1.json", manifest_bytes(EpochManifest("run", ("epoch=1/a",))))
    assert [file.path for file in finder.find()] == [f"{bucket}/out/epoch=0/b", f"{bucket}/out/epoch=1/a"]


@pytest.mark.parametrize("content", [b"text", b'{"run": "a", "files": [], "version": 9}'])
def test_what_is_no_manifest_is_an_error(bucket: str, content: bytes) -> None:
    """It is not taken for an epoch without files."""
    RemoteFolder(f"{bucket}/out", 20, OSError).put_new(f"{MANIFESTS}epoch=0.json", content)
    with pytest.raises(OSError, match=r"epoch=0.json (is no manifest of an epoch|has version 9)"):
        FileFinder("test", f"{bucket}/out", GraphError).find()


@pytest.mark.parametrize("paths", [[], [3], None, "", "ftp://host/x", "s3://user:secret@bucket/x", "s3://bucket/?.txt"])
def test_what_is_no_path_is_refused(paths: Any) -> None:
    """When the source is described."""
    with raises(GraphError) as error:
        FileFinder("test", paths, GraphError)
    assert "secret" not in str(error.value)
