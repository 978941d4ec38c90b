"""write_files to an object store: what can be seen of an epoch, and when, whichever runs write there."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, Feed, send, settle
from tidewheel.operators.files.file_readers import ArrowReader, CsvReader, JsonLinesReader, ParquetReader, TextReader
from tidewheel.operators.sinks.epoch_objects import EpochObjects
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.storage.object_store import RemoteFolder
from tidewheel.storage.stored_files import FileFinder

READERS: dict[str, Any] = {
    "parquet": ParquetReader(),
    "csv": CsvReader(),
    "jsonl": JsonLinesReader(),
    "arrow": ArrowReader(),
    "text": TextReader(),
}


def flow_to(url: str, **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(lambda n: n).write_files(url, options.pop("format", "jsonl"), **options).capture("w")
    return flow


def write(url: str, feed: Feed, workers: int = 2, **options: Any) -> list[tw.types.WrittenEpoch]:
    """Write a feed to its end and return what was written."""
    with tw.run(flow_to(url, **options), workers=workers, engine="local") as job:
        send(job, "numbers", feed)
        job.wait(DEADLINE_S)
        return [record for captured in job.captured("w") for record in captured.batch]


def seen(url: str, kind: str = "jsonl") -> dict[str, list[Any]]:
    """Return what a reader finds in each epoch."""
    found: dict[str, list[Any]] = {}
    for file in FileFinder("test", url, OSError).find():
        for batch, _ in READERS[kind].read(file):
            rows = batch if isinstance(batch, list) else [row["value"] for row in batch.to_pylist()]
            found.setdefault(file.path.split("/")[-2], []).extend(rows)
    return {epoch: sorted(rows) for epoch, rows in found.items()}


def objects(url: str) -> list[str]:
    return sorted(RemoteFolder(url, 20, OSError).sizes(""))


@pytest.mark.parametrize("workers", [1, 3])
def test_an_epoch_is_seen_whole_or_not_at_all(bucket: str, workers: int) -> None:
    """Whenever one looks: an epoch that is there has the records of all workers, and does not change any more."""
    url = f"{bucket}/out"
    expected = {f"epoch={epoch}": [10 * epoch + n for n in range(5)] for epoch in range(2)}
    looks = []
    with tw.run(flow_to(url), workers=workers, engine="local") as job:
        for epoch in range(2):
            for n in range(5):
                job.input("numbers").send([10 * epoch + n])
            job.input("numbers").advance_to(epoch + 1)
            while job.run_round():  # type: ignore[attr-defined]
                looks.append(seen(url))
                assert looks[-1].items() <= expected.items()
            assert len(looks[-1]) == epoch + 1
        job.stop()
    assert any(len(look) == 0 for look in looks)


@pytest.mark.parametrize(
    ("kind", "compression"),
    [
        ("parquet", None),
        ("parquet", "zstd"),
        ("arrow", "lz4"),
        ("csv", "gzip"),
        ("jsonl", "zstd"),
        ("text", None),
        ("text", "bz2"),
    ],
)
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_each_format_is_read_as_it_was_written(
    kind: Any, compression: Any, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In a folder and in a store, compressed or not; the file says so in its name."""
    url = str(tmp_path / "out") if place == "folder" else f"{request.getfixturevalue('bucket')}/out"
    flow = tw.Dataflow("test")
    records = ["tide", "wheel", "ß"]
    flow.source("words", tw.RecordSource(records)).write_files(url, kind, compression=compression)
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
    assert seen(url, kind) == {"epoch=0": records}
    [file] = FileFinder("test", url, OSError).find()
    assert file.path.endswith(FileFormat(kind, compression).suffix)


@pytest.mark.parametrize("record", [3, "two\nlines", "two\rlines", None])
def test_what_is_no_line_is_not_written_as_text(tmp_path: Path, record: Any) -> None:
    """It would be another record when it is read."""
    flow = tw.Dataflow("test")
    flow.source("words", tw.RecordSource([record])).write_files(tmp_path, "text")
    with raises(tw.JobError):
        tw.run(flow, engine="local").wait(DEADLINE_S)


