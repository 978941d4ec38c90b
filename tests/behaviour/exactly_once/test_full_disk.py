"""A publisher whose disk is full: its worker waits, nothing is lost or told too early, and it goes on."""

from pathlib import Path

import pytest

from tests.kit.exactly_once.partitions import Full, Partition, Reader, cursors, opened
from tidewheel.pubsub.log.errors import LogFull
from tidewheel.pubsub.log.reserve import RESERVE_BYTES
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.messages.wire import DataMessage


def told(partition: Partition) -> list[bytes]:
    """Return the batches that a child was told."""
    messages = [message for _, message in partition.told if isinstance(message, KnowledgeMessage)]
    events = [decode(message) for one in messages for _, message in one.data]
    return [bytes(event.payload) for event in events if isinstance(event, DataMessage)]


def fill(partition: Partition, files: Full) -> None:
    """Publish until the disk is full."""
    files.room = 3000
    for index in range(10):
        partition.send(0, bytes([index]) * 1000, index=index)
        partition.turn_until(lambda: partition.core.writer.is_durable or partition.core.writer.full is not None)
    partition.turn_until(lambda: partition.core.writer.is_stuck)
    assert isinstance(partition.core.writer.full, LogFull)


def test_it_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """In order, with what came meanwhile; until then nothing of that is told or durable, and there is no error."""
    files = Full()
    with opened(tmp_path, files=files) as partition:
        partition.core.join("child")
        fill(partition, files)
        before = told(partition)
        durable_tick = partition.core.writer.durable_tick
        assert len(before) < 10
        assert (partition.core.has_room, partition.core.writer.is_durable, partition.core.error) == (False, False, None)
        for _ in range(5):
            partition.core.look()
            partition.core.resume()
            partition.turn_until(lambda: partition.core.writer.is_stuck)
        assert (told(partition), partition.core.writer.durable_tick) == (before, durable_tick)
        assert files.refused >= 5
        files.room = 1 << 30
        partition.core.resume()
        partition.settle()
        assert (partition.core.writer.full, partition.core.has_room) == (None, True)
        partition.send(0, b"last", index=10)
        partition.settle()
        assert told(partition) == [*(bytes([index]) * 1000 for index in range(10)), b"last"]
    reader = Reader()
    with opened(tmp_path) as partition:
        reader.attach(partition)
        reader.read(partition)
    assert reader.contents == [*(bytes([index]) * 1000 for index in range(10)), b"last"]


def test_what_is_needed_no_more_makes_room(tmp_path: Path) -> None:
    """A few bytes are enough to note how far a subscription is; so files may go, and publishing goes on."""
    files = Full()
    with opened(tmp_path, files=files, segment_bytes=2000) as partition:
        reader = Reader()
        reader.attach(partition)
        for index in range(10):
            partition.send(0, bytes([index]) * 500, index=index)
            partition.settle()
        reader.read(partition, acknowledges=0)
        before = len(partition.core.log.segments())
        files.room = 1500
        partition.send(0, b"large" * 1000, index=10)
        partition.turn_until(lambda: partition.core.writer.is_stuck)
        noted = cursors(partition.core)["reader"]
        partition.ack(reader.id, (0, partition.core.writer.durable_tick + 1))
        assert partition.core.trim() == 0
        partition.core.resume()
        partition.turn_until(lambda: partition.core.subscriptions.is_logged("reader"))
        assert cursors(partition.core)["reader"] > noted
        assert isinstance(partition.core.writer.full, LogFull)
        partition.core.look()
        files.room += partition.core.trim()
        assert len(partition.core.log.segments()) < before
        partition.core.resume()
        partition.settle()
        assert partition.core.has_room
        reader.read(partition)
    assert reader.contents == [*(bytes([index]) * 500 for index in range(10)), b"large" * 1000]


