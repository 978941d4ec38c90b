"""What the operator that publishes holds, on its worker, to talk to the publisher of its partition.

A connection gathers what one scheduling step of the operator did and sends it as one call. It never waits for
subscribers: they are the publisher's business.
"""

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any

from tidewheel.progress import ProtocolError, Time, TimeDomain
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.local_publisher import LocalPublisher
from tidewheel.pubsub.payload import encode
from tidewheel.pubsub.wire import DataMessage, FeedEvent, LowerFrontierUpdate

MAX_OUTSTANDING_CALLS = 256
_CHECK_EVERY_CALLS = 16
_ANSWER_TIMEOUT_S = 60.0


class PublisherConnection(ABC):
    """One worker's connection to its publisher. The frontier starts as the least time of the domain.

    Args:
        topic: its name.
        partition: the number of the partition.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._events: list[FeedEvent] = []

    def data(self, time: Time, batch: Any) -> None:
        """Take one batch, encoded at once, so that it may be changed afterwards. An empty batch is no news.

        Raises:
            DeliveryError: it cannot be encoded.
        """
        try:
            encoded = encode(batch)
        except DeliveryError as error:
            raise DeliveryError(
                f"{self._where} at time {time!r}: {error}", topic=self._topic, partition=self._partition
            ) from error
        if encoded.records:
            self._events.append(DataMessage(time, encoded.payload, encoded.encoding, encoded.records))

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Take one move of the frontier: -1 for each time that left it and +1 for each that entered, indivisible."""
        self._events.append(LowerFrontierUpdate(list(updates)))

    def flush(self) -> None:
        """Send everything since the last flush as one call; does nothing if there is nothing.

        Raises:
            DeliveryError: the publisher did not take this, or something earlier.
        """
        if self._events:
            events, self._events = self._events, []
            self._send(events)

    @abstractmethod
    def _send(self, events: list[FeedEvent]) -> None:
        """Hand events to the publisher."""

    @property
    def _where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    def _refusal(self, error: BaseException) -> DeliveryError:
        text = f"{self._where}: the publisher did not take what was published: {error}"
        return DeliveryError(text, topic=self._topic, partition=self._partition)


class LocalConnection(PublisherConnection):
    """A connection to a publisher in this process."""

    def __init__(self, topic: str, partition: int, publisher: LocalPublisher) -> None:
        super().__init__(topic, partition)
        self._publisher = publisher

    def _send(self, events: list[FeedEvent]) -> None:
        try:
            self._publisher.feed(events)
        except ProtocolError as error:
            self._publisher.fail(str(error))
            raise self._refusal(error) from error


class RayConnection(PublisherConnection):
    """A connection to a publisher actor. Pickled, it is a new one: one worker, in one process, uses it.

    The flush with which the frontier becomes empty returns only when the publisher has taken everything: after it the
    worker may go.

    Args:
        topic: its name.
        partition: the number of the partition.
        domain: the times of the topic.
        publisher: the handle of the actor.
    """

    def __init__(self, topic: str, partition: int, domain: TimeDomain, publisher: Any) -> None:
        super().__init__(topic, partition)
        self._domain = domain
        self._publisher = publisher
        self._frontier: ChangeBatch[Time] = ChangeBatch([(domain.minimum(), 1)])
        self._incarnation = uuid.uuid4().int
        self._sequence = 0
        self._outstanding: deque[Any] = deque()
        self._unchecked = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._topic, self._partition, self._domain, self._publisher)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Take one move of the frontier, indivisible."""
        changes = list(updates)
        self._frontier.extend(changes)
        super().frontier(changes)

    def _send(self, events: list[FeedEvent]) -> None:
        self._outstanding.append(self._publisher.feed.remote(self._incarnation, self._sequence, events))
        self._sequence += 1
        self._unchecked += 1
        if not self._frontier:
            self._settle(len(self._outstanding), _ANSWER_TIMEOUT_S)
        elif len(self._outstanding) > MAX_OUTSTANDING_CALLS:
            self._settle(len(self._outstanding) - MAX_OUTSTANDING_CALLS // 2, _ANSWER_TIMEOUT_S)
        elif self._unchecked >= _CHECK_EVERY_CALLS:
            self._settle(len(self._outstanding), 0)

    def _settle(self, count: int, timeout_s: float) -> None:
        """Look at the answers of ``count`` calls; with a time to wait, all of them have to come within it."""
        import ray

        self._unchecked = 0
        done, rest = ray.wait(list(self._outstanding), num_returns=count, timeout=timeout_s)
        self._outstanding = deque(rest)
        try:
            ray.get(done)
        except ray.exceptions.RayActorError as error:
            raise PublisherLost(
                f"{self._where}: the publisher is dead: {error}", topic=self._topic, partition=self._partition
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise self._refusal(error.cause) from error
        if timeout_s and len(done) < count:
            raise DeliveryError(
                f"{self._where}: the publisher has not answered for {timeout_s:g} s",
                topic=self._topic,
                partition=self._partition,
            )
