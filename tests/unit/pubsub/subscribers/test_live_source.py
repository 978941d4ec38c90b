"""Reading from publishers without a log: whole messages, errors after what came before them, and retried calls."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from socket import socket, socketpair
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from tests.kit.pubsub.actor_thread import data, moved
from tests.kit.pubsub.numbered import told
from tests.links.open_files import open_files
from tests.waiting import eventually
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, TopicInfo, own_topic
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.frames import encode
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, Numbered, PartitionEnded
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.subscribers import parents, subscribing
from tidewheel.pubsub.subscribers.live_source import LiveSource
from tidewheel.transport.frames import MOST_AT_ONCE, STEADILY

LONG_S = 30.0


class Offer:
    """Has a connection that is there already."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection

    def connect(self, _: str) -> socket:
        self._connection.setblocking(False)
        return self._connection


class Method:
    """A method of an actor: its answers are said by a test, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)
        self.calls: list[tuple[Any, ...]] = []

    def options(self, **_: Any) -> "Method":
        return self

    def remote(self, *arguments: Any) -> "Method":
        self.calls.append(arguments)
        return self

    def future(self) -> "Future[Any]":
        """Return the next answer; without any, one that does not come."""
        answer: Future[Any] = Future()
        if self.answers:
            found = self.answers.popleft()
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)
        return answer


class Actor:
    """A handle of a publisher's actor, with an offer of a socket, or None if it is on another node."""

    def __init__(self, offer: Any = None) -> None:
        self.attach = Method(offer)
        self.talk = Method()
        self.ping = Method(*[None] * 9)
        self.detach = Method()


def reader_of(*actors: Actor, options: DeliveryOptions = EVERYTHING) -> LiveSource:
    info = TopicInfo("ranks", "job", IntegerDomain(), actors, "first")
    return LiveSource(info, "s", options, "here")


class Sockets:
    """A reader, and the publishers' ends of its connections."""

    def __init__(self, partitions: int, options: DeliveryOptions = EVERYTHING) -> None:
        pairs = [socketpair() for _ in range(partitions)]
        self.ends = [end for end, _ in pairs]
        self.reader = reader_of(*(Actor(Offer(connection)) for _, connection in pairs), options=options)
        self.sequences = [0] * partitions

    def send(self, partition: int, *messages: Any) -> list[Numbered]:
        sent = []
        for message in messages:
            sent.append(Numbered(self.sequences[partition], message))
            self.sequences[partition] += 1
            self.ends[partition].sendall(b"".join(map(bytes, encode(told(sent[-1])))))
        return sent


@pytest.fixture
def two() -> Iterator[Sockets]:
    sockets = Sockets(2)
    yield sockets
    sockets.reader.release()
    for end in sockets.ends:
        end.close()


def test_what_there_is_of_each_partition_comes(two: Sockets) -> None:
    """In order; nothing, without waiting, where there is nothing."""
    assert two.reader.fetch(0.0) == []
    first = two.send(0, data(0), moved(0))
    second = two.send(1, data(0))
    found = two.reader.fetch(LONG_S)
    assert sorted(found, key=lambda one: one.partition) == [Fetched(0, first), Fetched(1, second)]
    assert two.reader.fetch(0.0) == []


def test_part_of_a_message_is_waited_for(two: Sockets) -> None:
    """It is no news, and no end."""
    content = b"".join(map(bytes, encode(told(Numbered(0, data(0, 1000))))))
    two.ends[0].send(content[:500])
    assert two.reader.fetch(0.0) == []
    two.ends[0].send(content[500:])
    assert two.reader.fetch(LONG_S) == [Fetched(0, [Numbered(0, data(0, 1000))])]


@pytest.mark.parametrize("end", ["whole", "middle"])
def test_a_connection_that_ends_is_an_error_after_what_came_before(two: Sockets, end: str) -> None:
    """Of the partition that it was; again and again."""
    sent = two.send(0, data(0))
    if end == "middle":
        two.ends[0].send(b"\1\0\0")
    two.ends[0].close()
    assert two.reader.fetch(LONG_S) == [Fetched(0, sent)]
    for _ in range(2):
        with pytest.raises(PublisherLost, match="partition 0: the publisher has closed the connection: it has gone"):
            two.reader.fetch(LONG_S)


