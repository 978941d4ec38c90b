"""A pubend with a real log: what is told survives, and nothing is told or logged twice."""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.exactly_once.durable_pubend import DurablePubend, size_of
from tidewheel.pubsub.exactly_once.encoded_message import decode, encode
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.messages import Ack, KnowledgeMessage, Nack, Rejected
from tidewheel.pubsub.exactly_once.pubend import Start
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.exactly_once.tick_set import TickSet
from tidewheel.pubsub.log.errors import LogCorrupted, LogError, LogFailed
from tidewheel.pubsub.log.files import FILES, Files
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.wire import DataMessage, LowerFrontierUpdate, PartitionEnded

DOMAIN = IntegerDomain()
IDENTITY = LogIdentity("topic", 0, 1, "integers")
DEADLINE_S = 30.0


class Partition:
    """A pubend whose thread is the test, and what it has told."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.told: list[Outgoing] = []
        self.core = DurablePubend(directory, IDENTITY, DOMAIN, tell=self.told.extend, later=self._calls.put, **options)

    def settle(self) -> None:
        """Wait until all that was fed is durable, or will not be."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not self.core.is_durable and self.core.error is None:
            self._calls.get(timeout=deadline_s - time.monotonic())()

    def send(self, time: int, *contents: bytes, index: int = 0) -> None:
        """Feed batches of one time."""
        self.core.feed(
            [encode(DataMessage(time, content, "pickle", 1), index + at) for at, content in enumerate(contents)]
        )

    def advance(self, before: int, *after: int) -> None:
        """Move the worker's frontier."""
        self.core.feed([encode(LowerFrontierUpdate([(before, -1), *((time, 1) for time in after)]))])


@contextmanager
def opened(directory: Path, **options: Any) -> Iterator[Partition]:
    partition = Partition(directory, **options)
    try:
        yield partition
    finally:
        partition.core.close()


class Reader:
    """A subscription that keeps what it has had and where it was."""

    def __init__(self, name: str = "reader", start: int | None = 0) -> None:
        self._name, self._start = name, start
        self._core: Subend | None = None
        self._done = TickSet()
        self.had: list[Any] = []
        self.lower: list[Any] = []

    def attach(self, partition: Partition) -> None:
        """Begin, or go on with what the pubend says that was acknowledged."""
        begun, frontiers = partition.core.subscribe(self._name, self._start, durable=True)
        self.lower = frontiers.lower
        self._done.update(begun.acknowledged)
        self._core = Subend(self._name, {0: Start(self._done.ranges(), begun.told_end)}, size_of)
        partition.core.join(self._name)

    def read(self, partition: Partition, acknowledges: int | None = None) -> None:
        """Ask, take all there is, and acknowledge the first messages of that, by default all."""
        assert self._core is not None
        for nack in self._core.ask(0.0):
            assert isinstance(nack, Nack)
            partition.core.nack(self._name, nack)
        for child, message in partition.told:
            if child == self._name:
                assert isinstance(message, KnowledgeMessage)
                self._core.receive(message, 0.0)
        partition.told.clear()
        taken = self._core.take()
        self.had += [decode(delivered.message) for delivered in taken]
        for delivered in taken[:acknowledges]:
            self._core.acknowledge(0, delivered.tick)
            self._done.add(delivered.tick, delivered.tick + 1)
        for ack in self._core.acks():
            assert isinstance(ack, Ack)
            partition.core.ack(ack)
        partition.core.look()
        partition.settle()

    @property
    def contents(self) -> list[bytes]:
        """The batches that it has had."""
        return [bytes(event.payload) for event in self.had if isinstance(event, DataMessage)]


def test_nothing_is_told_before_it_is_durable(tmp_path: Path) -> None:
    """What is fed is told once the log has said so; before that a look tells nothing of it."""
    with opened(tmp_path) as partition:
        partition.core.join("child")
        partition.core.look()
        partition.send(0, b"one")
        assert not partition.core.is_durable
        assert not [message for _, message in partition.told if isinstance(message, KnowledgeMessage) and message.data]
        partition.settle()
        [told] = [message for _, message in partition.told if isinstance(message, KnowledgeMessage) and message.data]
        assert [bytes(decode(message).payload) for _, message in told.data] == [b"one"]  # type: ignore[union-attr]


