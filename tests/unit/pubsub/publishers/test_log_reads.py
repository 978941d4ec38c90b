"""Reading a log in an object store does not hold up the thread of the loop."""

import queue
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.exactly_once.partitions import opened
from tests.kit.log.faulty_files import entries, open_log, records
from tests.kit.log.faulty_store import FaultyStore, Objects, open_store_log
from tests.kit.messages import raises
from tidewheel.pubsub.exactly_once.pubend import NotReady
from tidewheel.pubsub.log.errors import LogCorrupted, StoreFailed
from tidewheel.pubsub.log.object_format import object_name
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage, Nack
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.publishers.log_reads import LogReads
from tidewheel.storage.log_records import Record

DEADLINE_S = 30.0


class Loop:
    """The thread of the loop, which is the test."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def turn(self) -> None:
        """Wait for the next call, and do it."""
        self.calls.get(timeout=DEADLINE_S)()


@pytest.fixture
def store() -> FaultyStore:
    """A store with a log of three records."""
    store = FaultyStore(Objects())
    log = open_store_log(store)
    log.append(entries([1, 2, 3]))
    log.close()
    return store


def test_files_are_read_at_once(tmp_path: Path) -> None:
    """The system has them in memory."""
    with open_log(tmp_path) as log:
        log.append(entries([1]))
        log.sync()
        assert LogReads(log, Loop().calls.put).read(0, 100) == records([1])


def test_objects_are_fetched_first(store: FaultyStore) -> None:
    """Once for all who wait for the same, and kept only for as long as they are told."""
    loop, found = Loop(), list[list[Record]]()
    reads = LogReads(open_store_log(store), loop.calls.put)
    for _ in range(2):
        with pytest.raises(NotReady) as missing:
            reads.read(2, 100)
        reads.fetch(missing.value, lambda: found.append(reads.read(2, 100)))
    assert not found
    loop.turn()
    assert found == [records([2, 3])] * 2
    with pytest.raises(NotReady):
        reads.read(2, 100)
    reads.close()


def test_the_rest_of_what_was_fetched_is_kept_for_the_next_reads(store: FaultyStore) -> None:
    """A store takes long for each answer, and has no short ones."""
    loop, found = Loop(), list[list[Record]]()
    reads = LogReads(open_store_log(store), loop.calls.put)
    with pytest.raises(NotReady) as missing:
        reads.read(1, 100, 1)
    reads.fetch(missing.value, lambda: found.append(reads.read(1, 100, 1)))
    loop.turn()
    assert [*found, reads.read(2, 100, 1), reads.read(2, 100, 1), reads.read(3, 100, 1)] == [
        records([tick]) for tick in (1, 2, 2, 3)
    ]
    reads.close()


def test_one_that_fails_does_not_keep_others_from_what_is_fetched(store: FaultyStore) -> None:
    """It raises an error when it is told, and the others are told in order."""
    loop, told = Loop(), list[str]()
    reads = LogReads(open_store_log(store), loop.calls.put)

    def fails() -> None:
        told.append("first")
        raise ZeroDivisionError

    with pytest.raises(NotReady) as missing:
        reads.read(2, 100)
    for then in (fails, lambda: told.append("second"), lambda: told.append("third")):
        reads.fetch(missing.value, then)
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    assert told == ["first", "second", "third"]
    with pytest.raises(NotReady):
        reads.read(2, 100)
    reads.close()


def test_a_store_that_does_not_answer_is_asked_again(store: FaultyStore) -> None:
    """When the child asks again; until then there is nothing to say to it."""
    loop, found = Loop(), list[list[Record]]()
    mine = FaultyStore(store.objects)
    reads = LogReads(open_store_log(mine), loop.calls.put)
    mine.fails = 1

    def read() -> None:
        with suppress(StoreFailed):
            found.append(reads.read(0, 100))

    for _ in range(2):
        with pytest.raises(NotReady) as missing:
            reads.read(0, 100)
        reads.fetch(missing.value, read)
        loop.turn()
    assert found == [records([1, 2, 3])]
    reads.close()


def test_damage_is_told(store: FaultyStore) -> None:
    """To the child that has asked."""
    loop = Loop()
    reads = LogReads(open_store_log(store), loop.calls.put)
    name = object_name(2)
    store.objects.by_name[name] = store.objects.by_name[name][:-1] + b"?"

    def read() -> None:
        with raises(LogCorrupted):
            reads.read(3, 100)

    with pytest.raises(NotReady) as missing:
        reads.read(3, 100)
    reads.fetch(missing.value, read)
    loop.turn()
    reads.close()


def test_a_late_child_has_everything_from_a_store(bucket: str) -> None:
    """Some of it at a time, and in order, while the pubend goes on with other things."""
    contents = [bytes([at]) * 2000 for at in range(30)]
    with opened(f"{bucket}/log", cache_bytes=1, segment_bytes=20_000) as partition:
        core = partition.core
        for at, content in enumerate(contents):
            partition.send(at, content)
            partition.advance(at, at + 1)
            partition.settle()
        core.trim()
        core.join("late")
        position, found = 0, list[bytes]()
        while position <= core.written_tick:
            partition.told.clear()
            core.nack("late", Nack(0, ((position, core.written_tick + 1),), 10_000))
            partition.turn_until(lambda: bool(partition.told))
            for _, message in partition.told:
                assert isinstance(message, KnowledgeMessage)
                events = [decode(one) for _, one in message.data]
                found += [bytes(event.payload) for event in events if hasattr(event, "payload")]
                ticks = [tick + 1 for tick, _ in message.data] + [end for _, end in message.final]
                position = max(position, *ticks)
    assert found == contents
