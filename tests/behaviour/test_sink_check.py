"""The check of sinks passes those that keep the contract, and refuses others with a message that says why."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators import sinks
from tests.kit.operators.sinks import Table, read_table
from tidewheel.operators.sinks.epoch_objects import EpochObjects
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.operators.sinks.write_files import EpochFolders
from tidewheel.progress import IntegerDomain, Time
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import WriterIdentity
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_sink import EpochSink
from tidewheel.storage.stored_files import FileFinder, opened
from tidewheel.storage.whole_folders import WholeFolders
from tidewheel.testing import check_sink

EPOCHS = [[3, 1], [], [4]]


def into(kind: type[Table]) -> Any:
    return lambda folder: kind(folder / "db")


def read(folder: Path) -> Mapping[Time, Iterable[int]]:
    return read_table(folder / "db")


def test_a_sink_that_keeps_the_contract_passes() -> None:
    """It is twenty lines: one transaction has the records and the epoch."""
    check_sink(into(Table), read, EPOCHS)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # as in a process that is killed
def test_what_was_open_at_a_crash_is_closed() -> None:
    """As the process that has opened it would be gone, such as a lock that the next one needs."""
    check_sink(into(sinks.Locks), read, [[1], [2]])


def test_the_sink_of_files_passes() -> None:
    """It is what `write_files` uses: files of an epoch in a hidden folder that is renamed."""

    def read_files(folder: Path) -> Mapping[Time, Iterable[int]]:
        return {
            int(epoch.name.removeprefix("epoch=")): [
                json.loads(line) for file in epoch.iterdir() for line in file.read_text().split()
            ]
            for epoch in folder.glob("epoch=*")
        }

    check_sink(lambda folder: FilesOfRecords(folder, FileFormat("jsonl")), read_files, EPOCHS)


class FilesOfRecords(EpochFolders):
    """Receives one batch, as other sinks do, and not a list of batches; cleans up before it says what is there."""

    def last_committed(self) -> Time | None:
        WholeFolders(self.root, "epoch=").recover(but_unfinished=True)
        return super().last_committed()

    def prepare(self, epoch: Time, records: Any) -> str:
        return super().prepare(epoch, [records])


@pytest.mark.parametrize("epochs", [[[3]], pytest.param([[3], [4]], marks=pytest.mark.long)], ids=["one", "two"])
def test_the_sink_of_files_in_a_store_passes(bucket: str, epochs: list[list[int]]) -> None:
    """It is what `write_files` uses for a URL: files under new names, and a manifest that is put if absent."""

    class Manifests(EpochObjects):
        """Receives one batch, as other sinks do, and not a list of batches."""

        def prepare(self, epoch: Time, records: Any) -> str:
            return super().prepare(epoch, [records])

    def url(folder: Path) -> str:
        return f"{bucket}/{folder.parent.name}"

    def read_files(folder: Path) -> Mapping[Time, Iterable[int]]:
        found: dict[Time, list[int]] = {}
        for file in FileFinder("test", url(folder), OSError).find():
            epoch = int(file.path.rpartition("epoch=")[2].partition("/")[0])
            with opened(file) as reader:
                found.setdefault(epoch, []).extend(map(json.loads, reader.read().split()))
        return found

    check_sink(lambda folder: Manifests(url(folder), FileFormat("jsonl")), read_files, epochs)


def test_the_sink_of_spark_tables_passes() -> None:
    """It is what `write_epochs` uses: a file that appears once its epochs are noted in a checkpoint."""

    def make(folder: Path) -> EpochSink:
        place = EpochFolder(WriterIdentity.new("topic", folder / "epochs", "parquet", "at"), folder / "checkpoint")
        place.close()
        return EpochSink(place.identity, place.checkpoint, IntegerDomain(), None)

    def read_tables(folder: Path) -> Mapping[Time, Iterable[Any]]:
        found: dict[Time, list[Any]] = {}
        for file in (folder / "epochs").glob("[!.]*"):
            for row in parquet.read_table(file).to_pylist():
                found.setdefault(row.pop("at"), []).append(row)
        return found

    check_sink(make, read_tables, [[{"n": n} for n in part] for part in EPOCHS])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (sinks.CommitsTwice, r"commit\(0\) was called again, and has to do nothing: epoch 0 misses \{\} and has"),
        (sinks.LosesPrepared, r"epoch 0 misses \{'3': 1, '1': 1\}"),
        (sinks.ShowsPrepared, r"a reader sees epoch 0 before its commit"),
        (sinks.KeepsOpen, r"prepare\(0\) returns .*closing.*, which travels and cannot be pickled: TypeError: cannot"),
        (sinks.SaysTooMuch, r"last_committed\(\) returns 0 before any commit, with a crash .* prepare\(0\)"),
        (sinks.SaysNothing, r"last_committed\(\) returns None after commit\(\d\) has returned"),
    ],
)
def test_a_wrong_sink_is_refused(kind: type[Table], message: str) -> None:
    """The message says what is wrong, and after which crash."""
    with pytest.raises(AssertionError, match=message):
        check_sink(into(kind), read, EPOCHS)


def test_a_sink_in_a_function_can_be_checked() -> None:
    """It is pickled by value, as Ray does it."""

    class Inner(Table):
        pass

    with raises(AssertionError):
        check_sink(into(Inner), lambda _: {}, [[1]])


@pytest.mark.parametrize(
    ("make", "epochs", "message"),
    [
        (lambda _: Table, [[1]], "an object of a subclass of tw.Sink, not of ABCMeta"),
        (lambda _: sqlite3.connect(":memory:"), [[1]], "an object of a subclass of tw.Sink, not of Connection"),
        (into(Table), [[]], "epochs has no records, so a sink would have nothing to store"),
    ],
)
def test_what_cannot_be_checked_is_refused(make: Any, epochs: list[list[int]], message: str) -> None:
    """With the error that `sink` raises, and not with one of the check's own workings."""
    with pytest.raises((tw.GraphError, ValueError), match=message):
        check_sink(make, read, epochs)