def test_the_loss_of_one_partition_loses_nothing_of_another(two: Sockets) -> None:
    """Messages of others that come before the loss is noticed are read before it is an error."""
    two.ends[0].close()
    assert two.reader.fetch(0.0) == []
    lost = two.reader._parents.kept[0]
    assert eventually(lambda: lost._search is not None and lost._search.done())
    sent = two.send(1, data(0))
    assert two.reader.fetch(LONG_S) == [Fetched(1, sent)]
    with pytest.raises(PublisherLost, match="partition 0"):
        two.reader.fetch(LONG_S)


def test_the_end_of_a_connection_after_the_last_message_is_no_loss(two: Sockets) -> None:
    """A publisher closes the connection after its last message."""
    two.send(0, PartitionEnded())
    two.ends[0].close()
    assert len(two.reader.fetch(LONG_S)) == 1
    assert two.reader.fetch(0.0) == []
    other = two.send(1, data(0))
    assert two.reader.fetch(LONG_S) == [Fetched(1, other)]


def test_garbage_is_an_error_after_what_came_before(two: Sockets) -> None:
    """Again and again, and it says what came."""
    sent = two.send(0, data(0))
    two.ends[0].send(b"\xff" * 12)
    assert two.reader.fetch(LONG_S) == [Fetched(0, sent)]
    for _ in range(2):
        with pytest.raises(
            PublisherLost, match="partition 0: the publisher has closed the connection: the bytes are no frame"
        ):
            two.reader.fetch(LONG_S)


def test_closing_wakes_who_reads(two: Sockets) -> None:
    """It gets nothing, and so does whoever reads afterwards."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(two.reader.fetch(LONG_S)))
    thread.start()
    while not two.reader._parents.turn.locked():
        pass
    two.reader.release()
    thread.join(LONG_S)
    assert found == [[]]
    assert two.reader.fetch(LONG_S) == []


def test_many_may_close_at_once() -> None:
    """Each file is closed once: nobody closes what belongs to another meanwhile."""
    for _ in range(50):
        before = open_files()
        sockets = Sockets(1)
        barrier = threading.Barrier(4)

        def close(sockets: Sockets = sockets, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            sockets.reader.release()

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        sockets.ends[0].close()
        after = open_files()
        assert before <= after
        assert [file for file in after - before if "pipe:" not in file] == []  # Ray's threads start programs


def test_one_that_closes_late_touches_no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call does nothing, also where the numbers of the files belong to others by then."""
    sockets = Sockets(1)
    sockets.reader.release()
    written: list[Any] = []
    monkeypatch.setattr(os, "eventfd_write", lambda *arguments: written.append(arguments))
    sockets.reader.release()
    sockets.ends[0].close()
    assert written == []


@pytest.mark.parametrize(("slow", "most"), [("disconnect", MOST_AT_ONCE), ("block", STEADILY)])
def test_who_may_hold_back_reads_steadily(slow: Any, most: int) -> None:
    """Little at a time, so that its publisher sees that it reads."""
    sockets = Sockets(1, DeliveryOptions(slow=slow))
    parent: Any = sockets.reader._parents.kept[0].parent
    assert parent._reader._most_at_once == most
    sockets.reader.release()
    sockets.ends[0].close()


# ---------------------------------------------------------------------- by calls

SNAPSHOT = Numbered(0, InitialFrontierSnapshot([0], []))
BATCH = Numbered(1, data(0))
END = Numbered(2, PartitionEnded())


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Actor:
    monkeypatch.setattr(parents, "_CALLS", replace(parents._CALLS, first_pause_s=0.0))
    monkeypatch.setattr(parents, "left", lambda joined: "")
    return Actor()


