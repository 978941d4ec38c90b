"""The source of files: each file once, in one version, wherever it is and whenever it arrives."""

import gzip
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import tidewheel as tw
from tests.kit.connectors.files_by_name import ByBaseName
from tests.kit.messages import raises
from tests.waiting import WITHIN_S as DEADLINE_S
from tests.waiting import eventually
from tidewheel.storage.object_store import RemoteFolder
from tidewheel.storage.stored_files import StoredFile
from tidewheel.testing import check_source

LOOKS_EVERY_S = 0.02


class Place:
    """A folder in which files appear, of either kind."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = RemoteFolder(url, 20, OSError) if "://" in url else None

    def put(self, name: str, *lines: str) -> None:
        """Put a whole file."""
        data = "".join(f"{line}\n" for line in lines).encode()
        if self._store is not None:
            self._store.write(name, [memoryview(data)])
            return
        path = Path(self.url, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}").write_bytes(data)
        path.with_name(f".{path.name}").rename(path)

    def remove(self, name: str) -> None:
        if self._store is not None:
            self._store.remove([name])
        else:
            Path(self.url, name).unlink()


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty folder."""
    if request.param == "bucket":
        return Place(f"{request.getfixturevalue('bucket')}/in")
    (tmp_path / "in").mkdir()
    return Place(str(tmp_path / "in"))


