"""The watch: an iterator over the topics that are published and retracted."""

import queue
import time
import weakref
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

from tidewheel.pubsub.catalog.catalog_reader import CatalogReader, Sighting, Sightings
from tidewheel.pubsub.catalog.known_topics import KnownTopics
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.catalog.topic_event import CATALOG_TOPIC, Listing, TopicEvent
from tidewheel.pubsub.errors import DeliveryError, NoCluster
from tidewheel.pubsub.subscribers.local_reader import LocalTopicReader
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription

if TYPE_CHECKING:
    from typing import Self

_MOST_SIGHTINGS = 4096


class TopicWatch:
    """An iterator over topic events: first the present topics, then each change.

    It continues when the catalog of the cluster restarts. Close it, or use it in a ``with`` block. One thread iterates,
    and any thread may close it.

    Args:
        readers: of catalogs, each with its place as its number; they use the queue and have been started.
        sightings: the queue.
        timeout: the iteration ends after so many seconds without a change; None for never.
    """

    def __init__(self, readers: list[CatalogReader], sightings: Sightings, timeout: float | None) -> None:
        self._sightings = sightings
        self._timeout = timeout
        self._known = [KnownTopics() for _ in readers]
        self._told: deque[TopicEvent] = deque()
        # A watch that is dropped without being closed leaves no thread behind.
        self._release = weakref.finalize(self, _close, readers, sightings)

    def __iter__(self) -> "Self":
        return self

    def __next__(self) -> TopicEvent:
        """Wait for the next event and return it.

        Raises:
            DeliveryError: the cluster is out of reach.
        """
        until_s = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._told and self._release.alive:
            sighting = self._wait(until_s)
            if sighting is not None:
                self._take(sighting)
            for known in self._known:
                self._told.extend(known.expire(time.monotonic()))
            if sighting is None and not self._told and until_s is not None and time.monotonic() >= until_s:
                break
        if not self._told or not self._release.alive:
            raise StopIteration
        return self._told.popleft()

    def _wait(self, until_s: float | None) -> Sighting | None:
        """Return the next finding of a reader; None at a deadline, or when the watch is closed."""
        deadlines = [until_s, *(known.deadline_s for known in self._known)]
        next_s = min((deadline for deadline in deadlines if deadline is not None), default=None)
        try:
            return self._sightings.get(timeout=None if next_s is None else max(0.0, next_s - time.monotonic()))
        except queue.Empty:
            return None

    def _take(self, sighting: Sighting) -> None:
        known, found = self._known[sighting.reader], sighting.found
        if isinstance(found, Listing):
            self._told.extend(known.listed(found, time.monotonic()))
        elif isinstance(found, TopicEvent):
            self._told.extend(known.changed(found))
        else:
            self.close()
            raise DeliveryError(f"topics cannot be watched any longer: {found}") from found

    def close(self) -> None:
        """End the watch and a running iteration. Idempotent."""
        self._release()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def watch_topics(timeout: float | None = None) -> TopicWatch:
    """Return an iterator over `TopicEvent`: one for each present topic, then one for each change, with its reason.

    The topics are those of `topics`: of local jobs of this process and on the Ray cluster. No change is missed. A topic
    whose job is killed is retracted within seconds. After a restart of the cluster's catalog, topics that the new one
    does not learn within ten seconds are retracted.

    Args:
        timeout: the iteration ends after so many seconds without a change; None for never. With 0 it returns the
            present topics.

    Raises:
        DeliveryError: there is no Ray cluster and no local topic, or the catalog does not answer.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("words", str).publish("words, watched", schema=str)
    >>> with tw.run(flow, engine="local"), tw.watch_topics(timeout=0) as watch:
    ...     [(event.event, event.schema) for event in watch if event.topic == "words, watched"]
    [('published', 'str')]
    """
    sightings: Sightings = queue.Queue(_MOST_SIGHTINGS)
    local = CatalogReader(0, _subscribe_here, LOCAL_CATALOG.listing, sightings)
    cluster = CatalogReader(1, lambda: subscribe(CATALOG_TOPIC), _cluster_listing, sightings)
    local.start()
    try:
        cluster.start()
    except BaseException as error:
        if isinstance(error, NoCluster) and LOCAL_CATALOG.names():
            return TopicWatch([local], sightings, timeout)
        local.close()
        raise
    return TopicWatch([local, cluster], sightings, timeout)


def _subscribe_here() -> Subscription:
    info = LOCAL_CATALOG.own_topic
    return Subscription(info, LocalTopicReader(info, f"watch-{time.monotonic_ns()}"))


def _cluster_listing() -> Listing:
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    listing: Listing = ask_catalog("listing")
    return listing


def _close(readers: list[CatalogReader], sightings: Sightings) -> None:
    for reader in readers:
        reader.close()
    try:
        sightings.put_nowait(None)
    except queue.Full:
        return  # the waiting thread has a finding to receive
