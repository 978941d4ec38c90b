"""The topics to which a process can subscribe, and their changes.

`TopicWatch` reads the catalogs of this process and of the cluster, each on a thread.
"""

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

from tidewheel.host.ray_cluster import lost
from tidewheel.host.retry import Retry
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, Listing, TopicEvent
from tidewheel.pubsub.catalog.known_topics import KnownTopics
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError, NoCluster
from tidewheel.pubsub.messages.delivery_options import Delivery
from tidewheel.pubsub.subscribers.local_source import LocalSource
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription

_MOST_SIGHTINGS = 4096
_LOOK_S = 1.0
_SEARCHES = Retry(within_s=60.0, first_pause_s=0.5, factor=1.0)
"""The attempts at finding the catalog that replaces a lost catalog."""
_JOIN_S = 10.0

Sightings: TypeAlias = "queue.Queue[list[TopicEvent] | Exception]"
"""The events that the readers of catalogs have found, or the error that ended a reader."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to which a process can subscribe now.

    Attributes:
        name: the name that subscribers use.
        job: the name of the job that publishes it.
        partitions: the number of its partitions.
        times: the domain of its times, such as ``IntegerDomain()``.
        schema: the schema of its records, such as ``int`` or ``(word: string, n: int64)``; ``any`` if none is declared.
        delivery: the guarantee to subscribers, ``"best_effort"`` or ``"exactly_once"``.
    """

    name: str
    job: str
    partitions: int
    times: str
    schema: str
    delivery: Delivery = "best_effort"


def topics() -> list[Topic]:
    """Return the topics of local jobs of this process, then those of all jobs on the Ray cluster, by name.

    A process outside a Ray cluster connects to one as `subscribe` does; without a cluster, only local topics are
    returned.

    A topic belongs to the Ray namespace of its driver, and only processes of that namespace see it. Two namespaces may
    each have a topic with the same name. The namespace is ``"tidewheel"`` by default; a driver chooses another with
    ``ray.init(namespace=...)`` or, if tidewheel connects it, with the environment variable RAY_NAMESPACE.

    Raises:
        NoCluster: there is no local topic, and no Ray cluster; the message names the address.
        DeliveryError: the catalog does not answer; the message names the cluster.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("words").publish("words by hand")
    >>> with tw.run(flow, workers=2, engine="local") as job:
    ...     [(topic.name, topic.partitions) for topic in tw.topics() if topic.job == job.name]
    ...     job.stop()
    [('words by hand', 2)]
    """
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    found = LOCAL_CATALOG.topics()
    try:
        found += ask_catalog("topics")
    except NoCluster:
        if not found:
            raise
    return [
        Topic(info.name, info.job, len(info.partitions), repr(info.domain), info.schema_text, info.delivery)
        for info in found
    ]