def test_a_publisher_that_starts_again_goes_on(tmp_path: Path) -> None:
    """The worker sends all again, of which only what is new is logged; old and new subscriptions get what they want."""
    reader, late = Reader(), Reader("late")
    with opened(tmp_path) as partition:
        reader.attach(partition)
        partition.send(0, b"a", b"b")
        partition.advance(0, 1)
        partition.send(1, b"c")
        partition.settle()
        reader.read(partition)
        assert reader.contents == [b"a", b"b", b"c"]
    with opened(tmp_path) as partition:
        reader.attach(partition)
        assert reader.lower == [1]
        late.attach(partition)
        assert late.lower == [0]
        partition.send(0, b"a", b"b")
        partition.advance(0, 1)
        partition.send(1, b"c", b"d")
        partition.advance(1)
        partition.settle()
        reader.read(partition)
        late.read(partition)
        assert partition.core.has_ended
    assert reader.contents == late.contents == [b"a", b"b", b"c", b"d"]
    assert isinstance(reader.had[-1], PartitionEnded)
    assert [type(event).__name__ for event in late.had].count("LowerFrontierUpdate") == 2


def test_what_is_not_acknowledged_comes_again(tmp_path: Path) -> None:
    """A durable subscription goes on behind what it has acknowledged, and not behind what it has had."""
    reader = Reader()
    with opened(tmp_path) as partition:
        reader.attach(partition)
        partition.send(0, b"a", b"b", b"c")
        partition.settle()
        reader.read(partition, acknowledges=2)
    with opened(tmp_path) as partition:
        assert list(partition.core.cursors()) == ["reader"]
        reader.attach(partition)
        reader.read(partition)
        assert reader.contents == [b"a", b"b", b"c", b"c"]
        partition.core.unsubscribe("reader")
        partition.settle()
    with opened(tmp_path) as partition:
        assert not partition.core.cursors()


def test_files_go_once_everything_is_acknowledged(tmp_path: Path) -> None:
    """Not before; and the epochs are known from what is left."""
    reader = Reader()
    with opened(tmp_path, segment_bytes=10_000, cache_bytes=1000) as partition:
        reader.attach(partition)
        for at in range(100):
            partition.send(at, bytes([at]) * 1000)
            partition.advance(at, at + 1)
            partition.settle()
        assert partition.core.trim() == 0
        reader.read(partition)
        partition.core.look()
        assert partition.core.trim() > 80_000
    assert reader.contents == [bytes([at]) * 1000 for at in range(100)]
    with opened(tmp_path) as partition:
        partition.send(3, b"x")  # complete long ago
        partition.settle()
        with pytest.raises(ProtocolError, match=r"batch 0 of time 100 is missing"):
            partition.send(100, b"x", index=1)


class NoSync(Files):
    """A disk that fails when told."""

    is_broken = False

    def sync(self, descriptor: int) -> None:
        """Fail, or sync."""
        if self.is_broken:
            raise OSError(5, "Input/output error")
        super().sync(descriptor)


def test_a_failed_disk_stops_publishing(tmp_path: Path) -> None:
    """With an error that says so; what was durable can be read."""
    files = NoSync()
    reader = Reader()
    partition = Partition(tmp_path, files=files)
    reader.attach(partition)
    partition.send(0, b"a")
    partition.settle()
    files.is_broken = True
    partition.send(0, b"b", index=1)
    partition.settle()
    assert isinstance(partition.core.error, LogFailed)
    with pytest.raises(LogFailed, match=r"Input/output error"):
        partition.send(0, b"c", index=2)
    partition.core.nack("reader", Nack(0, ((0, 1 << 62),), 1000))
    data = [decode(message) for _, told in partition.told for _, message in getattr(told, "data", ())]
    assert [bytes(event.payload) for event in data if isinstance(event, DataMessage)] == [b"a", b"a"]
    partition.core.close()


def test_a_flipped_byte_is_told_to_who_asks(tmp_path: Path) -> None:
    """It is named, and never delivered."""
    with opened(tmp_path, cache_bytes=0) as partition:
        partition.core.join("reader")
        partition.send(0, b"a" * 100, b"b" * 100)
        partition.settle()
        partition.told.clear()
        [segment] = [file for file in tmp_path.iterdir() if b"a" * 100 in file.read_bytes()]
        content = bytearray(segment.read_bytes())
        content[content.index(b"b" * 100) + 50] ^= 1
        segment.write_bytes(content)
        partition.core.nack("reader", Nack(0, ((0, 1 << 62),), 10_000))
    rejected = [message for _, message in partition.told if isinstance(message, Rejected)]
    assert rejected
    assert segment.name in rejected[0].reason
    with pytest.raises(LogCorrupted, match=segment.name):
        Partition(tmp_path)


