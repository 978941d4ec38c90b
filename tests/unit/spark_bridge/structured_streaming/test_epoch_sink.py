"""The sink of Spark tables: what a commit finds that another one has left, whole or half."""

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.kit.messages import raises
from tests.unit.spark_bridge.structured_streaming.test_epoch_folder import NUMBERS, PAIRS, identity
from tidewheel.progress import TimeDomain
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_sink import EpochSink


def made(folder: Path, domain: TimeDomain = NUMBERS) -> EpochSink:
    """Return the sink of a folder, new or not, as a process has it that begins."""
    place = EpochFolder(identity(folder / "epochs"), folder / "checkpoint")
    place.close()
    sink: EpochSink = pickle.loads(pickle.dumps(EpochSink(place.identity, place.checkpoint, domain, None)))
    return sink


def numbers(folder: Path) -> list[list[int]]:
    """Return what a reader finds in each file."""
    return [parquet.read_table(file)["n"].to_pylist() for file in sorted((folder / "epochs").glob("[!.]*"))]


def test_one_commit_has_several_epochs(tmp_path: Path) -> None:
    """One file; and what is in it is left out of a later commit, which may have other epochs as well."""
    sink = made(tmp_path)
    assert sink.last_committed() is None
    parts = [sink.prepare(epoch, [{"n": epoch}]) for epoch in range(4)]
    assert numbers(tmp_path) == []
    sink.commit(1, parts[:2])
    assert (numbers(tmp_path), sink.last_committed()) == ([[0, 1]], 1)
    made(tmp_path).commit(3, parts)
    made(tmp_path).commit(3, parts[1:])
    assert (numbers(tmp_path), sink.last_committed()) == ([[0, 1], [2, 3]], 3)


def test_times_in_no_order_are_known_one_by_one(tmp_path: Path) -> None:
    """The last epoch is that of the last commit, and does not stand for those beside it."""
    sink = made(tmp_path, PAIRS)
    for time, n in (((0, 5), 1), ((3, 0), 2), ((2, 2), 3), ((0, 4), 4)):
        sink.commit(time, [sink.prepare(time, [{"n": n}])])
    assert (numbers(tmp_path), sink.last_committed()) == ([[1], [2], [3]], (2, 2))


@pytest.mark.parametrize("call", ["last_committed", "commit"])
def test_a_commit_that_was_cut_off_is_finished_first(tmp_path: Path, call: str) -> None:
    """It was noted, and its file has yet to get its name. A file that was not noted is written anew."""
    sink = made(tmp_path)
    parts = [sink.prepare(epoch, [{"n": epoch}]) for epoch in range(2)]
    sink.commit(0, parts[:1])
    (file,) = (tmp_path / "epochs").glob("[!.]*")
    file.rename(file.with_name(f".{file.name}.unfinished"))
    (tmp_path / "epochs" / f".{file.name}.unfinished".replace("001.", "002.")).write_bytes(b"half a file")
    assert numbers(tmp_path) == []
    if call == "commit":
        sink.commit(1, parts)
    else:
        assert sink.last_committed() == 0
    assert numbers(tmp_path) == [[0], [1]][: 1 + (call == "commit")]


def test_a_commit_that_is_not_possible_says_why(tmp_path: Path) -> None:
    """It names the folder, and the next one tries again."""
    sink = made(tmp_path)
    parts = [sink.prepare(0, pa.table({"n": [0]}))]
    shutil.move(tmp_path / "epochs", tmp_path / "moved")
    with raises(BridgeError):
        sink.commit(0, parts)
    shutil.move(tmp_path / "moved", tmp_path / "epochs")
    sink.commit(0, parts)
    assert numbers(tmp_path) == [[0]]
