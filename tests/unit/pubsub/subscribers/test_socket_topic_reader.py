"""Reading from sockets: whole messages, errors after what came before them, and an end that leaves nothing."""

import os
import threading
from collections.abc import Iterator
from socket import socketpair
from typing import Any, cast

import pytest

from tests.kit.pubsub.actor_thread import data, moved
from tests.links.open_files import open_files
from tidewheel.progress import ProtocolError
from tidewheel.pubsub import PublisherLost
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import Numbered, PartitionEnded
from tidewheel.pubsub.protocol.socket_frames import MOST_AT_ONCE, STEADILY, encode
from tidewheel.pubsub.subscribers.ray_topic_reader import RayTopicReader
from tidewheel.pubsub.subscribers.socket_topic_reader import SocketTopicReader
from tidewheel.pubsub.subscribers.topic_reader import Fetched

LONG_S = 30.0


class Attached:
    """What has told the publishers of the subscriber."""

    def __init__(self, options: DeliveryOptions = EVERYTHING) -> None:
        self.options = options

    def why_broken(self, partition: int) -> PublisherLost:
        return PublisherLost(f"partition {partition} is gone", partition=partition)


class Sockets:
    """A reader, and the publishers' ends of its connections."""

    def __init__(self, partitions: int) -> None:
        pairs = [socketpair() for _ in range(partitions)]
        self.ends = [end for end, _ in pairs]
        for _, connection in pairs:
            connection.setblocking(False)
        self.reader = SocketTopicReader(cast(RayTopicReader, Attached()), [connection for _, connection in pairs])
        self.sequences = [0] * partitions

    def send(self, partition: int, *messages: Any) -> list[Numbered]:
        sent = []
        for message in messages:
            sent.append(Numbered(self.sequences[partition], message))
            self.sequences[partition] += 1
            self.ends[partition].sendall(b"".join(map(bytes, encode(sent[-1]))))
        return sent


@pytest.fixture
def two() -> Iterator[Sockets]:
    sockets = Sockets(2)
    yield sockets
    sockets.reader.close()
    for end in sockets.ends:
        end.close()


def test_what_there_is_of_each_partition_comes(two: Sockets) -> None:
    """In order; nothing, without waiting, where there is nothing."""
    assert two.reader.read([0, 1], 0.0) == []
    first = two.send(0, data(0), moved(0))
    second = two.send(1, data(0))
    found = two.reader.read([0, 1], LONG_S)
    assert sorted(found, key=lambda one: one.partition) == [Fetched(0, first), Fetched(1, second)]
    assert two.reader.read([0, 1], 0.0) == []


def test_what_is_not_wanted_stays_where_it_is(two: Sockets) -> None:
    """Until it is."""
    first, second = two.send(0, data(0)), two.send(1, data(0))
    assert two.reader.read([1], LONG_S) == [Fetched(1, second)]
    assert two.reader.read([1], 0.0) == []
    assert two.reader.read([0], LONG_S) == [Fetched(0, first)]


def test_part_of_a_message_is_waited_for(two: Sockets) -> None:
    """It is no news, and no end."""
    content = b"".join(map(bytes, encode(Numbered(0, data(0, 1000)))))
    two.ends[0].send(content[:500])
    assert two.reader.read([0, 1], 0.0) == []
    two.ends[0].send(content[500:])
    assert two.reader.read([0, 1], LONG_S) == [Fetched(0, [Numbered(0, data(0, 1000))])]


@pytest.mark.parametrize("end", ["whole", "middle"])
def test_a_connection_that_ends_is_an_error_after_what_came_before(two: Sockets, end: str) -> None:
    """Of the partition that it was; again and again; and the other partition may still be read."""
    sent = two.send(0, data(0))
    if end == "middle":
        two.ends[0].send(b"\1\0\0")
    two.ends[0].close()
    assert two.reader.read([0, 1], LONG_S) == [Fetched(0, sent)]
    for _ in range(2):
        with pytest.raises(PublisherLost, match="partition 0 is gone"):
            two.reader.read([0, 1], LONG_S)
    other = two.send(1, data(0))
    assert two.reader.read([1], LONG_S) == [Fetched(1, other)]


def test_an_end_that_is_not_wanted_any_more_is_none(two: Sockets) -> None:
    """A publisher closes the connection after its last message."""
    two.send(0, PartitionEnded())
    two.ends[0].close()
    assert len(two.reader.read([0, 1], LONG_S)) == 1
    assert two.reader.read([1], 0.0) == []


def test_garbage_is_an_error_after_what_came_before(two: Sockets) -> None:
    """Again and again."""
    sent = two.send(0, data(0))
    two.ends[0].send(b"\xff" * 12)
    assert two.reader.read([0, 1], LONG_S) == [Fetched(0, sent)]
    for _ in range(2):
        with pytest.raises(ProtocolError, match="no message of a topic"):
            two.reader.read([0, 1], LONG_S)


def test_closing_wakes_who_reads(two: Sockets) -> None:
    """It gets nothing, and so does whoever reads afterwards."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(two.reader.read([0, 1], LONG_S)))
    thread.start()
    while not two.reader._reading.locked():
        pass
    two.reader.close()
    thread.join(LONG_S)
    assert found == [[]]
    assert two.reader.read([0, 1], LONG_S) == []


def test_many_may_close_at_once() -> None:
    """Each file is closed once: nobody closes what belongs to another meanwhile."""
    for _ in range(50):
        before = open_files()
        sockets = Sockets(1)
        barrier = threading.Barrier(4)

        def close(sockets: Sockets = sockets, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            sockets.reader.close()

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        sockets.ends[0].close()
        assert open_files() == before


def test_one_that_closes_late_touches_no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call does nothing, also where the numbers of the files belong to others by then."""
    sockets = Sockets(1)
    sockets.reader.close()
    written: list[Any] = []
    monkeypatch.setattr(os, "eventfd_write", lambda *arguments: written.append(arguments))
    sockets.reader.close()
    sockets.ends[0].close()
    assert written == []


@pytest.mark.parametrize(("slow", "most"), [("disconnect", MOST_AT_ONCE), ("block", STEADILY)])
def test_who_may_hold_back_reads_steadily(slow: Any, most: int) -> None:
    """Little at a time, so that its publisher sees that it reads."""
    ours, theirs = socketpair()
    with ours, theirs:
        attached = cast(RayTopicReader, Attached(DeliveryOptions(slow=slow)))
        reader = SocketTopicReader(attached, [ours])
        assert reader._readers[0]._most_at_once == most
        reader.close()
