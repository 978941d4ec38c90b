"""The actor around a pubend: a worker, children and a log, all real, without a cluster; and it starts again."""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.exactly_once.durable_feed import DurableFeed
from tidewheel.pubsub.exactly_once.durable_pubend import size_of
from tidewheel.pubsub.exactly_once.encoded_message import EncodedMessage, decode
from tidewheel.pubsub.exactly_once.frames import Join
from tidewheel.pubsub.exactly_once.messages import KnowledgeMessage, Nack, Rejected
from tidewheel.pubsub.exactly_once.parent_link import ParentLink
from tidewheel.pubsub.exactly_once.pubend import Start
from tidewheel.pubsub.exactly_once.pubend_actor import PubendActor
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.exactly_once.tick_set import TickSet
from tidewheel.pubsub.feed import FeedLost
from tidewheel.pubsub.log import LogIdentity, LogLocked
from tidewheel.pubsub.wire import DataMessage, LowerFrontierUpdate

DOMAIN = IntegerDomain()
IDENTITY = LogIdentity("topic", 0, 1, "integers")
NODE = "here"
DEADLINE_S = 30.0

Result = TypeVar("Result")


class Host:
    """A loop on a thread, with one life of the actor after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.actor = self._new()

    def _new(self) -> PubendActor:
        async def work() -> PubendActor:
            actor = PubendActor(str(self._directory), IDENTITY, DOMAIN, NODE, segment_bytes=4000)
            await actor.open()
            return actor

        return self.call(work())

    def restart(self) -> None:
        """End the actor and start another."""
        self.call(self.actor.close())
        self.actor = self._new()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Call a method of the actor."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def connection(self, child: str | None = None) -> socket.socket:
        """Connect a child, or the worker."""
        try:
            actor = self.actor
            offer = self.call(actor.listen() if child is None else actor.attach(child))
        except (RuntimeError, AssertionError) as error:
            raise FeedLost("it is just starting again") from error
        connection = None if offer is None else offer.connect(NODE)
        if connection is None:
            raise FeedLost("it has ended meanwhile")
        return connection

    def stop(self) -> None:
        """End everything."""
        self.call(self.actor.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


@contextmanager
def hosted(directory: Path) -> Iterator[Host]:
    host = Host(directory)
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


class Reader:
    """A subscription that survives publishers."""

    def __init__(self, host: Host, name: str, where: Times | None = None, start: int | None = None) -> None:
        self._host, self._name, self._where = host, name, where
        begun = host.call(host.actor.subscribe(name, start, durable=True))
        self._subend = Subend(name, {0: Start(begun.acknowledged, begun.told_end)}, size_of)
        self._link: ParentLink | None = None
        self._done = TickSet(begun.acknowledged)
        self.events: list[Any] = []

    def read(self, is_enough: Callable[[list[Any]], bool]) -> None:
        """Read until there is enough."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not is_enough(self.events):
            assert time.monotonic() < deadline_s, f"{self._name} has had {self.events}"
            self._turn()

    def _turn(self) -> None:
        if self._link is None or self._link.is_lost:
            self.close()
            self._link = ParentLink(self._host.connection(self._name))
            self._link.say([Join(self._name, self._where)])
            self._subend.reconnected()
        now_s = time.monotonic()
        self._link.say(self._subend.ask(now_s))
        wait_s = min(0.1, max(0.0, self._subend.ask_at_s() - now_s))
        select.select([self._link], [], [], wait_s)
        for message in self._link.read():
            assert isinstance(message, KnowledgeMessage), message
            self._subend.receive(message, time.monotonic())
        for delivered in self._subend.take():
            self.events.append(decode(delivered.message))
            self._subend.acknowledge(0, delivered.tick)
        self._link.say(self._subend.acks())

    def close(self) -> None:
        """Let go of the connection."""
        if self._link is not None:
            self._link.close()


def contents(events: list[Any]) -> list[tuple[int, bytes]]:
    return [(event.time, bytes(event.payload)) for event in events if isinstance(event, DataMessage)]


