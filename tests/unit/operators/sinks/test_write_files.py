"""The write_files operator: what can be seen of an epoch, and when."""

import datetime
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, Feed, send, settle
from tests.waiting import eventually
from tidewheel.operators.sinks import write_files
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.storage.stored_files import FileFinder, opened
from tidewheel.storage.whole_folders import WholeFolders


def rows_in(folder: str | Path) -> Iterator[Any]:
    """Yield what the files of one epoch have."""
    for file in sorted(Path(folder).iterdir()):
        if file.suffix == ".parquet":
            yield from pq.ParquetFile(file).read().to_pylist()
        elif file.suffix == ".csv":
            yield from pyarrow.csv.read_csv(file).to_pylist()
        else:
            yield from msgspec.json.Decoder().decode_lines(file.read_text())


def write(folder: Path, feed: Feed, workers: int = 2, **options: Any) -> list[tw.types.WrittenEpoch]:
    """Write a feed to its end and return what was written."""
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(lambda n: n).write_files(folder, **options).capture("written")
    with tw.run(flow, workers=workers, engine="local") as job:
        send(job, "numbers", feed)
        job.wait(DEADLINE_S)
        return [record for captured in job.captured("written") for record in captured.batch]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def seen(folder: Path) -> dict[str, list[int]]:
    """Return what those see who look at the folder as it is."""
    return {name: sorted(row["value"] for row in rows_in(folder / name)) for name in names(folder) if name[:1] != "."}


@pytest.mark.parametrize("workers", [1, 3])
def test_an_epoch_is_seen_whole_or_not_at_all(tmp_path: Path, workers: int) -> None:
    """Whenever one looks: a folder that is there has the records of all workers, and does not change any more."""
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(lambda n: n).write_files(tmp_path / "out").probe("written")
    expected = {f"epoch={epoch}": [10 * epoch + n for n in range(7)] for epoch in range(4)}
    looks: list[dict[str, list[int]]] = []
    with tw.run(flow, workers=workers, engine="local") as job:
        for epoch in range(4):
            for n in range(7):
                job.input("numbers").send([10 * epoch + n])
            job.input("numbers").advance_to(epoch + 1)
            while job.run_round():  # type: ignore[attr-defined]
                looks.append(seen(tmp_path / "out"))
                assert looks[-1].items() <= expected.items()
            assert len(looks[-1]) == epoch + 1
            job.probe("written").wait_until(epoch + 1, DEADLINE_S)
        job.stop()
    assert seen(tmp_path / "out") == expected
    assert any(len(look) == 0 for look in looks)


def test_what_is_unfinished_is_hidden(tmp_path: Path) -> None:
    """An epoch that has begun is in a folder whose name says so, and is gone with the next run if it never ended."""
    flow = tw.Dataflow("test")
    flow.input("numbers").write_files(tmp_path, file_bytes=1)
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        settle(job)
        assert names(tmp_path) == [".tmp-epoch=0"]
        job.stop()
    (tmp_path / "epoch=9").mkdir()
    (tmp_path / "other").touch()
    [written] = write(tmp_path, [(1, [1])])
    assert (written.time, written.path) == (1, str(tmp_path / "epoch=1"))
    assert names(tmp_path) == ["epoch=1", "epoch=9", "other"]


def test_what_others_have_there_is_not_touched(tmp_path: Path) -> None:
    """Hidden or not, and whatever it begins with: only folders of epochs are cleaned up."""
    theirs = [".old-mine", ".old-note", ".tmp-epoch=7", ".tmp-mine", ".tmp-note"]
    for name in theirs:
        if name.endswith("mine"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).touch()
    (tmp_path / ".tmp-epoch=8").mkdir()
    write(tmp_path, [(0, [1])])
    assert names(tmp_path) == [*theirs, "epoch=0"]


def test_one_writer_a_folder(tmp_path: Path) -> None:
    """Two would write the same names over each other; that is refused when the dataflow is described."""
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers")
    numbers.write_files(tmp_path / "a")
    message = r"write_files: dataflow 'test' writes to '.*/a' already: give each stream a place of its own, or concat"
    for again in (tmp_path / "a", str(tmp_path / "b" / ".." / "a")):
        with pytest.raises(tw.GraphError, match=message.replace("/a'", "a'")):
            numbers.write_files(again, "csv", overwrite=True)
    numbers.write_files(tmp_path / "b")
    tw.Dataflow("other").input("numbers").write_files(tmp_path / "a")


