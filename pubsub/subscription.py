"""Reading a topic, live, from any process of the cluster."""

import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Antichain, ProtocolError
from tidewheel.pubsub.catalog import TopicInfo
from tidewheel.pubsub.delivery_options import DeliveryOptions, Slow
from tidewheel.pubsub.epoch import Epoch
from tidewheel.pubsub.epoch_assembler import EpochAssembler
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, UnknownTopic
from tidewheel.pubsub.events import Event
from tidewheel.pubsub.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.subscriber import Subscriber, SubscriberStatistics
from tidewheel.pubsub.topic_reader import Fetched, LocalTopicReader, TopicReader
from tidewheel.pubsub.where import Where
from tidewheel.pubsub.wire import PartitionEnded

if TYPE_CHECKING:
    from typing import Self

_LOOKUP_S = 2.0
_CATALOG_TIMEOUT_S = 30.0


class Subscription:
    """A live view of a topic: an iterator over `Batch`, `Frontier`, `Dropped` and `End` events.

    It ends when the topic ends. If the topic fails, or a publisher dies, or this subscriber is cut off, iteration
    raises, after all that came before. One thread iterates; `close` may be called from another.

    What has not been read waits at the publishers, within their capacity. Publishers on Ray give up a subscriber that
    has not read for a minute.

    Args:
        info: the topic.
        reader: connected to it.
        atomic: whether to hold back epochs of which a part may have been missed.
        may_drop: whether publishers may leave out epochs.
    """

    def __init__(self, info: TopicInfo, reader: TopicReader, *, atomic: bool = True, may_drop: bool = False) -> None:
        self._info = info
        self._reader = reader
        self._subscriber = Subscriber(
            info.domain, len(info.partitions), atomic=atomic, may_drop=may_drop, topic=info.name
        )
        self._assembler = EpochAssembler(info.domain)
        self._events: deque[Event] = deque()
        self._complete: deque[Epoch] = deque()
        self._error: Exception | None = None
        self._is_closed = False
        # Whoever drops a subscription without closing it should not keep the publishers waiting for it.
        self._release = weakref.finalize(self, reader.close)

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._info.name

    @property
    def frontier(self) -> Antichain:
        """The lower bound on the times that can still come from the publishers."""
        return self._subscriber.frontier

    def epochs(self) -> Iterator[Epoch]:
        """Iterate over whole epochs, each as soon as it is complete, none before an earlier one.

        Do not mix it with iterating over events: each takes what the other then does not see. An iterator may be
        abandoned and another one begun; nothing is lost between them.
        """
        while True:
            while self._complete:
                yield self._complete.popleft()
            event = next(self, None)
            if event is None:
                return
            self._complete.extend(self._assembler.receive(event))

    def statistics(self) -> SubscriberStatistics:
        """Return counts of what happened so far."""
        return self._subscriber.statistics()

    def close(self) -> None:
        """Leave the topic; an iteration under way ends. Called again, it does nothing."""
        self._is_closed = True
        self._release()

    def __iter__(self) -> "Self":
        return self

    def __next__(self) -> Event:
        """Return the next event; waits for it."""
        while not self._is_closed:
            if self._events:
                return self._events.popleft()
            if self._error is not None:
                raise self._error
            if self._subscriber.is_ended:
                break
            self._read()
        raise StopIteration

    def _read(self) -> None:
        try:
            found = self._reader.read(self._subscriber.wanted)
        except PublisherLost as error:
            self._fail(error)
            return
        try:
            for fetched in found:
                self._take(fetched)
        except (DeliveryError, ProtocolError) as error:
            self._fail(error)

    def _take(self, fetched: Fetched) -> None:
        for numbered in fetched.messages:
            self._events.extend(self._subscriber.receive(fetched.partition, numbered))
            if isinstance(numbered.message, PartitionEnded):
                self._reader.detach(fetched.partition)

    def _fail(self, error: Exception) -> None:
        """Let go of the topic; ``error`` is raised after the events that came before it."""
        self._error = error
        self._reader.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def subscribe(
    topic: str,
    *,
    timeout: float = 10.0,
    atomic: bool = True,
    where: Callable[[Any], object] | Any = None,
    slow: Slow = "disconnect",
) -> Subscription:
    """Connect to a topic: of a local job of this process if there is one, otherwise of a job on Ray.

    From the return on, nothing is missed. A process that is not part of a Ray cluster yet connects to the one that
    runs.

    Args:
        topic: its name.
        timeout: how long to wait for the topic to exist, in seconds.
        atomic: whether to hold back epochs of which a part was published before; without, they come in part.
        where: which records are wanted: a function of a record, a dict for a row of Arrow, or for tables an expression
            such as ``pc.field("n") > 1``. It is evaluated by the publishers, so that nothing else is sent. One that
            raises ends the subscription with an error; nobody else notices.
        slow: what happens if more waits than the publishers keep: ``"disconnect"`` ends the subscription with an error,
            ``"drop_epochs"`` leaves out whole epochs, the oldest first, each told as `Dropped`. Then batches come once
            their epoch is complete.

    Raises:
        UnknownTopic: nobody published it in time.
        DeliveryError: there is no Ray cluster, the topic's publishers do not answer, or an argument is wrong.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("numbers", int).publish("numbers, live")
    >>> with tw.run(flow, engine="local") as job, tw.subscribe("numbers, live", where=lambda n: n > 1) as topic:
    ...     with job.input("numbers") as numbers:
    ...         numbers.send([1, 2, 3])
    ...     [epoch.records for epoch in topic.epochs()]
    [[2, 3]]
    """
    options = DeliveryOptions(None if where is None else Where(where), slow)
    subscriber = f"subscriber-{uuid.uuid4().hex}"
    local = LOCAL_CATALOG.lookup(topic)
    if local is not None:
        return _attach(local, LocalTopicReader(topic, local.partitions, subscriber, options), options, atomic=atomic)
    from tidewheel.pubsub.cluster import process_id
    from tidewheel.pubsub.ray_topic_reader import RayTopicReader

    info = _find(topic, timeout)
    name = f"{process_id()}/{subscriber}"
    return _attach(info, RayTopicReader(topic, info.partitions, name, options), options, atomic=atomic)


