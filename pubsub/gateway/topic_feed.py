"""One client's subscription, read on a thread of its own, an item at a time and only when somebody asks.

So a client that reads slowly, or not at all, leaves what comes with the publishers, which do with it what they do with
every slow subscriber; and nothing that takes long, such as decoding, holds up other clients.
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
"""What makes items for a client of the times and the events of a topic."""

_IDLE_S = 0.02


class OwnThread:
    """A thread that does what it is given, one thing after the other. It holds up no process that ends."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, call: Callable[[], R]) -> "Future[R]":
        """Have something done; return where its result will be. After `stop` nothing is done any more."""
        future: Future[R] = Future()
        self._calls.put((future, call))
        return future

    def stop(self) -> None:
        """End the thread once it has done what it was given; does not wait."""
        self._calls.put(None)

    def _run(self) -> None:
        while (task := self._calls.get()) is not None:
            future, call = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  it is raised where the result is looked at
                    future.set_exception(error)


class TopicFeed(Generic[T]):
    """A subscription and what is made of it. For any thread; nothing here waits.

    Args:
        subscribe: connects to the topic.
        read: makes items of the topic's times and its events.
        left: called once, when the feed is closed and its subscription ended.
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
        """Done when it is connected, from when on nothing is missed; raises what that raises."""

    def next(self) -> "Future[T | None]":
        """Read the next item; the result is None at the end, and after `close`."""
        with self._lock:
            if not self._closed.is_set():
                return self._thread.submit(lambda: next(self._items, None))
        nothing: Future[T | None] = Future()
        nothing.set_result(None)
        return nothing

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """End the subscription at once, also while it is being read; called again, it does nothing."""
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
        # A job of this process runs when somebody reads, and has nothing to do until others send to it.
        while not self._closed.is_set() and not subscription.is_over:
            events = subscription.take()
            yield from events
            if not events:
                self._closed.wait(_IDLE_S)

    def _leave(self) -> None:
        """End the subscription as soon as there is one; it may wait for a read that is under way."""
        wait([self.opened])
        try:
            if self._subscription is not None:
                self._subscription.close()
        except Exception:  # noqa: BLE001  nobody is left to whom it could be told
            _LOG.exception("a client's subscription did not end as it should")
        finally:
            self._left(self)
