"""Pubends, relays and readers in one process: all of it real but the cluster, and each actor can die and come again."""

import asyncio
import select
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.kit.exactly_once.hosts import Times, die, durable_actor
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.exactly_once.subend import Order, Subend
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.delivery_messages import RELAY_PREFIX, KnowledgeMessage, Stranger
from tidewheel.pubsub.messages.encoded_message import decode, size_of
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate
from tidewheel.pubsub.publishers.feed import Feed, FeedLost
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.publishers.sent_events import SentEvents
from tidewheel.pubsub.relays.relay_actor import RelayActor, RelayStatistics
from tidewheel.pubsub.relays.relay_handle import TopicLife
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone, find_parent
from tidewheel.transport.change_signal import ChangeSignal

DOMAIN = IntegerDomain()
NODE = "here"
ELSEWHERE = "elsewhere"
DEADLINE_S = 30.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class Method:
    """A method of an actor as its callers see it."""

    handle: "Handle"
    name: str

    def remote(self, *arguments: Any) -> "Call":
        return Call(self.handle, self.name, arguments)


@dataclass(frozen=True)
class Call:
    """A call that is under way."""

    handle: "Handle"
    name: str
    arguments: tuple[Any, ...]

    def future(self) -> Any:
        made = self._made()
        try:
            return asyncio.run_coroutine_threadsafe(made, self.handle.loop)
        except RuntimeError as error:  # the loop is closed
            made.close()
            raise ParentGone("it is not there") from error

    async def _made(self) -> Any:
        handle = self.handle
        if handle.actor is None:
            raise ParentGone("it is not there", is_for_good=handle.is_dead)
        return await getattr(handle.actor, self.name)(*self.arguments)


