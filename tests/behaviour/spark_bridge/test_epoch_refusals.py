"""Refusals of write_epochs: of all that would lose epochs, show them twice, or mix them with others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.unit.spark_bridge.structured_streaming.test_epoch_folder import NUMBERS, PAIRS, batch, identity
from tidewheel.progress import TimeDomain
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Epoch, SubscriberStatistics
from tidewheel.spark_bridge import BridgeError, write_epochs
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_groups import EpochGroups

AT_ONCE = (1, 0.0)


class Place:
    """A path and a checkpoint, which can be opened again and again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "epochs"
        self.checkpoint = folder / "checkpoint"
        self.time: str | None = None
        self._open: list[EpochFolder] = []

    def folder(self, topic: str = "topic", checkpoint: Path | None = None) -> EpochFolder:
        """Open the folder, as a process does that takes the place of those before."""
        self.close()
        self._open.append(EpochFolder(identity(self.path, topic, self.time), checkpoint or self.checkpoint))
        return self._open[-1]

    def sink(self, schema: pa.Schema | None = None, domain: TimeDomain = NUMBERS) -> EpochGroups:
        return EpochGroups(self.folder(), domain, schema, *AT_ONCE)

    def write(self, time: Any = 0, number: int = 1) -> None:
        """Write an epoch and go."""
        assert self.sink(domain=NUMBERS if isinstance(time, int) else PAIRS).receive(epoch(time, number), 0.0)
        self.close()

    def files(self) -> list[str]:
        return sorted(file.name for file in self.path.iterdir())

    def close(self) -> None:
        for folder in self._open:
            folder.close()
        self._open.clear()


@pytest.fixture
def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    yield made
    made.close()


def epoch(time: Any, number: int, rows: int = 2) -> Epoch:
    return Epoch(time, (batch(time, number, range(rows)),))


def other(time: int, number: int, data: Any) -> Epoch:
    """An epoch of other rows than those of `epoch`."""
    return Epoch(time, (Batch(time, 0, encode_batch(time, data), SubscriberStatistics(), number=number),))


def test_an_epoch_with_another_schema_says_which_and_what(place: Place) -> None:
    """The first epoch with rows tells the schema; the epochs before the one that differs are there."""
    sink = place.sink()
    assert len(sink.receive(other(0, 1, []), 0.0)) == 1
    assert sink.schema is None
    sink.receive(epoch(1, 2), 0.0)
    with raises(BridgeError):
        sink.receive(other(2, 3, pa.table({"x": [1.5]})), 0.0)
    assert len(place.files()) == 1


def test_who_goes_on_keeps_the_schema_of_the_files(place: Place) -> None:
    """Also where no epoch has come yet, and a schema= that differs is refused at once, the time column apart."""
    place.time = "at"
    place.write()
    assert place.sink().schema == pa.schema({"epoch": pa.string(), "n": pa.int64(), "at": pa.int64()})
    place.sink(pa.schema({"epoch": pa.large_string(), "n": pa.int64()}))
    with raises(BridgeError):
        place.sink(pa.schema({"n": pa.int64()}))
    with raises(BridgeError):
        place.sink().receive(other(7, 3, pa.table({"x": [1.5]})), 0.0)


def test_a_column_of_nulls_wants_a_schema(place: Place) -> None:
    """Spark reads no Parquet column of no type, at any depth."""
    for nulls in ({"n": None}, {"n": [None]}, {"n": {"m": None}}):
        with raises(BridgeError):
            place.sink().receive(other(0, 1, [nulls]), 0.0)
    sink = place.sink(pa.schema({"n": pa.int64()}))
    assert sink.receive(other(0, 1, [{"n": None}]), 0.0)


def test_epochs_that_come_again_are_left_out_and_those_of_another_log_refused(place: Place) -> None:
    """By their times and the numbers of their messages; an epoch without rows is nothing to lose."""
    place.write(5, number=100)
    sink = place.sink()
    assert sink.receive(epoch(5, 100), 0.0)
    assert sink.statistics.left_out == 1
    assert sink.receive(other(3, 500, []), 0.0)
    assert len(place.files()) == 1
    with raises(BridgeError):
        sink.receive(epoch(5, 101), 0.0)


def test_one_writer_at_a_time(place: Place, tmp_path: Path) -> None:
    """Neither with the same checkpoint nor with another one; who is done makes room."""
    held = EpochFolder(identity(place.path), place.checkpoint)
    for checkpoint in (place.checkpoint, tmp_path / "another"):
        with raises(BridgeError):
            place.folder(checkpoint=checkpoint)
    held.close()
    held.close()
    place.folder()


def test_a_checkpoint_goes_with_one_topic_path_and_time_column(place: Place, tmp_path: Path) -> None:
    """Each is compared, and named where it differs."""
    place.write()
    with raises(BridgeError):
        place.folder(topic="another")
    place.time = "at"
    with raises(BridgeError):
        place.folder()
    place.time, place.path = None, tmp_path / "elsewhere"
    with raises(BridgeError):
        place.folder()
    place.path.mkdir()
    with raises(BridgeError):
        place.folder()