class CatalogReader:
    """Puts the current topics of one catalog into a queue, then every change, on a thread.

    If the catalog is replaced, the reader follows the new catalog.
    """

    def __init__(
        self, subscribe: Callable[[], Subscription], listing: Callable[[], Listing], sightings: Sightings
    ) -> None:
        self._subscribe = subscribe
        self._listing = listing
        self._sightings = sightings
        self._known = KnownTopics()
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._subscription: Subscription | None = None
        self._thread = threading.Thread(target=self._run, name="tidewheel-catalog-reader", daemon=True)

    def start(self) -> None:
        """Connect, put the current topics into the queue, and start the thread.

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
        """Leave the catalog, and end the thread; idempotent."""
        self._is_closed.set()
        with self._lock:
            if self._subscription is not None:
                self._subscription.close()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _look(self) -> None:
        """Subscribe, and then put a listing into the queue; a change in between is in both, with the same number."""
        before = self._listing()
        while not self._is_closed.is_set():
            subscription = self._subscribe()
            with self._lock:
                self._subscription = subscription
                if self._is_closed.is_set():
                    subscription.close()
            listing = self._listing()
            if listing.incarnation == before.incarnation:
                self._put(self._known.listed(listing, time.monotonic()))
                return
            subscription.close()
            before = listing

    def _run(self) -> None:
        lost_s: float | None = None
        failures = 0
        while not self._is_closed.is_set():
            try:
                if lost_s is not None:
                    self._look()
                    lost_s, failures = None, 0
                self._read()
                error: Exception = DeliveryError("the catalog of topics has ended")
            except DeliveryError as caught:
                error = caught
                if gone := lost():
                    self._put(DeliveryError(gone))
                    return
            except SystemExit:  # Ray raises it in threads when it is shut down
                self._put(DeliveryError("this process has left the Ray cluster"))
                return
            except Exception as caught:  # noqa: BLE001 - the thread must not end in silence
                self._put(caught)
                return
            lost_s = time.monotonic() if lost_s is None else lost_s
            failures += 1
            pause_s = _SEARCHES.pause_s(failures, time.monotonic() - lost_s)
            if pause_s is None:
                self._put(error)
                return
            self._is_closed.wait(pause_s)

    def _read(self) -> None:
        assert self._subscription is not None, "it is connected"
        while True:
            deadline_s = self._known.deadline_s
            timeout = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            with suppress(TimeoutError):
                for epoch in self._subscription.epochs(timeout):
                    for event in epoch.records:
                        self._put(self._known.changed(event))
                    self._put(self._known.expire(time.monotonic()))
                return
            self._put(self._known.expire(time.monotonic()))

    def _put(self, found: list[TopicEvent] | Exception) -> None:
        while found and not self._is_closed.is_set():
            with suppress(queue.Full):
                self._sightings.put(found, timeout=_LOOK_S)
                return


class TopicWatch:
    """An iterator over topic events: first the current topics, then each change.

    The watch survives restarts of the cluster's catalog. Close it, or use it in a ``with`` block. One thread iterates;
    any thread may close the watch.

    Args:
        readers: started readers of catalogs, which fill the queue.
        sightings: the queue.
        timeout: how many seconds to wait for a change before iteration ends; None for no limit.
    """

    def __init__(self, readers: list[CatalogReader], sightings: Sightings, timeout_s: float | None) -> None:
        self._sightings = sightings
        self._timeout = timeout_s
        self._told: deque[TopicEvent] = deque()
        # A watch that was dropped without being closed must not leave a thread behind.
        self._release = weakref.finalize(self, _close, readers, sightings)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TopicEvent:
        """Wait for the next event and return it; raise DeliveryError if the cluster is lost."""
        until_s = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._told and self._release.alive:
            try:
                left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
                found = self._sightings.get(timeout=left_s)
            except queue.Empty:
                break
            if isinstance(found, Exception):
                self.close()
                raise DeliveryError(f"topics cannot be watched any longer: {found}") from found
            self._told.extend(found)
        if not self._told or not self._release.alive:
            raise StopIteration
        return self._told.popleft()

    def close(self) -> None:
        """End the watch and its iteration; idempotent."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def watch_topics(timeout_s: float | None = None) -> TopicWatch:
    """Return an iterator over a `TopicEvent` for each current topic, then for each change, with its reason.

    The topics are those of `topics`, and no change is missed. The topic of a killed job is retracted within seconds.
    After a restart of the catalog, a topic that the new catalog does not learn within ten seconds is retracted.

    Args:
        timeout_s: how many seconds to wait for a change before iteration ends; None for no limit, 0 for the current
            topics only.

    Raises:
        DeliveryError: there is no Ray cluster and no local topic, or the catalog does not answer.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("words", str).publish("words, watched", schema=str)
    >>> with tw.run(flow, engine="local") as job, tw.watch_topics(timeout_s=0) as watch:
    ...     [(event.event, event.schema) for event in watch if event.topic == "words, watched"]
    ...     job.stop()
    [('published', 'str')]
    """
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    sightings: Sightings = queue.Queue(_MOST_SIGHTINGS)
    local = CatalogReader(_subscribe_here, LOCAL_CATALOG.listing, sightings)
    cluster = CatalogReader(partial(subscribe, CATALOG_TOPIC), partial(ask_catalog, "listing"), sightings)
    local.start()
    try:
        cluster.start()
    except BaseException as error:
        if isinstance(error, NoCluster) and LOCAL_CATALOG.names():
            return TopicWatch([local], sightings, timeout_s)
        local.close()
        raise
    return TopicWatch([local, cluster], sightings, timeout_s)


def _subscribe_here() -> Subscription:
    info = LOCAL_CATALOG.own_topic
    return Subscription(info, LocalSource(info, f"watch-{time.monotonic_ns()}"))


def _close(readers: list[CatalogReader], sightings: Sightings) -> None:
    for reader in readers:
        reader.close()
    with suppress(queue.Full):  # the waiting thread has a finding to receive
        sightings.put_nowait([])