class Handle:
    """The handle of an actor, which can be killed, and started again.

    Args:
        loop: of the actor.
        make: makes it; called on the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Any]) -> None:
        self.loop = loop
        self._make = make
        self.actor: Any = None
        self.is_dead = False
        self.start()

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Have something done on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE_S)

    def start(self) -> None:
        """Start the actor, which knows nothing of what it was before."""

        async def work() -> None:
            self.actor = self._make()

        self.run(work())

    def kill(self) -> None:
        """Let the actor die; who is connected only sees that its connection ends."""
        actor, self.actor = self.actor, None
        if actor is not None:
            self.run(die(actor) if isinstance(actor, PublisherActor) else actor.close())


class OneTopic:
    """What relays know of a topic, which can come and go; and who has announced himself."""

    def __init__(self, parents: Sequence[Handle], pubends: int, node: str = NODE) -> None:
        self.node = node
        self.current: TopicLife | None = None
        self._changed = ChangeSignal()
        self.announced: dict[str, tuple[str, int]] = {}
        self.others: list[Handle] = []
        self.begin("first", parents, pubends)

    def begin(self, registration: str, parents: Sequence[Handle], pubends: int) -> None:
        self.current = TopicLife(registration, pubends, tuple(parents))
        parents[0].loop.call_soon_threadsafe(self._changed.notify)

    def leave_parent(self) -> None:
        """Go on to the first of the other parents, if there are any."""
        if self.others and self.current is not None:
            self.current = replace(self.current, parents=(self.others.pop(0),))

    async def life(self, timeout_s: float) -> TopicLife | None:
        await self._changed.wait_until(lambda: self.current is not None, timeout_s)
        return self.current

    async def announce(self, name: str, registration: str, children: int) -> bool:
        self.announced[name] = (registration, children)
        return self.current is None or self.current.registration == registration


class Topic:
    """A topic with pubends and relays, on a loop of its own; a context manager makes it.

    Args:
        directory: of the logs.
        pubends: how many there are.
    """

    def __init__(self, directory: Path, pubends: int) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.pubends = [self._pubend(directory / str(number), number, pubends) for number in range(pubends)]
        self.relays: list[Handle] = []
        self.readers: list[Reader] = []
        self.feeds = [Feed(SentEvents(DOMAIN), partial(connection, pubend)) for pubend in self.pubends]
        self.published = 0

    def _pubend(self, directory: Path, number: int, pubends: int) -> Handle:
        identity = LogIdentity("topic", number, pubends, "integers")
        return Handle(self.loop, lambda: durable_actor(directory, identity))

    def relay(self, *parents: Handle, node: str = NODE, **options: Any) -> Handle:
        """Start a relay, of the pubends if nothing else is said."""
        return self.relay_of(OneTopic(parents or self.pubends, len(self.pubends), node), **options)

    def relay_of(self, registry: Any, **options: Any) -> Handle:
        """Start a relay that has what it knows from ``registry``."""
        name = f"{RELAY_PREFIX}relay-{len(self.relays)}"
        relay = Handle(self.loop, lambda: RelayActor(name, registry, **options))
        self.relays.append(relay)
        return relay

    def reader(self, name: str, *parents: Handle, **options: Any) -> "Reader":
        """Connect a reader, to the pubends if nothing else is said."""
        reader = Reader(self, name, parents or tuple(self.pubends), **options)
        self.readers.append(reader)
        return reader

    def publish(self, count: int = 1, size: int = 100) -> None:
        """Publish batches, at each pubend one for each of so many times."""
        for time_ in range(self.published, self.published + count):
            for number, feed in enumerate(self.feeds):
                feed.send([DataMessage(time_, f"{number}/{time_}/".encode().ljust(size, b"."), "pickle", 1)])
                feed.send([LowerFrontierUpdate([(time_, -1), (time_ + 1, 1)])])
        self.published += count

    def everything(self, first: int = 0, divisor: int = 1) -> list[list[int]]:
        """Return the times that each pubend has published from ``first`` on, of those that can be divided."""
        return [[time_ for time_ in range(first, self.published) if time_ % divisor == 0] for _ in self.pubends]

    def read(self, until: Callable[[], bool], readers: Sequence["Reader"] | None = None) -> None:
        """Have readers read until something is so."""
        chosen = self.readers if readers is None else readers
        deadline_s = time.monotonic() + DEADLINE_S
        while not until():
            assert time.monotonic() < deadline_s, [(reader.name, reader.times()) for reader in chosen][:3]
            poll = select.poll()
            for reader in chosen:
                reader.turn()
                for parent in reader.connected():
                    poll.register(parent.fileno(), select.POLLIN)
            poll.poll(20)

    def read_all(self, first: int = 0, readers: Sequence["Reader"] | None = None) -> None:
        """Have readers read until each has what there is for it."""
        chosen = self.readers if readers is None else readers
        self.read(lambda: all(reader.has(first) for reader in chosen), chosen)

    def statistics(self, relay: Handle) -> RelayStatistics:
        statistics: RelayStatistics = relay.run(relay.actor.statistics())
        return statistics

    def stop(self) -> None:
        for feed in self.feeds:
            feed.close()
        for reader in self.readers:
            reader.close()
        for handle in [*self.relays, *self.pubends]:
            handle.kill()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.run_until_complete(asyncio.sleep(0))  # calls that threads have begun meanwhile find nobody there
        self.loop.close()


def connection(pubend: Handle) -> Any:
    """Return a connection of a worker."""
    try:
        offer = pubend.listen.remote().future().result(DEADLINE_S)
    except (ParentGone, RuntimeError, AssertionError) as error:
        raise FeedLost("it is just starting again") from error
    found = None if offer is None else offer.connect(NODE)
    if found is None:
        raise FeedLost("it has ended meanwhile")
    return found


class Reader:
    """A subscription that survives whoever is upstream.

    Attributes:
        parents: the handles of where to read: a relay, or all pubends.
    """

    def __init__(
        self,
        topic: Topic,
        name: str,
        parents: Sequence[Handle],
        *,
        divisor: int = 1,
        start: int | None = None,
        node: str = NODE,
        consolidates: bool = False,
        order: Order = "publisher",
    ) -> None:
        self.name = name
        self.parents = parents
        self._topic = topic
        self._divisor = divisor
        self._where = None if divisor == 1 else Times(divisor)
        self._node = node
        self._links: dict[int, Parent] = {}
        begun = [pubend.run(pubend.actor.subscribe(name, name, start)) for pubend in topic.pubends]
        starts = dict(enumerate(begun))
        self._subend = Subend(name, starts, size_of, may_consolidate=consolidates, order=order)
        self.batches: list[list[tuple[int, bytes]]] = [[] for _ in topic.pubends]

    def times(self) -> list[list[int]]:
        """Return the times of the batches that it has had of each pubend."""
        return [[time_ for time_, _ in batches] for batches in self.batches]

    def has(self, first: int = 0) -> bool:
        """Tell whether it has had all that there is for it, and not something else."""
        wanted = self._topic.everything(first, self._divisor)
        had = self.times()
        assert [one[: len(other)] for one, other in zip(wanted, had, strict=True)] == had, (self.name, had)
        return wanted == had

    def connected(self) -> list[Parent]:
        return [link for link in self._links.values() if not link.is_lost]

    def is_connected(self) -> bool:
        """Look whether any parent is there; what it tells is lost."""
        for link in self.connected():
            link.read()
        return bool(self.connected())

    def turn(self) -> None:
        """Do what there is to do now."""
        for number, handle in enumerate(self.parents):
            self._connect(number, handle)
        now_s = time.monotonic()
        self._say(self._subend.ask(now_s))
        for link in self._links.values():
            for message in link.read():
                if isinstance(message, Stranger):
                    self._subscribe_again(message)
                    continue
                assert isinstance(message, KnowledgeMessage), message
                self._subend.receive(message, now_s)
        for delivered in self._subend.take():
            event = decode(delivered.message)
            if isinstance(event, DataMessage):
                self.batches[delivered.pubend].append((event.time, bytes(event.payload)))
            self._subend.acknowledge(delivered.pubend, delivered.tick)
        self._say(self._subend.acks())

    def _subscribe_again(self, message: Stranger) -> None:
        """Have a pubend know this reader again, which was started anew."""
        pubend = self._topic.pubends[message.pubend]
        if message.reader == self.name and pubend.actor is not None:
            position = self._subend.acknowledged(message.pubend).prefix_end
            pubend.run(pubend.actor.subscribe(self.name, self.name, position, again=True))
            self._subend.reconnected()

    def _connect(self, number: int, handle: Handle) -> None:
        link = self._links.get(number)
        if link is not None and not link.is_lost:
            return
        if link is not None:
            link.close()
        with suppress(ParentGone):
            self._links[number] = found = find_parent(handle, self.name, self._node)
            found.say([Join(self.name, self._where)])
            self._subend.reconnected()

    def _say(self, messages: Sequence[Any]) -> None:
        for message in messages:
            number = message.pubend if len(self.parents) > 1 else 0
            if number in self._links:
                self._links[number].say([message])

    def move(self, *parents: Handle) -> None:
        """Read elsewhere from now on."""
        self.close()
        self.parents = parents

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()


@contextmanager
def topic_of(directory: Path, pubends: int = 2) -> Iterator[Topic]:
    topic = Topic(directory, pubends)
    try:
        yield topic
    finally:
        topic.stop()
