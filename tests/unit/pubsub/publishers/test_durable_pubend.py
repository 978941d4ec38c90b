"""A pubend with a real log: what is told survives, and nothing is told or logged twice."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.kit.exactly_once.partitions import Dying, NoSync, NoWrite, Partition, Reader, cursors, opened
from tests.kit.messages import raises
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.log import opening
from tidewheel.pubsub.log.errors import LogCorrupted, LogError, LogFailed
from tidewheel.pubsub.log.payload_area import LEAST_BYTES
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage, Nack
from tidewheel.pubsub.messages.encoded_message import decode, encode
from tidewheel.pubsub.messages.wire import DataMessage, PartitionEnded, Rejected
from tidewheel.pubsub.publishers import durable_pubend
from tidewheel.pubsub.publishers.partition_log import last_messages
from tidewheel.storage.files import FILES


def test_nothing_is_told_before_it_is_durable(tmp_path: Path) -> None:
    """What is fed is told once the log has said so; before that a look tells nothing of it."""
    with opened(tmp_path) as partition:
        partition.core.join("child")
        partition.core.look()
        partition.send(0, b"one")
        assert not partition.core.writer.is_durable
        assert not [message for _, message in partition.told if isinstance(message, KnowledgeMessage) and message.data]
        partition.settle()
        [told] = [message for _, message in partition.told if isinstance(message, KnowledgeMessage) and message.data]
        assert [bytes(decode(message).payload) for _, message in told.data] == [b"one"]  # type: ignore[union-attr]


def test_subscriptions_are_awaited_until_they_have_come_once(tmp_path: Path) -> None:
    """After that there is room, though they end before the first message; a log with a message awaits none."""
    with opened(tmp_path, awaited=2) as partition:
        names = ("one", "two")
        for name in names:
            assert not partition.core.has_room
            partition.core.subscribe(name, f"process/{name}/1", durable=False)
        for name in names:
            partition.core.unsubscribe(f"process/{name}/1")
        assert not partition.core.subscriptions.known
        assert partition.core.has_room
        partition.send(0, b"a")
        partition.settle()
    with opened(tmp_path, awaited=2) as partition:
        assert partition.core.has_room


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
        partition.core.conclude()
        partition.advance(1)
        partition.settle()
        assert (partition.core.told.has_all, partition.core.told.has_ended) == (True, False)
        for _ in range(2):
            partition.core.conclude()
        partition.settle()
        reader.read(partition)
        late.read(partition)
        assert partition.core.told.has_ended
    assert reader.contents == late.contents == [b"a", b"b", b"c", b"d"]
    assert isinstance(reader.had[-1], PartitionEnded)
    assert [type(event).__name__ for event in late.had].count("LowerFrontierUpdate") == 3


def test_what_is_not_acknowledged_comes_again(tmp_path: Path) -> None:
    """A durable subscription goes on behind what it has acknowledged, and not behind what it has had."""
    reader = Reader()
    with opened(tmp_path) as partition:
        reader.attach(partition)
        partition.send(0, b"a", b"b", b"c")
        partition.settle()
        reader.read(partition, acknowledges=2)
    with opened(tmp_path) as partition:
        assert list(cursors(partition.core)) == ["reader"]
        reader.attach(partition)
        reader.read(partition)
        assert reader.contents == [b"a", b"b", b"c", b"c"]
        partition.core.end("reader")
        partition.settle()
    with opened(tmp_path) as partition:
        assert not cursors(partition.core)


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
        with raises(ProtocolError):
            partition.send(100, b"x", index=1)


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
    with raises(LogFailed):
        partition.send(0, b"c", index=2)
    partition.core.nack("process/reader/1", Nack(0, ((0, 1 << 62),), 1000))
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
    partition.settle()
    partition.core.conclude()
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
        before = partition.core.log.total_bytes
        for _ in range(100):
            now_s[0] += 0.1
            reader.read(partition)
        assert partition.core.log.total_bytes - before < 500
        assert cursors(partition.core)["reader"][0][1] > partition.core.written_tick


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
    assert len(partition.core.log.segments()) > 3
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


def test_an_end_that_was_torn_off_is_logged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash may leave the last move of the frontier without the end behind it; readers still receive that."""
    reader = Reader()
    with opened(tmp_path) as partition:
        reader.attach(partition)
        with monkeypatch.context() as torn:
            torn.setattr(durable_pubend, "last_messages", lambda journal: last_messages(journal)[:1])
            partition.advance(0)
            partition.core.conclude()
        partition.settle()
        reader.read(partition)
        assert not isinstance(reader.had[-1], PartitionEnded)
    for _ in range(2):
        with opened(tmp_path) as partition:
            partition.settle()
            reader.attach(partition)
            assert not partition.core.unread(), "it is told of the end by its beginning"
            reader.read(partition)
            assert sum(isinstance(message, PartitionEnded) for message in reader.had) == 1


def test_a_log_in_memory_has_the_messages_that_were_received_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a copy, and without a thread: readers get them from there, also after a crash and a restart."""
    monkeypatch.setattr(opening, "is_in_memory", lambda _: True)
    size, reader = 2 * LEAST_BYTES, Reader()
    contents: list[bytes] = []
    received = 0
    for life in range(3):
        with opened(tmp_path, segment_bytes=10 * size, cache_bytes=3 * size) as partition:
            reader.attach(partition)
            for time in range(life * 40, life * 40 + 40):
                content = bytes([time % 256]) * size
                room = partition.core.room_for(size)
                received += room is not None
                if room is not None:
                    room[:] = content
                message = encode(DataMessage(time, room or content, "pickle", 1))
                partition.core.feed([message])
                partition.advance(time, time + 1)
                partition.settle()
                contents.append(content)
                if time % 7 == 0:
                    reader.read(partition)
                    partition.core.look()
                    partition.core.trim()
            reader.read(partition)
            partition.settle()
        assert [bytes(one) for one in reader.contents] == contents
    assert received > 60
