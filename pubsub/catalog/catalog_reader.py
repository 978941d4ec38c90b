"""The reader of one catalog's changes, on a thread of its own, across restarts of the catalog."""

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from tidewheel.pubsub.catalog.topic_event import Listing, TopicEvent
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.subscribers.subscription import Subscription

_LOOK_S = 1.0
_AGAIN_S = 0.5
_GIVE_UP_S = 60.0
_JOIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding of one reader: all topics, a change, or the error that ended the reading."""

    reader: int
    found: Listing | TopicEvent | Exception


Sightings: TypeAlias = "queue.Queue[Sighting | None]"
"""The findings of the readers; None wakes the waiting thread."""


class CatalogReader:
    """Puts a listing into a queue, then every change after it; after a loss of the catalog, a listing again.

    Args:
        number: the number of this reader among those that use the queue.
        subscribe: connects to the topic of the catalog.
        listing: asks the catalog for its topics.
        sightings: the queue, which may be bounded.
    """

    def __init__(
        self,
        number: int,
        subscribe: Callable[[], Subscription],
        listing: Callable[[], Listing],
        sightings: Sightings,
    ) -> None:
        self._number = number
        self._subscribe = subscribe
        self._listing = listing
        self._sightings = sightings
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="tidewheel-catalog-reader", daemon=True)

    def start(self) -> None:
        """Connect, put in the first listing, and start the thread.

        Raises:
            DeliveryError: there is no catalog.
        """
        try:
            self._look()
        except BaseException:
            self.close()
            raise
        self._thread.start()

    def close(self) -> None:
        """Leave the catalog, and end the thread. Idempotent."""
        self._is_closed.set()
        with self._lock:
            if self._subscription is not None:
                self._subscription.close()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _look(self) -> None:
        """Subscribe, and then put in a listing; a change between the two is in both, with its number.

        Both come from the same catalog: a listing before the subscription names it, and a dead one never returns.
        """
        before = self._listing()
        while not self._is_closed.is_set():
            subscription = self._subscribe()
            with self._lock:
                self._subscription = subscription
                if self._is_closed.is_set():
                    subscription.close()
            listing = self._listing()
            if listing.incarnation == before.incarnation:
                self._put(listing)
                return
            subscription.close()
            before = listing

    def _run(self) -> None:
        lost_s: float | None = None
        while not self._is_closed.is_set():
            try:
                if lost_s is not None:
                    self._look()
                    lost_s = None
                self._read()
                error: Exception = DeliveryError("the catalog of topics has ended")
            except DeliveryError as caught:
                error = caught
            except SystemExit:  # Ray raises it in threads when it is shut down
                self._put(DeliveryError("this process has left the Ray cluster"))
                return
            except Exception as caught:  # noqa: BLE001 - the thread must not end in silence
                self._put(caught)
                return
            lost_s = time.monotonic() if lost_s is None else lost_s
            if time.monotonic() - lost_s > _GIVE_UP_S:
                self._put(error)
                return
            self._is_closed.wait(_AGAIN_S)

    def _read(self) -> None:
        assert self._subscription is not None, "it is connected"
        for epoch in self._subscription.epochs():
            for event in epoch.records:
                self._put(event)

    def _put(self, found: Listing | TopicEvent | Exception) -> None:
        while not self._is_closed.is_set():
            with suppress(queue.Full):
                self._sightings.put(Sighting(self._number, found), timeout=_LOOK_S)
                return