def read_on(reader: LiveSource) -> None:
    """Read until that is an error."""
    while True:
        reader.fetch(LONG_S)


def test_each_call_says_what_has_arrived(actor: Actor) -> None:
    """One call is out at a time, the first says who calls, and none goes out after the end but the farewell."""
    actor.talk.answers.extend([[told(SNAPSHOT)], [told(BATCH), told(END)]])
    reader = reader_of(actor)
    assert reader.fetch(LONG_S) == [Fetched(0, [SNAPSHOT])]
    assert reader.fetch(LONG_S) == [Fetched(0, [BATCH, END])]
    assert [(len(said), received, again) for _, said, _, received, again in actor.talk.calls[:2]] == [
        (1, 0, False),
        (0, 1, False),
    ]
    assert reader.fetch(0.0) == []
    assert actor.detach.calls == [("s",)]
    reader.release()


def test_a_publisher_out_of_reach_for_a_moment_is_called_again(actor: Actor) -> None:
    """It is asked for what has not arrived, and told again who calls if that may have been lost."""
    actor.talk.answers.extend([ActorUnavailableError("no answer", None), [told(SNAPSHOT)]])
    reader = reader_of(actor)
    while not (found := reader.fetch(LONG_S)):
        pass
    assert found == [Fetched(0, [SNAPSHOT])]
    assert [(len(said), received, again) for _, said, _, received, again in actor.talk.calls[:2]] == [
        (1, 0, False),
        (1, 0, True),
    ]
    reader.release()


@pytest.mark.parametrize("error", [ActorUnavailableError("no answer", None), ActorDiedError()], ids=["away", "dead"])
def test_one_that_does_not_come_back_is_lost(actor: Actor, error: Exception) -> None:
    """A dead one at once, and one that is out of reach after some attempts."""
    actor.talk.answers.extend([error] * 20)
    reader = reader_of(actor)
    if isinstance(error, ActorDiedError):
        actor.ping.answers.appendleft(error)
    with pytest.raises(PublisherLost, match=rf"partition 0: the publisher .*: {type(error).__name__}"):
        read_on(reader)
    assert len(actor.talk.calls) == (11 if isinstance(error, ActorUnavailableError) else 1)
    reader.release()


@pytest.mark.parametrize("error", [ActorUnavailableError("no answer", None), ActorDiedError()], ids=["away", "dead"])
def test_a_publisher_that_does_not_answer_at_first_is_lost(error: Exception) -> None:
    """The subscription fails at once, and leaves nothing open."""
    before = open_files()
    with pytest.raises(PublisherLost, match="topic 'ranks', partition 0: the publisher is dead"):
        reader_of(Actor(error))
    assert open_files() == before


def test_a_subscriber_to_the_catalog_looks_again_for_a_publisher_that_dies_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A publisher that is about to die still answers the catalog. The next lookup starts another."""
    end, connection = socketpair()
    publishers = [Actor(ActorDiedError()), Actor(Offer(connection))]
    monkeypatch.setattr(subscribing, "find_topic", lambda *_: own_topic(publishers.pop(0), "first"))
    monkeypatch.setattr(subscribing, "node_id", lambda: "here")
    monkeypatch.setattr(subscribing, "process_id", lambda: "me")
    with end, subscribing.subscribe(CATALOG_TOPIC) as subscription:
        assert subscription.topic == CATALOG_TOPIC
    assert not publishers


def test_a_subscriber_to_another_topic_hears_of_a_dead_publisher_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody starts another publisher of a job's topic."""
    dead = TopicInfo("ranks", "job", IntegerDomain(), (Actor(ActorDiedError()),), "first")
    found = [dead]
    monkeypatch.setattr(subscribing, "find_topic", lambda *_: found.pop(0))
    monkeypatch.setattr(subscribing, "node_id", lambda: "here")
    monkeypatch.setattr(subscribing, "process_id", lambda: "me")
    with pytest.raises(PublisherLost):
        subscribing.subscribe("ranks")
