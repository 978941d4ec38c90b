"""One client's subscription, read on a thread of its own, one item for each request.

A client that reads slowly, or not at all, leaves its messages with the publishers. They treat it as any other slow
subscriber. Slow work for one client, such as decoding, does not delay other clients.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from tidewheel.progress import TimeDomain
from tidewheel.pubsub import Event, Subscription

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

Read: TypeAlias = Callable[[TimeDomain, Iterator[Event]], Iterator[T]]
"""A function that makes a client's items from the times and the events of a topic."""

_IDLE_S = 0.02


class OwnThread:
    """A thread that runs calls one after the other. It is a daemon, so it does not keep a process alive."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], R]) -> "Future[R]":
        """Run ``call`` on the thread and return the future of its result. After `stop` the thread runs nothing."""
        future: Future[R] = Future()
        self._calls.put((future, call))
        return future

    def stop(self) -> None:
        """End the thread once it has run all calls; do not wait for it."""
        self._calls.put(None)

    def _run(self) -> None:
        while (task := self._calls.get()) is not None:
            future, call = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  the future raises it to its reader
                    future.set_exception(error)


class TopicFeed(Generic[T]):
    """A subscription and the items made from its events. Methods may be called on any thread, and none of them waits.

    Args:
        subscribe: connects to the topic.
        read: makes items from the topic's times and events.
        left: a callback, called once after the feed is closed and its subscription has ended.
    """

    def __init__(
        self,
        subscribe: Callable[[], Subscription],
        read: "Read[T]",
        left: Callable[["TopicFeed[T]"], None],
    ) -> None:
        self._subscribe = subscribe
        self._read = read
        self._left = left
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._subscription: Subscription | None = None
        self._items: Iterator[T] = iter(())
        self._thread = OwnThread("tidewheel-gateway-client")
        self.opened = self._thread.submit(self._open)
        """The future of the connection, from which on the feed misses nothing; it raises what `subscribe` raises."""

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
        """Whether the feed was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """End the subscription at once, even during a read. Idempotent."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._thread.stop()
        threading.Thread(target=self._leave, name="tidewheel-gateway-leaving", daemon=True).start()

    def _open(self) -> None:
        self._subscription = self._subscribe()
        self._items = self._read(self._subscription.domain, self._events(self._subscription))

    def _events(self, subscription: Subscription) -> Iterator[Event]:
        if not subscription.is_local:
            yield from subscription
            return
        # A local job runs only while its subscriber reads, and is idle until another thread sends to its inputs.
        while not self._closed.is_set() and not subscription.is_over:
            events = subscription.take()
            yield from events
            if not events:
                self._closed.wait(_IDLE_S)

    def _leave(self) -> None:
        """End the subscription as soon as it exists; this may wait for a read in progress."""
        wait([self.opened])
        try:
            if self._subscription is not None:
                self._subscription.close()
        except Exception:  # noqa: BLE001  the client has left, so only the log can have it
            _LOG.exception("a client's subscription did not end as it should")
        finally:
            self._left(self)
