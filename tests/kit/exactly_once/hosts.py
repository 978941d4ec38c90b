"""The actor around a pubend on a loop of its own, one life after the other, and somebody who reads it. No Ray."""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import gcd
from pathlib import Path
from typing import Any, TypeVar

from tests.kit.exactly_once.partitions import cursors
from tests.waiting import eventually
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, size_of
from tidewheel.pubsub.messages.frames import CODEC, Join
from tidewheel.pubsub.messages.tick_set import TickSet
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate
from tidewheel.pubsub.publishers.durable_delivery import DurableDelivery
from tidewheel.pubsub.publishers.feed import Feed, FeedLost
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.publishers.sent_events import SentEvents
from tidewheel.transport.stream_link import ParentLink

DOMAIN = IntegerDomain()
IDENTITY = LogIdentity("topic", 0, 1, "integers")
NODE = "here"
DEADLINE_S = 30.0

_IDS = count()

Result = TypeVar("Result")


def durable_actor(directory: Path | str, identity: LogIdentity = IDENTITY, **options: Any) -> PublisherActor:
    """Return an actor with a log."""
    make = partial(DurableDelivery, directory, identity, DOMAIN, NODE, **options)
    return PublisherActor(identity.topic, identity.partition, make)


async def die(actor: PublisherActor) -> None:
    """Let go of everything that an actor with a log has, without a word, as the end of a process does."""
    partition, actor._opened = actor._opened, None
    if partition is not None:
        assert isinstance(partition.delivery, DurableDelivery)
        await partition.delivery.stop()


