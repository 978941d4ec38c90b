"""How what a worker publishes gets to a publisher in another process: over a socket on its node, or by Ray's calls."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from tidewheel.pubsub.messages.wire import FeedEvent


class FeedLost(Exception):  # noqa: N818 - it names what happened
    """The publisher is dead, or does not answer; the message says how that was noticed."""


class FeedRefused(Exception):  # noqa: N818 - it names what happened
    """The publisher did not take what it was told; the message says why."""


class Feed(ABC):
    """One worker's way to its publisher. Its methods raise `FeedLost` or `FeedRefused`, now or at a later call."""

    @abstractmethod
    def send(self, events: list[FeedEvent]) -> None:
        """Send events, after all that were sent before; does not wait."""

    @abstractmethod
    def finish(self) -> None:
        """Return when the publisher has taken everything; after that the worker may go."""

    @abstractmethod
    def has_room(self) -> bool:
        """Tell whether more can be sent now without piling up here."""

    @abstractmethod
    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called once there is room; return after how many seconds to ask in any case, None for never."""
