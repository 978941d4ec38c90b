"""Who reads from the gateway now: not too many at once, and none when it ends."""

import threading
from typing import Any, TypeVar

from tidewheel.pubsub.gateway.bounded_assembler import MAX_EPOCH_BYTES
from tidewheel.pubsub.gateway.errors import TooManyClients
from tidewheel.pubsub.gateway.topic_feed import Read, TopicFeed
from tidewheel.pubsub.gateway.topic_request import TopicRequest

T = TypeVar("T")

STOPPED = "the gateway is being stopped"
"""What is told to clients then."""


class Clients:
    """The feeds of all clients, by any protocol. For any thread.

    Args:
        most: how many there may be at once.
        max_epoch_bytes: how much of epochs may wait, for each of them, to be complete.
    """

    def __init__(self, most: int, max_epoch_bytes: int = MAX_EPOCH_BYTES) -> None:
        self._most = most
        self.max_epoch_bytes = max_epoch_bytes
        self._changed = threading.Condition()
        self._feeds: set[TopicFeed[Any]] = set()
        self._is_closed = False

    def admit(self, request: TopicRequest, read: Read[T]) -> TopicFeed[T]:
        """Return the feed of one more client, which leaves by closing it.

        Args:
            request: what it asks for.
            read: makes what it is sent of the topic's times and events.

        Raises:
            TooManyClients: there are as many as there may be, or the gateway ends.
        """
        with self._changed:
            if self._is_closed:
                raise TooManyClients(STOPPED)
            if len(self._feeds) >= self._most:
                raise TooManyClients(
                    f"{self._most} clients read from this gateway already: try again later, or start it with a larger "
                    "--max-clients"
                )
            feed = TopicFeed(request.subscribe, read, self._leave)
            self._feeds.add(feed)
        return feed

    def close(self) -> None:
        """Close all feeds, and let in nobody any more; does not wait."""
        with self._changed:
            self._is_closed = True
            feeds = list(self._feeds)
        for feed in feeds:
            feed.close()

    def wait_until_none(self, timeout_s: float) -> bool:
        """Wait until the subscriptions of all have ended; return False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._feeds, timeout_s)

    def _leave(self, feed: TopicFeed[Any]) -> None:
        with self._changed:
            self._feeds.discard(feed)
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._feeds)