class Host:
    """A loop on a thread, with one life of the actor after the other.

    Args:
        directory: of its log.
        options: of the actor.
    """

    def __init__(self, directory: Path | str, **options: Any) -> None:
        self._directory = directory
        self._options = {"segment_bytes": 4000} | options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._connections: list[socket.socket] = []
        self.actor = self._new()
        self.call(self.actor.open())

    def _new(self) -> PublisherActor:
        return durable_actor(self._directory, **self._options)

    def restart(self) -> None:
        """End the actor, without a word to anybody, and start another."""
        self.call(die(self.actor))
        self.actor = self._new()

    def run(self, work: Callable[[], Result]) -> Result:
        """Do something on the loop."""

        async def call() -> Result:
            return work()

        return self.call(call())

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Call a method of the actor."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def begin(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Call a method of the actor, and do not wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def connection(self, child: str | None = None) -> socket.socket:
        """Connect a child, or the worker; what it does not close is closed at the end, also of a test that fails."""
        try:
            actor = self.actor
            offer = self.call(actor.listen() if child is None else actor.attach(child))
        except (RuntimeError, AssertionError, DeliveryError) as error:
            raise FeedLost("it is just starting again") from error
        connection = None if offer is None else offer.connect(NODE)
        if connection is None:
            raise FeedLost("it has ended meanwhile")
        self._connections.append(connection)
        return connection

    def stop(self) -> None:
        """End everything."""
        self.call(self.actor.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()
        for connection in self._connections:
            connection.close()


@contextmanager
def hosted(directory: Path | str, **options: Any) -> Iterator[Host]:
    host = Host(directory, **options)
    try:
        yield host
    finally:
        host.stop()


@dataclass(frozen=True)
class Times:
    """Wants the batches of times that are divisible by a number."""

    divisor: int

    def of(self, message: EncodedMessage) -> EncodedMessage | None:
        """Return the message, unless it is a batch of another time."""
        event = decode(message)
        return None if isinstance(event, DataMessage) and event.time % self.divisor else message

    def __or__(self, other: "Times") -> "Times":
        return Times(gcd(self.divisor, other.divisor))


class Reader:
    """A subscription that survives publishers.

    Attributes:
        id: its own, as a reader.
        events: what it has had.
        others: what it was told that is no knowledge.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        where: Times | None = None,
        start: int | None = None,
        *,
        durable: bool = True,
        process: str = "process",
    ) -> None:
        self._host, self._name, self._where = host, name, where
        self.id = f"{process}/{name}/{next(_IDS)}"
        begun = host.call(host.actor.subscribe(name, self.id, start, durable=durable))
        self._subend = Subend(self.id, {0: begun}, size_of)
        self._link: ParentLink | None = None
        self._done = TickSet(begun.acknowledged)
        self.events: list[Any] = []
        self.others: list[Any] = []

    def read(self, is_enough: Callable[[list[Any]], bool]) -> None:
        """Read until there is enough."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not is_enough(self.events):
            assert time.monotonic() < deadline_s, f"{self._name} has had {self.events}"
            self.turn()
        assert not self.others, f"{self._name} was told {self.others}"

    def hear(self, count: int = 1) -> list[Any]:
        """Read until so much was told that is no knowledge; return and forget it."""
        deadline_s = time.monotonic() + DEADLINE_S
        while len(self.others) < count:
            assert time.monotonic() < deadline_s, f"{self._name} has heard {self.others}"
            self.turn()
        heard, self.others = self.others, []
        return heard

    def connect(self) -> ParentLink:
        """Connect, if it is not, and return the connection."""
        if self._link is None or self._link.is_lost:
            self.close()
            self._link = ParentLink(CODEC, self._host.connection(self.id))
            self._link.say([Join(self.id, self._where)])
            self._subend.reconnected()
        return self._link

    def turn(self) -> None:
        """Do what there is to do now."""
        link = self.connect()
        now_s = time.monotonic()
        link.say(self._subend.ask(now_s))
        wait_s = min(0.1, max(0.0, self._subend.ask_at_s() - now_s))
        select.select([link], [], [], wait_s)
        for message in link.read():
            if isinstance(message, KnowledgeMessage):
                self._subend.receive(message, time.monotonic())
            else:
                self.others.append(message)
        for delivered in self._subend.take():
            self.events.append(decode(delivered.message))
            self._subend.acknowledge(0, delivered.tick)
        link.say(self._subend.acks())

    def close(self) -> None:
        """Let go of the connection."""
        if self._link is not None:
            self._link.close()


def contents(events: list[Any]) -> list[tuple[int, bytes]]:
    return [(event.time, bytes(event.payload)) for event in events if isinstance(event, DataMessage)]


def send(feed: Feed, time: int) -> None:
    feed.send([DataMessage(time, f"{time}/{index}".encode() * 30, "pickle", 1) for index in range(2)])
    feed.send([LowerFrontierUpdate([(time, -1), (time + 1, 1)])])


def everything(times: range) -> list[tuple[int, bytes]]:
    return [(time, f"{time}/{index}".encode() * 30) for time in times for index in range(2)]


async def acknowledged(host: Host, name: str) -> bool:
    """Tell whether it is noted in the log that a subscription is at the end."""
    core = host.actor._durable.core
    [(_, end), *rest] = cursors(core).get(name) or ((0, 0),)
    return not rest and end > core.written_tick and core.writer.is_durable


def published(host: Host, epochs: int) -> Feed:
    """Publish some epochs, and the end, and wait until all that is durable."""
    feed = Feed(SentEvents(DOMAIN), host.connection)
    for at in range(epochs):
        send(feed, at)
    feed.send([LowerFrontierUpdate([(epochs, -1)])])
    feed.finish()
    host.call(host.actor.end({}, 0.0))
    assert host.call(host.actor.ended(DEADLINE_S))
    return feed


def finish(feed: Feed, at: int) -> None:
    """Send an epoch, and wait until it is durable."""
    try:
        send(feed, at)
        feed.finish()
    finally:
        feed.close()


def read_all(reader: Reader, host: Host, epochs: int) -> None:
    """Read everything, and have it known that it is read."""
    reader.read(lambda events: len(contents(events)) == 2 * epochs)
    reader.read(lambda _: not host.run(host.actor._durable.core.unread))


def told(link: ParentLink, kind: type) -> list[Any]:
    """Wait until a child is told something of a kind; return that."""
    found: list[Any] = []

    def is_told() -> bool:
        found.extend(one for one in link.read() if isinstance(one, kind))
        return bool(found)

    assert eventually(is_told)
    return found


def looks_of(host: Host) -> Callable[[], int]:
    """Return what counts how often the actor has looked since."""
    count = [0]
    look = host.actor._durable.core.look

    def counted(**options: Any) -> None:
        count[0] += 1
        look(**options)

    host.actor._durable.core.look = counted  # type: ignore[method-assign]
    return lambda: count[0]