def _attach(info: TopicInfo, reader: TopicReader, options: DeliveryOptions, *, atomic: bool) -> Subscription:
    try:
        reader.attach()
    except BaseException:
        reader.close()
        raise
    return Subscription(info, reader, atomic=atomic, may_drop=options.slow == "drop_epochs")


def _find(topic: str, timeout: float) -> TopicInfo:
    import ray

    from tidewheel.pubsub.catalog_actor import catalog_actor
    from tidewheel.pubsub.cluster import connect

    connect()
    catalog = catalog_actor()
    deadline_s = time.monotonic() + timeout
    try:
        while True:
            remaining_s = max(0.0, deadline_s - time.monotonic())
            lookup = catalog.lookup.remote(topic, min(remaining_s, _LOOKUP_S))
            info: TopicInfo | None = ray.get(lookup, timeout=_CATALOG_TIMEOUT_S)
            if info is not None:
                return info
            if remaining_s <= _LOOKUP_S:
                known = [found.name for found in ray.get(catalog.topics.remote(), timeout=_CATALOG_TIMEOUT_S)]
                raise _unknown(topic, timeout, (*LOCAL_CATALOG.names(), *known))
    except ray.exceptions.RayError as error:
        raise DeliveryError(f"topic {topic!r}: the catalog does not answer: {error}", topic=topic) from error


def _unknown(topic: str, waited_s: float, known: tuple[str, ...]) -> UnknownTopic:
    names = ", ".join(map(repr, known)) or "none"
    text = f"no job published topic {topic!r} within {waited_s:g} s; topics that exist: {names}"
    return UnknownTopic(text, topic=topic, waited_s=waited_s, topics=known)
