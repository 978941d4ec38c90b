"""A worker's connection to a publisher actor, with or without a log."""

import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tidewheel.progress import Time, TimeDomain
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.exactly_once.sent_events import PassingEvents, SentEvents
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.pubsub.publishers.feed import Feed, FeedLost, FeedRefused
from tidewheel.transport.ray_cluster import node_id
from tidewheel.transport.tickets import SocketOffer

_LISTEN_TIMEOUT_S = 60.0
_PING_TIMEOUT_S = 10.0


class RayConnection(PublisherConnection):
    """A connection to a publisher actor. Pickled, it is a new one: one worker, in one process, uses it.

    The flush with which the frontier becomes empty returns only when the publisher has taken everything: after it the
    worker may go.

    Args:
        topic: its name.
        partition: the number of the partition.
        domain: the times of the topic.
        publisher: the handle of the actor.
        has_log: whether the publisher has a log. If one that has dies, the connection waits until Ray has started it
            again, and sends again what is not durable.
    """

    def __init__(self, topic: str, partition: int, domain: TimeDomain, publisher: Any, *, has_log: bool) -> None:
        super().__init__(topic, partition)
        self._domain = domain
        self._publisher = publisher
        self._has_log = has_log
        self._frontier: ChangeBatch[Time] = ChangeBatch([(domain.minimum(), 1)])
        self._feed: Feed | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._topic, self._partition, self._domain, self._publisher)
        return partial(type(self), has_log=self._has_log), arguments

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Take one move of the frontier, indivisible."""
        changes = list(updates)
        self._frontier.extend(changes)
        super().frontier(changes)

    def _has_room(self) -> bool:
        """Tell whether what was sent is on its way."""
        try:
            return self._feed is None or self._feed.has_room()
        except (FeedLost, FeedRefused) as error:
            raise self._error(error) from error

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called when there is room again."""
        return 0.0 if self._feed is None else self._feed.wait_for_room(wake)

    def _send(self, events: list[FeedEvent]) -> None:
        try:
            if self._feed is None:
                self._feed = self._open()
            self._feed.send(events)
            if not self._frontier:
                self._feed.finish()
        except (FeedLost, FeedRefused) as error:
            raise self._error(error) from error

    def _open(self) -> Feed:
        if self._has_log:
            return Feed(SentEvents(self._domain), self._connect)
        return Feed(PassingEvents(self._domain), self._connect, restarts_within_s=0.0)

    def _connect(self) -> socket.socket:
        """Return a new connection to the publisher, which is on this node."""
        import ray

        try:
            offer: SocketOffer = ray.get(self._publisher.listen.remote(), timeout=_LISTEN_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            raise FeedLost(str(error)) from error
        connection = offer.connect(node_id())
        if connection is None:
            raise FeedLost("there is no connection to it from this node")
        return connection

    def _error(self, error: FeedLost | FeedRefused) -> Exception:
        if isinstance(error, FeedRefused):
            return self._refusal(error)
        text = f"{self._where}: the publisher is dead: {self._reason(error)}"
        return PublisherLost(text, topic=self._topic, partition=self._partition)

    def _reason(self, error: FeedLost) -> object:
        """Return what Ray knows of the end of a publisher, which is more than what a socket tells."""
        import ray

        try:
            ray.get(self._publisher.ping.remote(), timeout=_PING_TIMEOUT_S)
        except ray.exceptions.RayError as said:
            return said
        return error
