"""The clients of the gateway: at most a given number at once, and none once it stops.

Each client has its own subscription, and a thread that reads one item at each request. The messages for a slow client
wait at the publishers, as for any slow subscriber, and do not delay other clients.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from tidewheel.gateway.errors import TooManyClients
from tidewheel.progress import TidewheelError, TimeDomain
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, RolledBack, SubstreamsEnded
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.subscribers.subscription import Subscription

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

Read: TypeAlias = Callable[[TimeDomain, Iterator[Event]], Iterator[T]]
"""A function that makes a client's items from the times and the events of a topic."""

MAX_EPOCH_BYTES = 256 * 1024 * 1024
"""The default limit of the size of one client's incomplete epochs."""

STOPPED = "the gateway is being stopped"
"""The error message that clients receive when the gateway stops."""

_IDLE_S = 0.02


class OwnThread:
    """A daemon thread that runs calls one after the other."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], R]) -> "Future[R]":
        """Run ``call`` on the thread and return a future of its result; after `stop` this has no effect."""
        future: Future[R] = Future()
        self._calls.put((future, call))
        return future

    def stop(self) -> None:
        """End the thread after its pending calls, without waiting."""
        self._calls.put(None)

    def _run(self) -> None:
        while (task := self._calls.get()) is not None:
            future, call = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except SystemExit:  # Ray raises it in threads when this process leaves the cluster
                    future.set_exception(TidewheelError("the gateway has lost its Ray cluster meanwhile: try again"))
                except BaseException as error:  # noqa: BLE001  the future raises it to its reader
                    future.set_exception(error)


def asked(question: Callable[[], R]) -> "Future[R]":
    """Run a call that may hang, such as a call to the catalog of topics, on a separate thread; return its future."""
    thread = OwnThread("tidewheel-gateway-question")
    answer = thread.submit(question)
    thread.stop()
    return answer


@dataclass(eq=False)
class TopicFeed(Generic[T]):
    """A subscription and the items made from its events; thread-safe, never waits.

    Args:
        left: called once, when the feed is closed and its subscription has ended.
    """

    subscribe: Callable[[], Subscription]
    read: "Read[T]"
    left: Callable[["TopicFeed[T]"], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)
    _subscription: Subscription | None = None
    _items: Iterator[T] = field(default_factory=lambda: iter(()))

    def __post_init__(self) -> None:
        self._thread = OwnThread("tidewheel-gateway-client")
        self.opened = self._thread.submit(self._open)
        """The future of the connection; once it is done, the feed misses no event. Its result raises as `subscribe`
        does."""

    def next(self) -> "Future[T | None]":
        """Read the next item; the result is None at the end of the topic and after `close`."""
        with self._lock:
            if not self._closed.is_set():
                return self._thread.submit(lambda: next(self._items, None))
        nothing: Future[T | None] = Future()
        nothing.set_result(None)
        return nothing

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        """End the subscription immediately, even during a read; idempotent."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._thread.stop()
        threading.Thread(target=self._leave, name="tidewheel-gateway-leaving", daemon=True).start()

    def _open(self) -> None:
        self._subscription = self.subscribe()
        self._items = self.read(self._subscription.domain, self._events(self._subscription))

    def _events(self, subscription: Subscription) -> Iterator[Event]:
        if not subscription.is_local:
            yield from subscription
            yield from subscription.poll()  # after a stop, the iteration has ended, and this call raises the reason
            return
        # A local job runs only while its subscriber reads. It is idle until another thread sends to its inputs.
        while not self._closed.is_set() and not subscription.has_ended:
            events = subscription.poll()
            yield from events
            if not events:
                self._closed.wait(_IDLE_S)

    def _leave(self) -> None:
        wait([self.opened])
        try:
            if self._subscription is not None:
                self._subscription.close()
        except Exception:  # noqa: BLE001  the client has left, so only the log can have it
            _LOG.exception("a client's subscription did not end as it should")
        finally:
            self.left(self)


class Clients:
    """The feeds of all clients, of every protocol; thread-safe.

    Args:
        max_epoch_bytes: the limit, in bytes, of a client's incomplete epochs.
    """

    def __init__(self, most: int, max_epoch_bytes: int = MAX_EPOCH_BYTES) -> None:
        self._most = most
        self.max_epoch_bytes = max_epoch_bytes
        self._changed = threading.Condition()
        self._feeds: set[TopicFeed[Any]] = set()
        self._is_closed = False

    def admit(self, subscribe: Callable[[], Subscription], read: Read[T]) -> TopicFeed[T]:
        """Return the feed of a new client; the client leaves by closing the feed.

        Raises:
            TooManyClients: the gateway has its largest number of clients, or is stopping.
        """
        with self._changed:
            if self._is_closed:
                raise TooManyClients(STOPPED)
            if len(self._feeds) >= self._most:
                raise TooManyClients(
                    f"{self._most} clients read from this gateway already: try again later, or start it with a larger "
                    "--max-clients"
                )
            feed = TopicFeed(subscribe, read, self._leave)
            self._feeds.add(feed)
        return feed

    def close(self) -> None:
        """Close all feeds and admit no more clients, without waiting."""
        with self._changed:
            self._is_closed = True
            feeds = list(self._feeds)
        for feed in feeds:
            feed.close()

    def wait_until_none(self, timeout_s: float) -> bool:
        """Wait until all subscriptions have ended; return False after ``timeout_s`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._feeds, timeout_s)

    def _leave(self, feed: TopicFeed[Any]) -> None:
        with self._changed:
            self._feeds.discard(feed)
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._feeds)


def assembled(domain: TimeDomain, events: Iterator[Event], max_bytes: int) -> Iterator[Epoch | Event]:
    """Yield epochs in place of batches, each before the event that completes it.

    Pass on other events except `RolledBack`.

    Raises:
        TidewheelError: incomplete epochs exceed ``max_bytes``.
    """
    assembler, size = EpochAssembler(domain), 0
    for event in events:
        if isinstance(event, Batch | SubstreamsEnded):
            size += len(event.encoded.payload)
            if size > max_bytes:
                raise TidewheelError(
                    f"epochs that are not complete yet have {size:,} bytes, and the gateway keeps {max_bytes:,} for a "
                    "client. Ask for fewer records with where=, or over HTTP for single batches with epochs=false. "
                    "Or start the gateway with a larger --max-epoch-bytes"
                )
        for epoch in assembler.receive(event):
            parts: list[Batch | SubstreamsEnded] = [*epoch.batches, *epoch.ends]
            size -= sum(len(part.encoded.payload) for part in parts)
            yield epoch
        if isinstance(event, RolledBack):
            size = assembler.size_bytes
        elif not isinstance(event, Batch | SubstreamsEnded):
            yield event