def test_epochs_that_are_there_are_not_touched(tmp_path: Path) -> None:
    """The second run fails at the first of them, and says what to do; what it has written before that stays."""
    write(tmp_path, [(0, [1]), (1, [2])])
    with raises(tw.JobError):
        write(tmp_path, [(1, [3])])
    with raises(tw.JobError):
        write(tmp_path, [(0, [4])])
    write(tmp_path, [(2, [5])])
    assert seen(tmp_path) == {"epoch=0": [1], "epoch=1": [2], "epoch=2": [5]}


def test_what_another_run_has_cleaned_up_is_an_error(tmp_path: Path) -> None:
    """Two runs on one folder: an epoch whose files are gone is not made visible as an empty one."""
    folders, others = write_files.EpochFolders(tmp_path, FileFormat("csv")), WholeFolders(tmp_path, "epoch=")
    others.recover()
    part = folders.prepare(7, [[1]])
    others.recover()
    with pytest.raises(FileNotFoundError):
        folders.commit(7, [part])
    assert names(tmp_path) == []


def test_epochs_may_be_replaced(tmp_path: Path) -> None:
    """Whole ones by whole ones; others stay."""
    write(tmp_path, [(0, [1]), (1, [2, 3, 4])], workers=3)
    write(tmp_path, [(1, [5]), (2, [6])], overwrite=True)
    assert seen(tmp_path) == {"epoch=0": [1], "epoch=1": [5], "epoch=2": [6]}
    assert [name for name in names(tmp_path) if name.startswith(".")] == []