def send(feed: DurableFeed, time: int) -> None:
    feed.send([DataMessage(time, f"{time}/{index}".encode() * 30, "pickle", 1) for index in range(2)])
    feed.send([LowerFrontierUpdate([(time, -1), (time + 1, 1)])])


def everything(times: range) -> list[tuple[int, bytes]]:
    return [(time, f"{time}/{index}".encode() * 30) for time in times for index in range(2)]


def test_everybody_gets_everything_once_also_over_restarts(tmp_path: Path) -> None:
    """Three subscriptions, one with a filter and one that comes late and wants all; the actor is started anew twice."""
    with hosted(tmp_path) as host:
        feed = DurableFeed(DOMAIN, host.connection)
        readers = [Reader(host, "all"), Reader(host, "even", Times(2))]
        try:
            for at in range(30):
                send(feed, at)
                if at in {10, 20}:
                    readers[0].read(lambda events: len(contents(events)) >= 4)
                    host.restart()
            readers.append(Reader(host, "late", start=0))
            feed.send([LowerFrontierUpdate([(30, -1)])])
            feed.finish()
            assert host.call(host.actor.ended(DEADLINE_S))
            for reader, wanted in zip(readers, (60, 30, 60), strict=True):
                reader.read(lambda events, wanted=wanted: len(contents(events)) >= wanted)  # type: ignore[misc]
        finally:
            feed.close()
            for reader in readers:
                reader.close()
    assert contents(readers[0].events) == contents(readers[2].events) == everything(range(30))
    assert contents(readers[1].events) == [one for one in everything(range(30)) if one[0] % 2 == 0]


def test_a_subscription_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another process takes over its name: what was acknowledged does not come again; and forgotten is forgotten."""
    with hosted(tmp_path) as host:
        feed = DurableFeed(DOMAIN, host.connection)
        first = Reader(host, "billing", start=0)
        try:
            for at in range(5):
                send(feed, at)
            first.read(lambda events: len(contents(events)) == 10)
            first.read(lambda _: bool(host.call(acknowledged(host, "billing"))))
            first.close()
            send(feed, 5)
            host.restart()
            second = Reader(host, "billing", start=0)
            second.read(lambda events: len(contents(events)) == 2)
            second.close()
            assert contents(second.events) == everything(range(5, 6))
            host.call(host.actor.unsubscribe("billing"))
            host.restart()
            assert host.call(host.actor.subscribe("billing", None)).acknowledged[0][1] > 0
        finally:
            feed.close()
            first.close()


async def acknowledged(host: Host, name: str) -> bool:
    """Tell whether it is noted in the log that a subscription is at the end."""
    core = host.actor._core
    [(_, end), *rest] = core.cursors().get(name) or ((0, 0),)
    return not rest and end > core.written_tick and core.is_durable


def test_questions_about_others_are_rejected(tmp_path: Path) -> None:
    """With what was wrong; others are served."""
    with hosted(tmp_path) as host:
        link = ParentLink(host.connection("lost"))
        link.say([Join("lost", None), Nack(3, ((0, 5),), 100)])
        found: list[Any] = []
        deadline_s = time.monotonic() + DEADLINE_S
        while not any(isinstance(message, Rejected) for message in found) and time.monotonic() < deadline_s:
            select.select([link], [], [], 0.1)
            found += link.read()
        link.close()
        assert "it asked pubend 0 about pubend 3" in found[-1].reason


def test_the_log_belongs_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second actor waits for the first to end, and then says who has it."""
    monkeypatch.setattr("tidewheel.pubsub.exactly_once.pubend_actor.PREDECESSOR_ENDS_WITHIN_S", 0.1)
    with hosted(tmp_path) as host:
        other = PubendActor(str(tmp_path), IDENTITY, DOMAIN, NODE)
        with pytest.raises(LogLocked, match=r"is in use by process \d+ .*, also after waiting for 0.1 s"):
            host.call(other.open())
        host.call(other.close())