def test_a_topic_with_times_of_another_kind_is_refused(place: Place) -> None:
    """Numbers and pairs cannot be compared."""
    place.write((1, 2))
    assert place.sink(domain=PAIRS).receive(epoch((1, 2), 1), 0.0)
    with raises(BridgeError):
        place.sink()


def test_times_that_text_does_not_keep_are_refused(place: Place) -> None:
    """Before anything is written."""

    class Anything(type(NUMBERS)):  # type: ignore[misc]
        def less_equal(self, a: Any, b: Any) -> bool:
            return bool(a == b)

    with raises(BridgeError):
        place.sink(domain=Anything()).receive(epoch(frozenset(), 1), 0.0)
    assert place.files() == []


@pytest.mark.parametrize("name", ["rows.parquet", "year=2024", "epochs-0123-0000000001.parquet"])
def test_files_of_others_are_refused_and_left_alone(place: Place, name: str) -> None:
    """Before the first epoch, and later on; what Spark does not look at may be there."""
    place.path.mkdir()
    (place.path / "_SUCCESS").touch()
    place.folder()
    foreign = place.path / name
    foreign.touch()
    for _ in ("with a checkpoint", "without one"):
        with pytest.raises(BridgeError, match=f"has {name!r} in it, which write_epochs did not put there"):
            place.folder()
        place.checkpoint = place.checkpoint.with_name("another")
    assert foreign.exists()
    assert not place.checkpoint.exists()


def test_files_without_their_checkpoint_are_refused(place: Place, tmp_path: Path) -> None:
    """Nobody would know which epochs they have; nor with a checkpoint that is older than they are."""
    place.write(1)
    (tmp_path / "old").mkdir()
    for file in place.checkpoint.iterdir():
        (tmp_path / "old" / file.name).write_bytes(file.read_bytes())
    place.write(2, number=2)
    with pytest.raises(BridgeError, match="knows nothing of it"):
        place.folder(checkpoint=tmp_path / "new")
    with raises(BridgeError):
        place.folder(checkpoint=tmp_path / "old")


def test_what_spark_has_written_is_no_place_for_either(place: Place) -> None:
    """Spark would read only what its own log lists; and its checkpoint is not ours."""
    (place.path / "_spark_metadata").mkdir(parents=True)
    with raises(BridgeError):
        place.folder()
    (place.path / "_spark_metadata").rmdir()
    place.checkpoint.mkdir()
    (place.checkpoint / "offsets").mkdir()
    with raises(BridgeError):
        place.folder()


@pytest.mark.parametrize("damage", ["", "[]", '{"file": "x"}', '{"file": 1, "times": 2, "newest": [], "schema": null}'])
def test_a_damaged_checkpoint_says_so(place: Place, damage: str) -> None:
    """It is not taken for an empty one, which would write everything twice."""
    place.write()
    commits = place.checkpoint / "commits.json"
    before = commits.read_text()
    commits.write_text(damage)
    with raises(BridgeError):
        place.folder()
    commits.write_text(before)
    writer = place.checkpoint / "writer.json"
    writer.write_text(damage or json.dumps({**json.loads(writer.read_text()), "version": 99}))
    with raises(BridgeError):
        place.folder()


@pytest.mark.parametrize("become", [Path.rmdir, lambda path: path.rename(path.with_name("moved"))])
def test_a_folder_that_goes_while_it_is_written_to(place: Place, become: Callable[[Path], Any]) -> None:
    """Nothing is acknowledged, nor written to another folder that takes its name."""
    sink = place.sink()
    become(place.path)
    place.path.mkdir()
    with raises(BridgeError):
        sink.receive(epoch(0, 1), 0.0)
    assert list(sink.flush()) == []
    assert place.files() == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"format": "orc"}, "format is 'parquet', not 'orc'"),
        ({"file_bytes": 0}, "file_bytes is a number of bytes above 0"),
        ({"max_delay_s": -1}, "max_delay_s is a number of seconds"),
        ({"path": "s3://bucket/epochs"}, "write_epochs: path .* s3://bucket/epochs is a URL"),
        ({"checkpoint": ""}, "write_epochs: checkpoint is a text or a pathlib.Path, not ''"),
        ({"path": "/x/epochs", "checkpoint": "/x/epochs"}, "is where Spark looks for epochs"),
        ({"path": "/x/epochs", "checkpoint": "/x/epochs/state"}, "is where Spark looks for epochs"),
        ({"path": "/x/epochs", "checkpoint": "/x"}, "is in the checkpoint /x"),
    ],
)
def test_arguments_are_looked_at_first(arguments: dict[str, Any], says: str) -> None:
    """Before there is a Ray cluster, or a folder."""
    with pytest.raises(BridgeError, match=says):
        write_epochs("topic", **{"path": "/x/epochs", "checkpoint": "/x/checkpoint", **arguments})
    assert not Path("/x").exists()


def test_a_topic_that_is_best_effort_is_refused(tmp_path: Path) -> None:
    """It keeps nothing for a writer that is away. Nothing is made on the disk."""
    flow = tw.Dataflow("best effort")
    flow.input("rows").publish("rows of best effort")
    with tw.run(flow, engine="local") as job:
        with raises(BridgeError):
            write_epochs("rows of best effort", tmp_path / "epochs", checkpoint=tmp_path / "state")
        job.stop()
    assert not list(tmp_path.iterdir())
