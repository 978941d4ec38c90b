"""The clients that read from the gateway: at most a given number at once, and none when it stops."""

import threading
from typing import Any, TypeVar

from tidewheel.pubsub.gateway.bounded_assembler import MAX_EPOCH_BYTES
from tidewheel.pubsub.gateway.errors import TooManyClients
from tidewheel.pubsub.gateway.topic_feed import Read, TopicFeed
from tidewheel.pubsub.gateway.topic_request import TopicRequest

T = TypeVar("T")

STOPPED = "the gateway is being stopped"
"""The error message that clients receive when the gateway stops."""


class Clients:
    """The feeds of all clients, of every protocol. Any thread may use it.

    Args:
        most: the largest number of clients at once.
        max_epoch_bytes: the largest size of incomplete epochs that the gateway keeps for a client.
    """

    def __init__(self, most: int, max_epoch_bytes: int = MAX_EPOCH_BYTES) -> None:
        self._most = most
        self.max_epoch_bytes = max_epoch_bytes
        self._changed = threading.Condition()
        self._feeds: set[TopicFeed[Any]] = set()
        self._is_closed = False

    def admit(self, request: TopicRequest, read: Read[T]) -> TopicFeed[T]:
        """Return the feed of a new client; the client leaves by closing the feed.

        Args:
            request: the request of the client.
            read: turns the topic's times and events into the items that the client receives.

        Raises:
            TooManyClients: the gateway has its largest number of clients, or it stops.
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
        """Close all feeds and admit no more clients; do not wait."""
        with self._changed:
            self._is_closed = True
            feeds = list(self._feeds)
        for feed in feeds:
            feed.close()

    def wait_until_none(self, timeout_s: float) -> bool:
        """Wait until the subscriptions of all clients have ended; return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._feeds, timeout_s)

    def _leave(self, feed: TopicFeed[Any]) -> None:
        with self._changed:
            self._feeds.discard(feed)
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._feeds)
