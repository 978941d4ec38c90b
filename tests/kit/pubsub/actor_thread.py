"""A publisher's actor on an event loop in a thread of this process, and subscribers that read it over sockets."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.catalog_topic import CatalogPublisher
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate
from tidewheel.pubsub.protocol.publisher_statistics import PublisherStatistics
from tidewheel.pubsub.publishers.feed import Feed
from tidewheel.pubsub.publishers.live_delivery import LiveDelivery
from tidewheel.pubsub.publishers.partition import Partition
from tidewheel.pubsub.publishers.sent_events import PassingEvents
from tidewheel.pubsub.subscribers.live_source import LiveSource
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.transport.tickets import SocketOffer

Result = TypeVar("Result")

NODE = "this node"
DEADLINE_S = 30.0
PLENTY = 1 << 28


class ActorThread:
    """Runs a publisher actor as Ray would in a process; a context manager.

    Its clock, which is that of its loop too, goes on as clocks do, and jumps with `advance`.
    """

    def __init__(self, capacity_bytes: int = PLENTY, *, has_sockets: bool = True, has_history: bool = False) -> None:
        self._ahead_s = 0.0
        self.loop = asyncio.new_event_loop()
        self.loop.time = self.now_s  # type: ignore[method-assign]
        node = NODE if has_sockets else None
        make = partial(LiveDelivery, "'ranks'[0]", IntegerDomain(), capacity_bytes, node=node, clock=self.now_s)
        self.actor = CatalogPublisher(partial(make, has_history=has_history))
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._partition: Partition | None = None
        self._feeds: list[Feed] = []

    @property
    def _whole(self) -> Partition:
        """The partition of the actor, also after that was closed."""
        self._partition = self._partition or self.actor.partition
        return self._partition

    @property
    def partition(self) -> LiveDelivery:
        """How the partition of the actor delivers."""
        delivery = self._whole.delivery
        assert isinstance(delivery, LiveDelivery)
        return delivery

    def now_s(self) -> float:
        return time.monotonic() + self._ahead_s

    def advance(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self._ahead_s += seconds
        self.run(lambda: None)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for feed in self._feeds:
            feed.close()
        self.die()
        self.run(self._cancel)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()

    def _cancel(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def die(self) -> None:
        """Close all sockets, as the end of a process does."""

        async def close() -> None:
            await self._whole.close()

        self.call(close())

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Call a method of the actor."""
        return self.submit(work)(DEADLINE_S)

    def submit(self, work: Coroutine[Any, Any, Result]) -> Callable[[float], Result]:
        """Call a method of the actor; return what waits for its result, so many seconds at most."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result

    def run(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop."""

        async def work() -> Result:
            return function()

        return self.call(work())

    def statistics(self) -> PublisherStatistics:
        return self.run(self.partition._publisher.statistics)

    def feed(self) -> Feed:
        """Return a worker's way to the publisher."""
        offer = self.call(self.actor.listen())
        assert offer is not None

        def connect() -> socket.socket:
            connection = offer.connect(NODE)
            assert connection is not None
            return connection

        self._feeds.append(Feed(PassingEvents(IntegerDomain()), connect, restarts_within_s=0.0))
        return self._feeds[-1]

    def reader(self, name: str, options: DeliveryOptions = EVERYTHING) -> LiveSource:
        """Return what a subscriber reads with."""
        return LiveSource(info_of([self]), name, options, NODE)

    def subscription(self, name: str, options: DeliveryOptions = EVERYTHING) -> Subscription:
        return subscription_of([self], name, options)


def subscription_of(
    actors: "Sequence[ActorThread | Offering]", name: str, options: DeliveryOptions = EVERYTHING
) -> Subscription:
    """Return a subscription to actors in threads of this process."""
    info = info_of(actors)
    return Subscription(info, LiveSource(info, name, options, NODE), may_drop=options.slow == "drop_epochs")


def info_of(actors: "Sequence[ActorThread | Offering]") -> TopicInfo:
    handles = [Handle(actor) if isinstance(actor, ActorThread) else actor for actor in actors]
    return TopicInfo("ranks", "job", IntegerDomain(), tuple(handles), "first")


@dataclass(frozen=True)
class Handle:
    """The handle of an actor, as Ray would give it."""

    thread: ActorThread

    def __getattr__(self, name: str) -> "Method":
        return Method(self.thread, name)


@dataclass(frozen=True)
class Method:
    """A method of an actor, and a call of it."""

    thread: ActorThread
    name: str
    arguments: tuple[Any, ...] = ()

    def options(self, **_: Any) -> "Method":
        return self

    def remote(self, *arguments: Any) -> "Method":
        return Method(self.thread, self.name, arguments)

    def future(self) -> Any:
        work = getattr(self.thread.actor, self.name)(*self.arguments)
        return asyncio.run_coroutine_threadsafe(work, self.thread.loop)


class Offering:
    """A handle of an actor that has made its offer already."""

    def __init__(self, offer: SocketOffer | None) -> None:
        self._offer = offer
        self.attach = self

    def remote(self, *_: Any) -> "Offering":
        return self

    def future(self) -> "Future[SocketOffer | None]":
        answer: Future[SocketOffer | None] = Future()
        answer.set_result(self._offer)
        return answer


def data(time: int, size: int = 10) -> DataMessage:
    """A batch of that size, whose first byte says nothing; nobody decodes it."""
    return DataMessage(time, bytes([time % 256]) * size, "pickle", 1)


def moved(time: int) -> LowerFrontierUpdate:
    """The frontier moves on from a time to the next."""
    return LowerFrontierUpdate([(time, -1), (time + 1, 1)])


def ended(time: int) -> LowerFrontierUpdate:
    """The frontier, which is a time, becomes empty."""
    return LowerFrontierUpdate([(time, -1)])


def epoch(time: int, size: int = 10) -> list[FeedEvent]:
    """A batch, after which its time is complete."""
    return [data(time, size), moved(time)]
