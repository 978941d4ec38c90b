"""The connection of a publish operator, on its worker, to the publisher of its partition.

A connection gathers the events of one scheduling step and sends them together, without waiting for subscribers. While a
subscriber holds the publisher back, the connection has no room, and the operator leaves its input unread.
"""

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from tidewheel.host.ray_cluster import node_id
from tidewheel.progress import Time, TimeDomain
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, where
from tidewheel.pubsub.messages.encoded_message import encode_batch, encode_ends
from tidewheel.pubsub.messages.wire import FIRST, DataMessage, FeedEvent, Generation, LowerFrontierUpdate
from tidewheel.pubsub.publishers.feed import Feed, FeedLost, FeedRefused
from tidewheel.pubsub.publishers.sent_events import PassingEvents, SavedEvents, SentEvents
from tidewheel.transport.tickets import SocketOffer

_LOG = logging.getLogger(__name__)

AWAITED_S: Final = 5.0
AWAITED_AGAIN_S: Final = 60.0
"""The seconds between two log lines about a topic that awaits its first subscribers."""

_MOST_GATHERED: Final = 1024 * 1024
"""The number of gathered bytes at which a connection sends in the middle of a step."""

_LISTEN_TIMEOUT_S = 60.0
_PING_TIMEOUT_S = 10.0


Saved: TypeAlias = SavedEvents | Mapping[int, SavedEvents]
"""One worker's part of a snapshot: its events or, for a topic with logs, the events of each partition that it feeds."""


def log_awaited(topic: str, awaited: int, where_it_is: str = "") -> None:
    """Log that a topic waits for its first subscribers before it publishes, with its place."""
    _LOG.warning(
        "topic %r%s publishes nothing yet: publish(..., wait_for=%d) waits for %s. Call tidewheel.subscribe(%r), or "
        "end the job",
        topic,
        where_it_is,
        awaited,
        "its first subscriber" if awaited == 1 else "so many subscribers",
        topic,
    )


