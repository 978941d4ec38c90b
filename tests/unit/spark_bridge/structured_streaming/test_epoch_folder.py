"""Epochs into a folder, by a machine that loses power or has no room at any call: each is there once, and whole.

What fails says the seed; to repeat it::

    TIDEWHEEL_EPOCHS_SEED=1234 python -m pytest tests/unit/spark_bridge/structured_streaming/test_epoch_folder.py
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.kit.seeds import seed_of
from tests.kit.spark_bridge.lossy_files import LossyFiles, PowerLost
from tidewheel.progress import IntegerDomain, ProductDomain, TimeDomain
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, Epoch, SubscriberStatistics
from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import WriterIdentity
from tidewheel.spark_bridge.structured_streaming.epoch_files import EpochFiles
from tidewheel.spark_bridge.structured_streaming.epoch_folder import EpochFolder
from tidewheel.spark_bridge.structured_streaming.epoch_groups import EpochGroups

SEED = seed_of("TIDEWHEEL_EPOCHS_SEED")
NUMBERS = IntegerDomain()
PAIRS = ProductDomain(IntegerDomain(), IntegerDomain())


def batch(time: Any, number: int, rows: Sequence[int], partition: int = 0) -> Batch:
    """A batch of rows as a subscriber gets it, Arrow or dicts by chance of its number."""
    columns = {"epoch": [str(time)] * len(rows), "n": list(rows)}
    table = pa.table({"epoch": pa.array(columns["epoch"], pa.string()), "n": pa.array(columns["n"], pa.int64())})
    return Batch(
        time,
        partition,
        encode_batch(time, table if number % 2 else table.to_pylist()),
        SubscriberStatistics(),
        number=number,
    )


@dataclass
class Topic:
    """Epochs that come again as long as their batches are not acknowledged, and some of which come again anyway."""

    epochs: list[Epoch]
    domain: TimeDomain
    choices: random.Random
    acknowledged: set[tuple[int, int]] = field(default_factory=set)

    def unread(self) -> Iterator[Epoch]:
        """Yield what a subscriber gets that begins now: of an epoch what is not acknowledged, or more."""
        for epoch in list(self.epochs):
            batches = tuple(
                one
                for one in epoch.batches
                if (one.partition, one.number) not in self.acknowledged or not self.choices.randrange(5)
            )
            if batches:
                yield Epoch(epoch.time, batches)

    def acknowledge(self, batches: Sequence[Batch]) -> None:
        """Take what a subscriber acknowledges; some of it is lost on the way."""
        self.acknowledged |= {(one.partition, one.number) for one in batches if self.choices.randrange(4)}


@dataclass
class Reader:
    """Reads a folder as Spark does: each file once, by its name, nothing hidden; and may remove what it has read."""

    path: Path
    seen: set[str] = field(default_factory=set)
    files: list[list[dict[str, Any]]] = field(default_factory=list)

    def look(self, *, removes: bool = False) -> None:
        if not self.path.is_dir():
            return
        for file in sorted(self.path.iterdir()):
            if file.name.startswith((".", "_")):
                continue
            if file.name not in self.seen:
                self.seen.add(file.name)
                self.files.append(parquet.read_table(file).to_pylist())
            if removes:
                file.unlink()


def identity(path: Path, topic: str = "topic", time: str | None = None) -> WriterIdentity:
    return WriterIdentity.new(topic, path, "parquet", time)


def write(
    topic: Topic, path: Path, files: EpochFiles, reader: Reader, limits: tuple[int, float], clock: random.Random
) -> None:
    """Write as an `EpochWriter` does, until the end of the topic or of the power."""
    folder = EpochFolder(identity(path), path.parent / "checkpoint", files)
    now_s = 0.0
    try:
        sink = EpochGroups(folder, topic.domain, None, *limits)
        for epoch in topic.unread():
            topic.acknowledge(sink.receive(epoch, now_s))
            reader.look()
            now_s += clock.random()
            topic.acknowledge(sink.look(now_s))
        topic.acknowledge(sink.flush())
    finally:
        folder.close()


def written(reader: Reader, topic: Topic, say: str = "") -> None:
    """Assert that a reader has had every row of every epoch once, in order, and every epoch from one file."""
    reader.look()
    assert all(reader.files), say
    expected = [row for epoch in topic.epochs for one in epoch.batches for row in one.records]
    assert [row for file in reader.files for row in file] == expected, say
    epochs = [epoch for file in reader.files for epoch in {row["epoch"] for row in file}]
    assert len(epochs) == len(set(epochs)), f"{say}: an epoch is in two files"


def random_topic(choices: random.Random, most_epochs: int = 30) -> Topic:
    """Epochs of 0 to 5 rows in up to three partitions, of whole or of pairs of numbers, in an order that fits."""
    count, partitions = choices.randint(0, most_epochs), choices.randint(1, 3)
    domain: TimeDomain
    times: list[Any]
    if choices.randrange(2):
        domain, times = NUMBERS, sorted(choices.sample(range(1000), count))
    else:
        pairs = {(choices.randrange(8), choices.randrange(8)) for _ in range(count)}
        # By the sum and then by chance: every such order has no pair before one that is at or before it.
        domain, times = PAIRS, sorted(pairs, key=lambda pair: (sum(pair), choices.random()))
    # Batches are numbered in an order that has nothing to do with that of the epochs.
    numbers = iter(choices.sample(range(1, 10_000), 3 * count))
    epochs = []
    for time in times:
        parts = sorted(choices.sample(range(partitions), choices.randint(1, partitions)))
        sizes = [choices.randint(0, 5) * choices.randrange(2) for _ in parts]
        batches = [batch(time, next(numbers), range(n), p) for n, p in zip(sizes, parts, strict=True)]
        epochs.append(Epoch(time, tuple(batches)))
    return Topic(epochs, domain, choices)


@pytest.mark.parametrize("run", range(60))
def test_every_row_is_there_once_whatever_fails(run: int, tmp_path: Path) -> None:
    """Random epochs, limits, failures, acknowledgements that are lost, and a reader that removes what it has seen."""
    choices = random.Random(f"{SEED} {run}")
    path, reader = tmp_path / "epochs", Reader(tmp_path / "epochs")
    topic = random_topic(choices)
    limits = (choices.choice([1, 200, 10_000]), choices.choice([0.0, 1.0, 100.0]))
    say = f"TIDEWHEEL_EPOCHS_SEED={SEED}, run {run}"
    for attempt in range(12):
        fails_at = None if attempt == 11 else choices.randint(1, 60)
        files = LossyFiles(choices, fails_at, is_after=choices.random() < 0.5, is_full=choices.random() < 0.3)
        try:
            write(topic, path, files, reader, limits, choices)
        except PowerLost:
            files.lose_power()
        except BridgeError as error:
            if "No space left" not in str(error):
                raise
        reader.look(removes=choices.randrange(2) == 0)
    written(reader, topic, say)
    assert not list(path.glob(".*")), say


def three_epochs(choices: random.Random) -> Topic:
    epochs = [
        Epoch(time, (batch(time, 2 * time + 1, range(3)), batch(time, 2 * time + 2, [7], 1))) for time in range(3)
    ]
    return Topic(epochs, NUMBERS, choices)


def test_a_failure_at_every_call(tmp_path: Path) -> None:
    """Power that goes, or a disk that is full, before or after each call of a whole run, and what then is lost."""
    choices = random.Random(SEED)
    clean = LossyFiles(choices)
    limits = (1, 0.0)
    write(
        three_epochs(choices),
        tmp_path / "clean" / "epochs",
        clean,
        Reader(tmp_path / "clean" / "epochs"),
        limits,
        choices,
    )
    assert clean.calls > 30
    for call in range(1, clean.calls + 1):
        for is_after in (False, True):
            for is_full in (False, True):
                case = tmp_path / f"{call} {is_after} {is_full}"
                topic, reader = three_epochs(choices), Reader(case / "epochs")
                files = LossyFiles(choices, call, is_after=is_after, is_full=is_full)
                with pytest.raises((PowerLost, BridgeError)):
                    write(topic, case / "epochs", files, reader, limits, choices)
                if not is_full:
                    files.lose_power()
                write(topic, case / "epochs", LossyFiles(choices), reader, limits, choices)
                written(reader, topic, f"TIDEWHEEL_EPOCHS_SEED={SEED}, {case.name}")
                assert not list(reader.path.glob(".*")), case.name


def test_the_test_would_notice_a_step_that_is_left_out(tmp_path: Path) -> None:
    """Without any one of the calls that make something durable, some failure loses rows or shows them twice."""

    class Forgetful(LossyFiles):
        def __init__(self, choices: random.Random, fails_at: int, forgets: str) -> None:
            super().__init__(choices, fails_at, is_after=True)
            self._forgets = forgets

        def sync_file(self, path: Path) -> None:
            if self._forgets not in path.name:
                super().sync_file(path)

        def sync_directory(self, path: Path) -> None:
            if self._forgets != f"folder {path.name}":
                super().sync_directory(path)

    for forgets in (".unfinished", "commits.json", "folder epochs", "folder checkpoint"):
        assert not all(
            _survives(Forgetful(random.Random(f"{run} {call}"), call, forgets), tmp_path / f"{forgets} {run} {call}")
            for call in range(8, 30)
            for run in range(3)
        ), forgets


def _survives(files: LossyFiles, case: Path) -> bool:
    """Tell whether all is there once after a failure."""
    choices = random.Random(1)
    topic, reader, limits = three_epochs(choices), Reader(case / "epochs"), (1, 0.0)
    try:
        with pytest.raises(PowerLost):
            write(topic, case / "epochs", files, reader, limits, choices)
        files.lose_power()
        write(topic, case / "epochs", EpochFiles(), reader, limits, choices)
        written(reader, topic)
    except (AssertionError, BridgeError, pa.ArrowException):
        return False
    return True


def test_small_epochs_share_a_file_and_large_ones_have_their_own(tmp_path: Path) -> None:
    """A file is made when it is large enough, or its first epoch has waited, and never of a part of an epoch."""
    folder = EpochFolder(identity(tmp_path / "epochs"), tmp_path / "checkpoint")
    sink = EpochGroups(folder, NUMBERS, None, 10_000, 1.0)
    assert sink.due_in_s(0.0) is None
    assert sink.receive(Epoch(0, (batch(0, 1, [1]),)), 10.0) == []
    assert sink.receive(Epoch(1, (batch(1, 2, [1]),)), 10.5) == []
    assert sink.due_in_s(10.75) == 0.25
    assert sink.look(10.75) == []
    assert [one.time for one in sink.look(11.0)] == [0, 1]
    assert len(sink.receive(Epoch(2, (batch(2, 3, range(5000)), batch(2, 4, range(5000), 1))), 12.0)) == 2
    assert sink.statistics.files == 2
    assert sink.statistics.rows == 10_002
    files = sorted((tmp_path / "epochs").iterdir())
    assert [parquet.read_metadata(file).num_rows for file in files] == [2, 10_000]
    assert b'"first": 0, "last": 1' in parquet.read_schema(files[0]).metadata[b"tidewheel"]
    folder.close()