def test_a_run_that_dies_while_it_replaces_an_epoch_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one was moved away, the new one not yet in its place: the next run moves the old one back."""
    write(tmp_path, [(0, [1])])
    rename = Path.rename

    def dies(path: Path, target: Any) -> Any:
        if path.name.startswith(".tmp-"):
            raise OSError("power failure")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dies)
        with raises(tw.JobError):
            write(tmp_path, [(0, [2])], overwrite=True)
    assert seen(tmp_path) == {}
    write(tmp_path, [(1, [3])])
    assert seen(tmp_path) == {"epoch=0": [1], "epoch=1": [3]}
    (tmp_path / ".old-epoch=0").mkdir()  # died after the new one was in its place
    write(tmp_path, [(2, [4])])
    assert names(tmp_path) == ["epoch=0", "epoch=1", "epoch=2"]


def test_files_are_on_disk_before_they_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and the folder are synced before the rename, and the folder above after it."""
    log: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        log.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def renamed(path: Path, target: Any) -> Any:
        log.append(f"rename {path.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "fdatasync", synced)  # a file's
    monkeypatch.setattr(Path, "rename", renamed)
    write(tmp_path, [(0, list(range(10)))], workers=2)
    files = {"sync part-00000-00000.parquet", "sync part-00001-00000.parquet"}
    assert set(log[:2]) == files
    assert log[2:] == ["sync .tmp-epoch=0", "rename .tmp-epoch=0", f"sync {tmp_path.name}"]


def test_large_epochs_are_written_as_they_come(tmp_path: Path) -> None:
    """A worker holds no more than so many bytes of an epoch; the rest is in files already."""
    flow = tw.Dataflow("test")
    flow.input("numbers").write_files(tmp_path, file_bytes=1000).capture("written")
    with tw.run(flow, engine="local") as job:
        for _ in range(10):
            job.input("numbers").send(pa.table({"value": range(100)}))
        settle(job)
        assert len(names(tmp_path / ".tmp-epoch=0")) == 5
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        [captured] = job.captured("written")
    [written] = captured.batch
    assert (written.files, written.records) == (5, 1000)
    assert Counter(seen(tmp_path)["epoch=0"]) == Counter(dict.fromkeys(range(100), 10))


def test_what_was_written_can_be_read(tmp_path: Path) -> None:
    """A source over the folder finds the files of complete epochs only."""
    write(tmp_path, [(0, [1, 2, 3]), (1, [4])])
    (tmp_path / ".tmp-epoch=2").mkdir()
    pq.write_table(pa.table({"value": [5]}), tmp_path / ".tmp-epoch=2" / "part-00000-00000.parquet")
    flow = tw.Dataflow("test")
    flow.source("numbers", tw.ParquetSource(tmp_path)).map(lambda row: row["value"]).capture("numbers")
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        assert sorted(n for captured in job.captured("numbers") for n in captured.batch) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("format_name", "batch", "expected"),
    [
        ("parquet", [{"a": 1}, {"b": "x", "a": None}], [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        ("parquet", [datetime.date(2024, 1, 1)], [{"value": datetime.date(2024, 1, 1)}]),
        ("parquet", np.array([(1, 2.5)], dtype=[("a", "i8"), ("b", "f8")]), [{"a": 1, "b": 2.5}]),
        ("parquet", pa.record_batch({"a": ["x"]}), [{"a": "x"}]),
        ("csv", [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
        ("jsonl", [{"a": [1, 2]}, (1, "x"), "text", None], [{"a": [1, 2]}, [1, "x"], "text", None]),
        ("jsonl", np.array([(1, 2.5)], dtype=[("a", "i8"), ("b", "f8")]), [{"a": 1, "b": 2.5}]),
        ("jsonl", pa.table({"a": [1, None]}), [{"a": 1}, {"a": None}]),
        ("jsonl", pa.table({"a": pa.array([1], "timestamp[ns]")}), [{"a": "1970-01-01T00:00:00.000000001"}]),
        ("jsonl", pa.table({"a": pa.array([1, None], "duration[ns]")}), [{"a": "P0DT0H0M0.000000001S"}, {"a": None}]),
        ("jsonl", np.array(["2024-01-01T00:00:01", "NaT"], "M8[ns]"), ["2024-01-01T00:00:01.000000000", None]),
        ("jsonl", [float("nan"), {"a": float("inf")}], [None, {"a": None}]),
    ],
)
def test_records_of_many_kinds_are_written(tmp_path: Path, format_name: Any, batch: Any, expected: Any) -> None:
    """Rows have the columns that their records have, what has none is in the column "value"."""
    flow = tw.Dataflow("test")
    flow.source("batch", tw.IterableSource([[(0, batch)]])).write_files(tmp_path, format_name)
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    assert list(rows_in(tmp_path / "epoch=0")) == expected


def test_batches_of_different_kinds_become_one_file(tmp_path: Path) -> None:
    """Columns that one of them lacks are null there, and numbers become of a type that holds all."""
    batches = [[{"n": 1}], pa.table({"n": [2.5], "m": ["x"]}), pa.table({"n": pa.nulls(1)})]
    flow = tw.Dataflow("test")
    flow.source("batches", tw.IterableSource([[(0, batch) for batch in batches]])).write_files(tmp_path)
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    rows = sorted(rows_in(tmp_path / "epoch=0"), key=str)
    assert rows == [{"n": 1.0, "m": None}, {"n": 2.5, "m": "x"}, {"n": None, "m": None}]


@pytest.mark.parametrize(
    ("format_name", "records", "message"),
    [
        (
            "parquet",
            [{"a": 1}, 2],
            "TypeError: some records are dicts, which have columns, and some are not, such as 2",
        ),
        ("parquet", [(1,), ("x",)], r"TypeError: records do not fit into columns, such as \[\(1,\)\]"),
        ("csv", ["x", 1], r"TypeError: records do not fit .*; map them to dicts first, whose names are the columns"),
        ("csv", [{"a": {"b": 1}}], r"TypeError: column 'a' is struct<b: int64>, which has no place in a line of csv"),
        ("parquet", [{"a": 1 << 70}], r"TypeError: records do not fit into columns, such as [^;]*$"),
        ("csv", [object()], "TypeError: records do not fit into columns"),
        ("jsonl", [object()], "TypeError: Encoding objects of type object is unsupported"),
    ],
)
def test_what_cannot_be_written_fails_the_job(
    tmp_path: Path, format_name: Any, records: list[Any], message: str
) -> None:
    """The error names the time, and nothing of the epoch is seen."""
    flow = tw.Dataflow("test")
    flow.source("records", tw.IterableSource([[(3, records)]])).write_files(tmp_path, format_name)
    with pytest.raises(tw.JobError, match=f"'write_files' failed on worker 0 at time 3: {message}"):
        tw.run(flow, engine="local").wait(DEADLINE_S)
    assert names(tmp_path) == [".tmp-epoch=3"]


def test_rounds_of_a_loop_can_be_written(tmp_path: Path) -> None:
    """A time of several coordinates makes a name of all of them."""

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        numbers.write_files(tmp_path)
        return numbers.map(lambda n: n - 1).filter(bool), numbers

    flow = tw.Dataflow("test")
    flow.input("numbers").iterate(body)
    with tw.run(flow, engine="local", workers=2) as job:
        send(job, "numbers", [(0, [2]), (1, [1])])
        job.wait(DEADLINE_S)
    assert seen(tmp_path) == {"epoch=0-0": [2], "epoch=0-1": [1], "epoch=1-0": [1]}


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((3,), {}, "write_files: a folder is a text or a pathlib.Path, not 3"),
        (("",), {}, "write_files: a folder is a text or a pathlib.Path, not ''"),
        (("out", "xls"), {}, "write_files: format is one of 'parquet', 'csv', 'jsonl', 'arrow', 'text', not 'xls'"),
        (("out",), {"file_bytes": 0}, "write_files: file_bytes is a whole number, 1 or more, not 0"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: Any, options: Any, message: str) -> None:
    """When the dataflow is described."""
    with pytest.raises(tw.GraphError, match=message):
        tw.Dataflow("test").input("numbers").write_files(*arguments, **options)


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_an_epoch_is_seen_once_a_snapshot_has_it(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Then no later run can compute another result for what readers have seen."""
    out = str(tmp_path / "out") if place == "folder" else f"{request.getfixturevalue('bucket')}/out"

    def visible() -> list[str]:
        return [file.path.split("/")[-2] for file in FileFinder("out", out, OSError).find()]

    flow = tw.Dataflow("test")
    flow.input("numbers").write_files(out, "jsonl")
    with tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path / "snapshots", every_s=1e9)) as job:
        for epoch in range(3):
            job.input("numbers").send([epoch])
            job.input("numbers").advance_to(epoch + 1)
            while job.run_round():  # type: ignore[attr-defined]
                saved = len(SnapshotFolder(tmp_path / "snapshots").stored_snapshots())
                assert not visible() or saved
            assert visible() == [f"epoch={n}" for n in range(epoch + 1)]
        job.stop()


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_each_record_is_written_once_though_epochs_differ_after_a_crash(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A job is cut off as soon as an epoch is seen; then a file comes that a watched folder lists before the others.

    So the job reads the files in other epochs if it goes back behind what was seen: one would be left out as written.
    """
    out = str(tmp_path / "out") if place == "folder" else f"{request.getfixturevalue('bucket')}/out"
    (tmp_path / "in").mkdir()

    def put(name: str) -> None:
        (tmp_path / name).write_text(f"{name}\n")
        os.utime(tmp_path / name, (0, 0))  # it has not changed for long
        (tmp_path / name).rename(tmp_path / "in" / name)

    def begin() -> LocalJob:
        flow = tw.Dataflow("test")
        source = tw.FileSource(tmp_path / "in", "text", watch_every_s=1000)
        flow.source("lines", source).write_files(out, "text").probe("written")
        job = tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path / "snapshots", every_s=1e9))
        assert isinstance(job, LocalJob)
        return job

    def written() -> list[str]:
        found: list[str] = []
        for file in FileFinder("out", out, OSError).find():
            with opened(file) as reader:
                found += reader.read().decode().split()
        return sorted(found)

    def has_written(job: LocalJob, lines: int) -> Callable[[], bool]:
        def look() -> bool:
            job.run_round()
            return len(written()) >= lines

        return look

    put("later.txt")
    with begin() as job:
        assert eventually(has_written(job, 1))
        job.stop()
    put("earlier.txt")
    with begin() as job:
        assert eventually(has_written(job, 2))
        job.stop(snapshot=True)
    assert written() == ["earlier.txt", "later.txt"]