def flow_of(source: Any, **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.source("files", source, **options).probe("read").capture("results")
    return flow


def epochs_of(source: Any, workers: int = 1, **options: Any) -> dict[int, list[Any]]:
    """Return the records of each epoch, sorted."""
    with tw.run(flow_of(source, **options), workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        return captured(job)


def captured(job: tw.types.Job) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for one in job.captured("results"):
        found.setdefault(one.time, []).extend(one.batch if isinstance(one.batch, list) else one.batch.to_pylist())
    return {time: sorted(batch, key=repr) for time, batch in sorted(found.items())}


def lines_of(job: tw.types.Job) -> list[str]:
    return sorted(line for batch in captured(job).values() for line in batch)


def runs_to(job: tw.types.Job, lines: int) -> bool:
    """Run a round; tell whether so many lines were read."""
    job.run_round()  # type: ignore[attr-defined]
    return len(lines_of(job)) == lines


def runs_until(job: tw.types.Job, condition: Callable[[], bool]) -> None:
    """Run a local job until a condition holds."""

    def holds() -> bool:
        job.run_round()  # type: ignore[attr-defined]
        return condition()

    assert eventually(holds, DEADLINE_S)


def reading_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "?version=" in thread.name]


# ---------------------------------------------------------------------- files that are there


@pytest.mark.parametrize("workers", [1, 3])
def test_each_file_is_an_epoch(place: Place, workers: int) -> None:
    """Whatever workers read them; the lines of one file are together."""
    files = {f"{n}.txt": [f"{n} {line}" for line in range(n)] for n in range(1, 5)}
    for name, lines in files.items():
        place.put(name, *lines)
    found = epochs_of(tw.FileSource(place.url), workers)
    if workers == 1:
        assert len(found) == 4
    assert sorted(line for lines in found.values() for line in lines) == sorted(
        line for lines in files.values() for line in lines
    )
    for lines in files.values():
        assert sum(set(lines) <= set(batch) for batch in found.values()) == 1


def test_an_epoch_ends_inside_a_file_if_it_may(tmp_path: Path) -> None:
    """Then behind a batch of it; otherwise a file is in one epoch, however small epochs are to be."""
    pq.write_table(pa.table({"n": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    assert {time: len(rows) for time, rows in epochs_of(tw.FileSource(tmp_path), epoch_records=30).items()} == {0: 100}
    divided = epochs_of(tw.FileSource(tmp_path, whole_files=False), epoch_records=30)
    assert {time: len(rows) for time, rows in divided.items()} == {0: 30, 1: 30, 2: 30, 3: 10}


def test_files_of_each_format_are_rows(tmp_path: Path) -> None:
    """Told by what their names end in, or by format=."""
    table = pa.table({"n": [1, 2], "name": ["a", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "a.jsonl").write_text('{"n": 1, "name": "a"}\n{"n": 2, "name": "b"}\n')
    (tmp_path / "plain").write_text('{"n": 1, "name": "a"}\n{"n": 2, "name": "b"}\n')
    for name in ("a.parquet", "a.csv", "a.csv.gz", "a.arrow", "a.jsonl"):
        assert epochs_of(tw.FileSource(tmp_path / name)) == {0: table.to_pylist()}, name
    assert epochs_of(tw.FileSource(tmp_path / "plain", "jsonl")) == {0: table.to_pylist()}
    assert epochs_of(tw.FileSource(tmp_path / "plain", "text")) == {
        0: ['{"n": 1, "name": "a"}', '{"n": 2, "name": "b"}']
    }


# ---------------------------------------------------------------------- columns that differ


def write_days(folder: Path, **days: pa.Table) -> None:
    for name, table in days.items():
        pq.write_table(table, folder / f"{name}.parquet")


MONDAY = pa.table({"n": [1], "m": ["x"]})


def test_a_column_that_a_later_file_lacks_is_null(tmp_path: Path) -> None:
    """As the first file has it."""
    write_days(tmp_path, a=MONDAY, b=pa.table({"n": [2]}))
    assert epochs_of(tw.FileSource(tmp_path)) == {0: [{"n": 1, "m": "x"}], 1: [{"n": 2, "m": None}]}


def test_a_new_column_is_an_error_unless_it_is_said_what_to_do(tmp_path: Path) -> None:
    """schema= takes it in, columns= leaves it out."""
    write_days(tmp_path, a=MONDAY, b=pa.table({"n": [2], "m": ["y"], "new": [0]}))
    with raises(tw.JobError):
        epochs_of(tw.FileSource(tmp_path))
    assert epochs_of(tw.FileSource(tmp_path, columns=["n"])) == {0: [{"n": 1}], 1: [{"n": 2}]}
    schema = pa.schema({"n": pa.int64(), "new": pa.int64()})
    assert epochs_of(tw.FileSource(tmp_path, schema=schema)) == {0: [{"n": 1, "new": None}], 1: [{"n": 2, "new": 0}]}


def test_another_type_is_converted_if_no_value_changes(tmp_path: Path) -> None:
    """Otherwise it is an error."""
    write_days(tmp_path, a=MONDAY, b=pa.table({"n": pa.array([2], pa.int8()), "m": ["y"]}))
    assert epochs_of(tw.FileSource(tmp_path))[1] == [{"n": 2, "m": "y"}]
    write_days(tmp_path, b=pa.table({"n": ["2"], "m": ["y"]}))
    with raises(tw.JobError):
        epochs_of(tw.FileSource(tmp_path))
    wide = pa.schema({"n": pa.float64()})
    write_days(tmp_path, b=pa.table({"n": [2.5]}))
    assert epochs_of(tw.FileSource(tmp_path, schema=wide)) == {0: [{"n": 1.0}], 1: [{"n": 2.5}]}


# ---------------------------------------------------------------------- watched folders


def test_files_that_arrive_are_read_once(place: Place) -> None:
    """In any order of their names, also while others are read; an epoch is complete while the job waits for more."""
    place.put("m.txt", "m")
    source = tw.FileSource(f"{place.url}/*.txt", watch_every_s=LOOKS_EVERY_S)
    with tw.run(flow_of(source), workers=2, engine="local") as job:
        runs_until(job, lambda: lines_of(job) == ["m"])
        for names in (["z"], ["a", "c"], ["b"]):
            for name in names:
                place.put(f"{name}.txt", name)
            expected = sorted({*lines_of(job), *names})
            runs_until(job, lambda expected=expected: lines_of(job) == expected)  # type: ignore[misc]
        runs_until(job, lambda: not job.probe("read").frontier.less_equal(0))
        assert Counter(lines_of(job)) == Counter("mzacb")
        job.stop()


def test_a_file_that_is_replaced_is_an_error(place: Place) -> None:
    """Its records are in the results already. The error names it."""
    place.put("a.txt", "a")
    source = tw.FileSource(f"{place.url}/*.txt", watch_every_s=LOOKS_EVERY_S)
    job = tw.run(flow_of(source), engine="local")
    runs_until(job, lambda: lines_of(job) == ["a"])
    place.put("a.txt", "b")
    with pytest.raises(tw.JobError, match=r"a\.txt has another content") as error:
        runs_until(job, lambda: False)
    assert isinstance(error.value.__cause__, tw.errors.FileChanged)
    assert error.value.__cause__.path == f"{place.url}/a.txt"


def test_a_file_that_is_replaced_between_two_runs_is_an_error(place: Place, tmp_path: Path) -> None:
    """The snapshot has the version that was read. The job goes on once the file has a name of its own."""

    def begin() -> tw.types.Job:
        source = tw.FileSource(f"{place.url}/*.txt", watch_every_s=LOOKS_EVERY_S)
        return tw.run(flow_of(source), engine="local", snapshots=tw.Snapshots(tmp_path / "snapshots", every_s=1000))

    place.put("a.txt", "a")
    with begin() as job:
        runs_until(job, lambda: lines_of(job) == ["a"] and not reading_threads())
        runs_until(job, lambda: not job.run_round())  # type: ignore[attr-defined]
        job.stop(snapshot=True)
    place.put("a.txt", "b")
    job = begin()
    with pytest.raises(tw.JobError, match=r"a\.txt has another content"):
        runs_until(job, lambda: False)
    place.remove("a.txt")
    place.put("b.txt", "b")
    with begin() as job:
        runs_until(job, lambda: lines_of(job) == ["a", "b"])
        job.stop()


def test_a_file_that_was_read_may_be_removed(place: Place) -> None:
    """And its name used again, once a look has missed it."""
    place.put("a.txt", "a")
    source = tw.FileSource(f"{place.url}/*.txt", watch_every_s=LOOKS_EVERY_S)
    with tw.run(flow_of(source), engine="local") as job:
        runs_until(job, lambda: lines_of(job) == ["a"])
        place.remove("a.txt")
        place.put("b.txt", "b")
        runs_until(job, lambda: lines_of(job) == ["a", "b"])
        place.put("a.txt", "c")
        runs_until(job, lambda: lines_of(job) == ["a", "b", "c"])
        job.stop()


def test_a_half_written_file_is_waited_for(tmp_path: Path) -> None:
    """One that is not renamed but written in place: it is read once it does not change any more."""
    source = tw.FileSource(tmp_path, "parquet", schema=pa.schema({"n": pa.int64()}), watch_every_s=0.5)
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / ".whole")
    whole = (tmp_path / ".whole").read_bytes()
    with (tmp_path / "a.parquet").open("wb", buffering=0) as file:
        for part in (whole[:100], whole[100:2000], whole[2000:]):
            file.write(part)
            assert source.partitions() == []
    assert eventually(lambda: bool(source.partitions()))
    [name] = source.partitions()
    assert StoredFile.named(str(name)).size == len(whole)


def test_a_file_that_grows_later_completes_no_epoch(tmp_path: Path) -> None:
    """It looks whole at first. The job fails, and no epoch with its records was complete."""
    path = tmp_path / "a.txt"
    path.write_text("line\n" * 2_000_000)
    os.utime(path, (0, 0))
    source = tw.FileSource(path, watch_every_s=60)
    job = tw.run(flow_of(source), engine="local")
    runs_until(job, lambda: bool(captured(job)))
    with path.open("a") as more:
        more.write("more\n")
    with pytest.raises(tw.JobError, match="was replaced or written to since it was found"):
        runs_until(job, lambda: not job.probe("read").frontier.less_equal(0))


def test_a_watched_folder_needs_a_schema_before_its_first_file(tmp_path: Path) -> None:
    """As later files are compared with it; lines need none."""
    with raises(tw.GraphError):
        tw.FileSource(tmp_path, "parquet", watch_every_s=1)
    tw.FileSource(tmp_path, "text", watch_every_s=1)
    tw.FileSource(f"{tmp_path}/*.jsonl", watch_every_s=1)


def test_epochs_of_a_writer_are_read_as_they_come(place: Place) -> None:
    """One job writes, another reads: whole epochs only, in folders and in stores."""
    out = f"{place.url}/out"
    if "://" not in out:
        Path(out).mkdir()
    writing = tw.Dataflow("writer")
    writing.input("numbers").write_files(out, "jsonl")
    source = tw.FileSource(out, "jsonl", watch_every_s=LOOKS_EVERY_S)
    with tw.run(writing, engine="local") as writer, tw.run(flow_of(source), engine="local") as reader:
        for epoch in range(3):
            writer.input("numbers").send([epoch, epoch])
            while writer.run_round():  # type: ignore[attr-defined]
                pass
            reader.run_round()  # type: ignore[attr-defined]
            writer.input("numbers").advance_to(epoch + 1)
            runs_until(writer, lambda epoch=epoch: runs_to(reader, 2 * (epoch + 1)))  # type: ignore[misc]
        assert Counter(lines_of(reader)) == Counter({0: 2, 1: 2, 2: 2})
        reader.stop()
        writer.stop()


# ---------------------------------------------------------------------- crashes


@pytest.mark.parametrize(
    ("kind", "watch"),
    [
        ("folder", None),
        ("folder", LOOKS_EVERY_S),
        ("bucket", None),
        pytest.param("bucket", LOOKS_EVERY_S, marks=pytest.mark.long),
    ],
)
def test_the_check_of_sources_passes(kind: str, watch: float | None, request: pytest.FixtureRequest) -> None:
    """A job that crashes at any call, and goes on with other workers, has each record once."""
    files: dict[str | int, list[str]] = {"a.txt": ["1", "2"], "c.txt": ["3"]}
    later: dict[str | int, list[str]] = {"b.txt": ["4", "5"]} if watch else {}

    def place_of(folder: Path) -> Place:
        if kind == "folder":
            return Place(str(folder))
        return Place(f"{request.getfixturevalue('bucket')}/{folder.parent.name}")

    def put(folder: Path, files: dict[str | int, list[str]]) -> None:
        for name, lines in files.items():
            place_of(folder).put(str(name), *lines)

    def make(folder: Path) -> tw.FileSource:
        put(folder, files)
        return ByBaseName(f"{place_of(folder).url}/*.txt", watch_every_s=watch)

    grow = (lambda folder: put(folder, later)) if watch else None
    check_source(make, {**files, **later}, grow=grow)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nothing.txt", {}),
        ("*.nothing", {}),
        ("a.bin", {}),
        ("*", {}),
        ("a.csv", {"format": "xls"}),
        ("a.csv", {"columns": "n"}),
        ("a.csv", {"columns": ["typo"]}),
        ("a.csv", {"format": "parquet"}),
        ("a.csv", {"columns": ["m"], "schema": pa.schema({"n": pa.int64()})}),
        ("a.csv", {"watch_every_s": 0}),
        ("a.txt", {"columns": ["n"]}),
        ("a.txt", {"encoding": "utf-16"}),
        ("a.txt", {"encoding": "nonsense"}),
        ("a.jsonl", {"columns": ["n"]}),
        ("empty.csv", {}),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused_at_once(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """When the source is made, and not on the workers."""
    (tmp_path / "a.csv").write_text("n\n1\n")
    for other in ("a.bin", "a.txt", "a.jsonl", "empty.csv"):
        (tmp_path / other).touch()
    with raises(tw.GraphError):
        tw.FileSource(tmp_path / name, **options)


def test_a_bucket_that_is_not_there_is_refused_at_once(bucket: str) -> None:
    """The error says what is missing."""
    assert bucket
    with raises(tw.GraphError):
        tw.FileSource("s3://not-there/x.txt")


def test_what_is_no_file_of_the_format_fails_the_job(tmp_path: Path) -> None:
    """The error names the file."""
    csv.write_csv(pa.table({"n": [1]}), tmp_path / "a.csv")
    shutil.copy(tmp_path / "a.csv", tmp_path / "b.csv")
    (tmp_path / "b.csv").write_text("n\n1\nx\n")
    with raises(tw.JobError) as error:
        epochs_of(tw.FileSource(tmp_path))
    assert f"This is file {tmp_path / 'b.csv'}." in error.value.traceback_text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", b"plain"),
        ("a.txt.gz", gzip.compress(b"one\n" * 10_000)[:-20]),
        ("a.txt.bz2", b"plain"),
        ("a.txt.xz", b"plain"),
        ("a.txt.zst", b"plain"),
    ],
    ids=["no gzip", "damaged gzip", "no bzip2", "no xz", "no zstd"],
)
def test_what_is_no_archive_fails_the_job(tmp_path: Path, name: str, content: bytes) -> None:
    """Each way to compress has errors of its own; all say which file it is, and none is taken for a short file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(tw.JobError) as error:
        epochs_of(tw.FileSource(tmp_path))
    assert f"This is file {tmp_path / name}." in error.value.traceback_text


def test_files_are_closed_when_the_job_ends(tmp_path: Path) -> None:
    """Though it has not read them to their ends; and one at a time is open."""
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("line\n" * 6_000_000)

    def open_files() -> int:
        return sum(file.path.startswith(str(tmp_path)) for file in psutil.Process().open_files())

    with tw.run(flow_of(tw.FileSource(tmp_path)), engine="local") as job:
        runs_until(job, lambda: open_files() == 1)
        job.stop()
    assert open_files() == 0


def test_each_path_needs_a_file(tmp_path: Path) -> None:
    """One that is mistyped is not passed over because another has some."""
    (tmp_path / "a.txt").touch()
    with raises(tw.GraphError):
        tw.FileSource([tmp_path / "a.txt", tmp_path / "typo"])