@pytest.mark.parametrize(("kind", "compression"), [("parquet", "bz2"), ("csv", "snappy"), ("arrow", "gzip")])
def test_formats_are_compressed_as_they_can_be(kind: Any, compression: Any) -> None:
    """When the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("test").input("numbers").write_files("out", kind, compression=compression)


def test_epochs_of_other_runs_are_not_touched(bucket: str) -> None:
    """The second run fails at the first of them, unless it may replace them; the others stay."""
    url = f"{bucket}/out"
    [written] = write(url, [(0, [1, 2])])
    assert (written.path, written.files, written.records) == (f"{url}/epoch=0", 1, 2)
    with pytest.raises(tw.JobError, match="epoch=0 is there already, of another run"):
        write(url, [(0, [3])])
    write(url, [(1, [4])])
    assert seen(url) == {"epoch=0": [1, 2], "epoch=1": [4]}
    write(url, [(0, [5]), (2, [6])], overwrite=True)
    assert seen(url) == {"epoch=0": [5], "epoch=1": [4], "epoch=2": [6]}
    files = [name for name in objects(url) if name.startswith("epoch=")]
    assert len(files) == 3, "the files that were replaced are removed"


def test_the_first_commit_of_an_epoch_stays(bucket: str) -> None:
    """A worker that was thought dead commits late, or early: one of the two, whole, and nothing of the other."""
    sinks = [EpochObjects(f"{bucket}/out", FileFormat("jsonl"), run="run") for _ in range(2)]
    for sink in sinks:
        assert sink.last_committed() is None
    parts = [[sink.prepare(7, [[number, number]])] for number, sink in enumerate(sinks)]
    assert seen(f"{bucket}/out") == {}
    for sink, part in zip(sinks, parts, strict=True):
        sink.commit(7, part)
        assert seen(f"{bucket}/out") == {"epoch=7": [0, 0]}
        assert sink.last_committed() == 7
    sinks[0].prepare(7, [[2]])
    assert seen(f"{bucket}/out") == {"epoch=7": [0, 0]}


def test_two_jobs_at_once_are_an_error(bucket: str) -> None:
    """The one that comes second at an epoch fails, and does not take the other's for its own."""
    sinks = [EpochObjects(f"{bucket}/out", FileFormat("jsonl"), run=f"run {n}") for n in range(2)]
    sinks[0].commit(0, [sinks[0].prepare(0, [[1]])])
    part = sinks[1].prepare(0, [[2]])
    with pytest.raises(FileExistsError, match="epoch=0 is there already, of another run"):
        sinks[1].commit(0, [part])
    assert seen(f"{bucket}/out") == {"epoch=0": [1]}


@pytest.mark.parametrize("takes", [False, True])
def test_a_job_that_begins_again_goes_on_with_its_own_output(bucket: str, takes: bool, tmp_path: Path) -> None:
    """With a snapshot or from its beginning, on another number of workers: all is there once."""
    url, epochs = f"{bucket}/out", [[1, 2], [3], [4, 5]]
    for until, workers in ((1, 2), (2, 1), (3, 3)):
        snapshots = tw.Snapshots(tmp_path / "snapshots", every_s=1000)
        with tw.run(flow_to(url, visible="epoch"), workers=workers, engine="local", snapshots=snapshots) as job:
            numbers = job.input("numbers")
            for time in range(numbers.position.batches, until):
                numbers.advance_to(time)
                numbers.send(epochs[time])
            numbers.advance_to(until)
            settle(job)
            job.stop(snapshot=takes)
        assert seen(url) == {f"epoch={time}": epochs[time] for time in range(until)}
    assert Counter(name.partition("/")[0] for name in objects(url))["_epochs"] == 4
    with pytest.raises(tw.JobError, match="epoch=0 is there already, of another run"):
        write(url, [(0, [9])])