def test_a_disk_without_any_room_takes_what_is_acknowledged(tmp_path: Path) -> None:
    """The log has kept room for that; messages have none of it, and it is there again once files have gone."""
    files = Full()
    reserve = tmp_path / "reserve"
    with opened(tmp_path, files=files, segment_bytes=2000) as partition:
        reader = Reader()
        reader.attach(partition)
        for index in range(10):
            partition.send(0, bytes([index]) * 500, index=index)
            partition.settle()
        reader.read(partition, acknowledges=0)
        files.room = 0
        partition.send(0, b"large" * 2000, index=10)
        partition.turn_until(lambda: partition.core.writer.is_stuck)
        for _ in range(3):
            partition.core.resume()
            partition.turn_until(lambda: partition.core.writer.is_stuck)
        assert (reserve.stat().st_size, files.room) == (RESERVE_BYTES, 0)
        partition.ack(reader.id, (0, partition.core.writer.durable_tick + 1))
        partition.core.resume()
        partition.turn_until(lambda: partition.core.subscriptions.is_logged("reader"))
        assert isinstance(partition.core.writer.full, LogFull)
        assert RESERVE_BYTES - 10_000 < reserve.stat().st_size < RESERVE_BYTES
        partition.core.look()
        assert partition.core.trim() > 0
        files.room = 1 << 20
        partition.core.trim()
        assert reserve.stat().st_size == RESERVE_BYTES
        partition.core.resume()
        partition.settle()
        reader.read(partition)
    assert reader.contents[-1] == b"large" * 2000


def test_notes_keep_their_order(tmp_path: Path) -> None:
    """What was noted of a subscription last is what counts after a restart, though it has waited."""
    files = Full()
    with opened(tmp_path, files=files) as partition:
        partition.core.subscribe("billing", "reader", 0, durable=True)
        partition.send(0, b"a")
        partition.settle()
        files.room = 0
        partition.send(0, b"b", index=1)
        for end in (3, 4):
            partition.core.unsubscribe("reader", ((0, end),))
        partition.turn_until(lambda: partition.core.writer.is_stuck)
        partition.core.unsubscribe("reader", ((0, 5),))
        partition.core.resume()
        partition.turn_until(lambda: partition.core.writer.is_stuck)
        files.room = 1000
        partition.core.resume()
        partition.turn_until(lambda: partition.core.writer.is_stuck or partition.core.writer.full is None)
        partition.core.resume()
        partition.settle()
    with opened(tmp_path) as partition:
        assert cursors(partition.core) == {"billing": ((0, 5),)}


def test_a_worker_that_sends_again_finds_what_was_lost(tmp_path: Path) -> None:
    """A publisher that ends while its disk is full says so; what was not durable is sent again, and logged once."""
    files = Full()
    partition = Partition(tmp_path, files=files)
    fill(partition, files)
    with pytest.raises(LogFull):
        partition.core.close()
    reader = Reader()
    with opened(tmp_path) as partition:
        reader.attach(partition)
        for index in range(10):
            partition.send(0, bytes([index]) * 1000, index=index)
        partition.settle()
        reader.read(partition)
    assert reader.contents == [bytes([index]) * 1000 for index in range(10)]


def test_what_waits_is_written_when_it_closes(tmp_path: Path) -> None:
    """If there is room by then, or there was none only in memory."""
    files = Full()
    partition = Partition(tmp_path, files=files)
    fill(partition, files)
    files.room = 1 << 30
    partition.core.close()
    reader = Reader()
    with opened(tmp_path) as partition:
        reader.attach(partition)
        reader.read(partition)
    assert reader.contents == [bytes([index]) * 1000 for index in range(10)]


def test_files_begin_and_end_as_ever_after_that(tmp_path: Path) -> None:
    """Also where another file was about to begin when the disk was full."""
    files = Full()
    reader = Reader()
    with opened(tmp_path, files=files, segment_bytes=1000) as partition:
        reader.attach(partition)
        for index in range(30):
            files.room = 0 if index % 3 else 1 << 30
            partition.send(0, bytes([index]) * 300, index=index)
            if index % 3:
                partition.turn_until(lambda: partition.core.writer.is_stuck)
                files.room = 1 << 30
                while not partition.core.writer.is_durable:
                    partition.core.resume()
                    partition.turn()
            partition.settle()
        before = len(partition.core.log.segments())
        for index in range(30, 60):
            partition.send(0, bytes([index]) * 300, index=index)
            partition.settle()
        assert len(partition.core.log.segments()) > before + 3
        reader.read(partition)
        partition.core.look()
        assert partition.core.trim() > 10_000
    assert reader.contents == [bytes([index]) * 300 for index in range(60)]
