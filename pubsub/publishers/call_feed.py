"""What a worker publishes, by calls of Ray."""

import uuid
from collections.abc import Callable
from typing import Any, Final

from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.protocol.outgoing_queue import size_of
from tidewheel.pubsub.publishers.feed import Feed, FeedLost, FeedRefused

MOST_OUTSTANDING: Final = 256
ROOM_BYTES: Final = 32 * 1024 * 1024
"""So much may be on its way, beside what one step has told."""

_CHECK_EVERY_CALLS = 16
_ANSWER_TIMEOUT_S = 30.0
_LOOK_AGAIN_S = 0.005


class CallFeed(Feed):
    """Feeds a publisher actor by calls, of which some may be on their way.

    Args:
        publisher: the handle of the actor.
    """

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._incarnation = uuid.uuid4().int
        self._sequence = 0
        self._outstanding: dict[Any, int] = {}
        self._outstanding_bytes = 0
        self._unchecked = 0

    def send(self, events: list[FeedEvent]) -> None:
        """Send events as one call."""
        size = sum(map(size_of, events))
        self._outstanding[self._publisher.feed.remote(self._incarnation, self._sequence, events)] = size
        self._outstanding_bytes += size
        self._sequence += 1
        self._unchecked += 1
        if self._unchecked >= _CHECK_EVERY_CALLS:
            self._settle(len(self._outstanding), 0.0)

    def finish(self) -> None:
        """Wait for the answers to all calls, as long as some come or a subscriber may be what holds them back."""
        while self._outstanding:
            before = len(self._outstanding)
            self._settle(1, _ANSWER_TIMEOUT_S)
            if len(self._outstanding) == before:
                self._check()

    def has_room(self) -> bool:
        """Tell whether not too many calls are on their way, and not too much with them."""
        if not self._has_room():
            self._settle(len(self._outstanding), 0.0)
        return self._has_room()

    def _has_room(self) -> bool:
        return len(self._outstanding) < MOST_OUTSTANDING and self._outstanding_bytes < ROOM_BYTES

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Return when to ask again; nobody calls ``wake``."""
        return _LOOK_AGAIN_S

    def _check(self) -> None:
        """Find out whether the publisher answers anything at all."""
        import ray

        try:
            ray.get(self._publisher.ping.remote(), timeout=_ANSWER_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            raise FeedLost(f"it has not answered for {2 * _ANSWER_TIMEOUT_S:g} s: {error}") from error

    def _settle(self, count: int, timeout_s: float) -> None:
        """Look at the answers that have come; wait for ``count`` of them, ``timeout_s`` seconds at most."""
        import ray

        self._unchecked = 0
        done, _ = ray.wait(list(self._outstanding), num_returns=count, timeout=timeout_s)
        for call in done:
            self._outstanding_bytes -= self._outstanding.pop(call)
        try:
            ray.get(done)
        except ray.exceptions.RayActorError as error:
            raise FeedLost(str(error)) from error
        except ray.exceptions.RayTaskError as error:
            raise FeedRefused(str(error.cause)) from error
