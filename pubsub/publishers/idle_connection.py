"""The connection of a worker whose records all go to another one to be published."""

from collections.abc import Callable

from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.publishers.connection import PublisherConnection


class IdleConnection(PublisherConnection):
    """Takes moves of the frontier and tells nobody: the worker that publishes knows them. There is no data for it."""

    def _send(self, events: list[FeedEvent]) -> None:
        """Forget them."""

    def _has_room(self) -> bool:
        """Tell that there is always room."""
        return True

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have nobody wait."""
        return 0.0