class PublisherConnection:
    """One worker's connection to its publisher. Its frontier starts at the least time of the domain.

    This base class is for a worker that publishes nothing itself, since another worker gets all its records.

    Args:
        partition: the partition that publishes this worker's records; also an attribute.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self.partition = partition
        self._events: list[FeedEvent] = []
        self._gathered_bytes = 0
        self._most_gathered = _MOST_GATHERED

    def data(self, time: Time, batch: Any) -> None:
        """Encode one batch immediately, so that it may be changed afterwards; skip an empty batch.

        Raises:
            DeliveryError: the batch cannot be encoded.
        """
        self._gather(encode_batch, time, batch)

    def ends(self, time: Time, keys: list[Any]) -> None:
        """Encode the keys of ended substreams; ``time`` is at or after the times of the substreams' records.

        Raises:
            DeliveryError: the ends cannot be encoded.
        """
        self._gather(encode_ends, time, keys)

    def _gather(self, encode: Callable[[Time, Any], DataMessage], time: Time, content: Any) -> None:
        try:
            message = encode(time, content)
        except DeliveryError as error:
            raise DeliveryError(
                f"{where(self._topic, self.partition)} at time {time!r}: {error}",
                topic=self._topic,
                partition=self.partition,
            ) from error
        if message.records or message.encoding == "ends":
            self._events.append(message)
            self._gathered_bytes += len(message.payload)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Receive one indivisible move of the frontier: -1 for each time that leaves it, +1 for each that enters it."""
        self._events.append(LowerFrontierUpdate(list(updates)))

    def go_on(self, saved: Saved | None) -> None:
        """Continue from a snapshot, before the first event; with None, begin at the least time.

        Raises:
            DeliveryError: the publisher cannot be reached.
        """

    def saved(self) -> Saved | None:
        """Return the state for `go_on`, to be kept in a snapshot.

        Return None if the job takes no snapshots, or this worker publishes nothing.
        """
        return None

    def close(self) -> None: ...

    def flush(self) -> None:
        """Send everything since the last flush together.

        Raises:
            DeliveryError: the publisher has refused these events or earlier ones.
        """
        if self._events:
            events, self._events = self._events, []
            self._gathered_bytes = 0
            self._send(events)

    def has_room(self) -> bool:
        """Tell whether there is room for another batch; raise as `flush` does."""
        if self._gathered_bytes > self._most_gathered:
            self.flush()
        return self._has_room()

    def _has_room(self) -> bool:
        return True

    @property
    def is_awaiting(self) -> bool:
        """True if the publisher waits for its first subscribers, and so does not accept anything, not even the end."""
        return False

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Call ``wake`` once, from any thread, when there is room again.

        Return the seconds after which to check again, in case ``wake`` is not called; None if that is not needed.
        """
        return 0.0

    def _send(self, events: list[FeedEvent]) -> None: ...

    def _refusal(self, reason: object) -> DeliveryError:
        return DeliveryError.at(self._topic, self.partition, f"did not take what was published: {reason}")


class RayConnection(PublisherConnection):
    """A connection to a publisher actor, for one worker; a pickled copy is a new connection.

    A flush that makes the frontier empty waits until the publisher has received everything, so that the worker may end.

    Args:
        has_log: whether the publisher has a log. If such a publisher dies, the connection waits for its restart, and
            then repeats the messages that are not durable.
        is_remembered: whether the job keeps snapshots. If a publisher without a log has died, the connection waits for
            the job to go back, which ends the connection.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - pickled, it is these
        self,
        topic: str,
        partition: int,
        domain: TimeDomain,
        publisher: Any,
        has_log: bool,
        awaits: bool = False,
        is_remembered: bool = False,
        generation: Generation = FIRST,
        has_history: bool = False,
    ) -> None:
        super().__init__(topic, partition)
        self._has_history = has_history and not has_log
        self._domain = domain
        self._publisher = publisher
        self._has_log = has_log
        self._awaits = awaits
        self._is_remembered = is_remembered
        self.generation = generation
        self._frontier: ChangeBatch[Time] = ChangeBatch([(domain.minimum(), 1)])
        self._feed: Feed | None = None
        self._has_connected = False

    def __reduce__(self) -> tuple[Any, ...]:
        described = self._topic, self.partition, self._domain, self._publisher, self._has_log, self._awaits
        return type(self), (*described, self._is_remembered, self.generation, self._has_history)

    def go_on(self, saved: Saved | None) -> None:
        if not self._is_remembered and not self.generation.number:
            return
        assert not isinstance(saved, Mapping), "FedPartitions has that of several partitions"
        if saved is not None:
            self._frontier = ChangeBatch((time, 1) for time in saved.lower)
        self._feed = self._new_feed(self._sent_events(saved))

    @property
    def announced(self) -> list[Time]:
        """The frontier that the publisher has received last, or will receive with the next flush; empty at the end."""
        return [time for time, _ in self._frontier]

    def saved(self) -> SavedEvents | None:
        return None if self._feed is None or not self._is_remembered else self._feed.saved

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        changes = list(updates)
        self._frontier.extend(changes)
        super().frontier(changes)

    def _has_room(self) -> bool:
        try:
            if self._feed is None and self._awaits:
                self._feed = self._new_feed()
            return self._feed is None or self._feed.has_room()
        except (FeedLost, FeedRefused) as error:
            raise self._error(error) from error

    @property
    def is_awaiting(self) -> bool:
        return self._feed is not None and self._feed.is_awaiting

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        return 0.0 if self._feed is None else self._feed.wait_for_room(wake)

    def _send(self, events: list[FeedEvent]) -> None:
        try:
            if self._feed is None:
                self._feed = self._new_feed()
            self._feed.send(events)
        except (FeedLost, FeedRefused) as error:
            raise self._error(error) from error

    def flush(self) -> None:
        """Send everything since the last flush. If that includes the end, wait until the publisher has received it."""
        super().flush()
        try:
            if not self._frontier and self._feed is not None and self._feed.is_waiting:
                self._feed.finish()
        except (FeedLost, FeedRefused) as error:
            raise self._error(error) from error

    def _sent_events(self, saved: SavedEvents | None = None) -> SentEvents:
        has = {"keeps_end": self._has_log, "has_history": self._has_history}
        return SentEvents(self._domain, saved, self.generation, **has)

    def _new_feed(self, sent: SentEvents | None = None) -> Feed:
        name = where(self._topic, self.partition)
        if self._has_log or self._is_remembered:
            afterwards = "Ray starts it again. " + (
                "It goes on from its log, and nothing is lost" if self._has_log else "The job goes back to a snapshot"
            )
            sent = sent or self._sent_events()
            return Feed(sent, self._connect, name=name, afterwards=afterwards, is_awaiting=self._awaits)
        sent = sent or PassingEvents(self._domain)
        afterwards = "the job ends with an error: it keeps no snapshots, and the topic has no log"
        return Feed(
            sent,
            self._connect,
            restarts_within_s=0.0,
            name=name,
            afterwards=afterwards,
            is_awaiting=self._awaits,
        )

    def _connect(self) -> socket.socket:
        import ray

        if self._has_connected and not self._has_log:  # another publisher has no confirmed message
            raise FeedLost("it has died, and the job has not gone back to a snapshot since")
        try:
            awaits = self._awaits if self._feed is None else self._feed.is_awaiting
            offer: SocketOffer = ray.get(self._publisher.listen.remote(awaits), timeout=_LISTEN_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            raise FeedLost(str(error)) from error
        connection = offer.connect(node_id())
        if connection is None:
            raise FeedLost("there is no connection to it from this node")
        self._has_connected = True
        return connection

    def _error(self, error: FeedLost | FeedRefused) -> Exception:
        """Return the error to raise, with Ray's reason for the publisher's end if there is one."""
        import ray

        if isinstance(error, FeedRefused):
            return self._refusal(error)
        reason: Exception = error
        try:
            ray.get(self._publisher.ping.remote(), timeout=_PING_TIMEOUT_S)
        except ray.exceptions.RayError as said:
            reason = said
        return PublisherLost.at(self._topic, self.partition, f"is dead: {reason}")