class Dying(Files):
    """A disk that takes so many calls and then no more, as when the process is killed."""

    def __init__(self, calls: int) -> None:
        self._calls = calls

    def _call(self) -> None:
        self._calls -= 1
        if self._calls < 0:
            raise OSError(5, "killed")

    def write(self, descriptor: int, parts: Any, offset: int) -> int:
        """Write, of the last call only a part."""
        self._call()
        return super().write(descriptor, parts if self._calls else [bytes(parts[0])[:7]], offset)

    def sync(self, descriptor: int) -> None:
        """Sync, or not."""
        self._call()
        super().sync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, or not."""
        self._call()
        super().rename(old, new)


@pytest.mark.parametrize("seed", range(30))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    """The publisher goes on from what is there, the worker begins again, and everything comes once and in order."""
    random = Random(seed)
    reader = Reader()
    batches = [
        (time, index, f"{time}/{index}".encode() * 20) for time in range(12) for index in range(random.randint(0, 3))
    ]
    for life in range(5):
        files = FILES if life == 4 else Dying(random.randint(2, 25))
        with suppress(LogError):
            partition = Partition(tmp_path, segment_bytes=500, cache_bytes=500, files=files)
            try:
                reader.attach(partition)
                publish(partition, reader, batches, random)
            finally:
                partition.core.close()
    assert reader.contents == [content for *_, content in batches]
    assert isinstance(reader.had[-1], PartitionEnded)


def publish(partition: Partition, reader: Reader, batches: list[tuple[int, int, bytes]], random: Random) -> None:
    """Do what a worker does from its start to its end, while somebody reads."""
    frontier = 0
    for moment, index, content in batches:
        if moment != frontier:
            partition.advance(frontier, moment)
            frontier = moment
        partition.send(moment, content, index=index)
        if random.random() < 0.5:
            partition.settle()
        if random.random() < 0.3:
            reader.read(partition)
    partition.advance(frontier)
    for _ in range(3):
        partition.settle()
        reader.read(partition)


def test_silence_alone_is_not_logged(tmp_path: Path) -> None:
    """An idle partition writes a reservation now and then, however often its subscriptions acknowledge silence."""
    reader = Reader()
    now_s = [1000.0]
    with opened(tmp_path, clock=lambda: now_s[0]) as partition:
        reader.attach(partition)
        partition.send(0, b"a")
        partition.settle()
        reader.read(partition)
        reader.read(partition)
        before = partition.core._log.total_bytes
        for _ in range(100):
            now_s[0] += 0.1
            reader.read(partition)
        assert partition.core._log.total_bytes - before < 500
        assert partition.core.cursors()["reader"][0][1] > partition.core.written_tick


class NoWrite(NoSync):
    """One that takes nothing when told."""

    def write(self, descriptor: int, parts: Any, offset: int) -> int:
        """Fail, or write."""
        if self.is_broken:
            raise OSError(5, "Input/output error")
        return super().write(descriptor, parts, offset)


def test_files_stay_as_long_as_a_cursor_on_the_disk_needs_them(tmp_path: Path) -> None:
    """What was acknowledged just before the disk failed goes on where the disk has it, and nothing of it is missing."""
    files = NoWrite()
    reader = Reader()
    partition = Partition(tmp_path, segment_bytes=2000, cache_bytes=100, files=files)
    reader.attach(partition)
    for at in range(30):
        partition.send(at, bytes([at]) * 500)
        partition.advance(at, at + 1)
        partition.settle()
        if at == 10:
            reader.read(partition)
            partition.core.look()
    assert len(partition.core._log.segments()) > 3
    files.is_broken = True
    reader.read(partition)
    partition.core.trim()
    with suppress(LogError):
        partition.core.close()
    again = Reader()
    with opened(tmp_path) as partition:
        again.attach(partition)
        again.read(partition)
    assert again.contents == [bytes([at]) * 500 for at in range(11, 30)]
    assert reader.contents == [bytes([at]) * 500 for at in range(30)]
