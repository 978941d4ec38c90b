"""What a worker publishes, by calls of Ray."""

import uuid
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tidewheel.pubsub.feed import Feed, FeedLost, FeedRefused
from tidewheel.pubsub.wire import FeedEvent

MOST_OUTSTANDING: Final = 256
_CHECK_EVERY_CALLS = 16
_ANSWER_TIMEOUT_S = 60.0
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
        self._outstanding: deque[Any] = deque()
        self._unchecked = 0

    def send(self, events: list[FeedEvent]) -> None:
        """Send events as one call."""
        self._outstanding.append(self._publisher.feed.remote(self._incarnation, self._sequence, events))
        self._sequence += 1
        self._unchecked += 1
        if self._unchecked >= _CHECK_EVERY_CALLS:
            self._settle(len(self._outstanding), 0.0)

    def finish(self) -> None:
        """Wait for the answers to all calls, as long as some come."""
        while self._outstanding:
            before = len(self._outstanding)
            self._settle(1, _ANSWER_TIMEOUT_S)
            if len(self._outstanding) == before:
                raise FeedLost(f"it has not answered for {_ANSWER_TIMEOUT_S:g} s")

    def has_room(self) -> bool:
        """Tell whether not too many calls are on their way."""
        if len(self._outstanding) >= MOST_OUTSTANDING:
            self._settle(len(self._outstanding), 0.0)
        return len(self._outstanding) < MOST_OUTSTANDING

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Return when to ask again; nobody calls ``wake``."""
        return _LOOK_AGAIN_S

    def _settle(self, count: int, timeout_s: float) -> None:
        """Look at the answers that have come; wait for ``count`` of them, ``timeout_s`` seconds at most."""
        import ray

        self._unchecked = 0
        done, rest = ray.wait(list(self._outstanding), num_returns=count, timeout=timeout_s)
        self._outstanding = deque(rest)
        try:
            ray.get(done)
        except ray.exceptions.RayActorError as error:
            raise FeedLost(str(error)) from error
        except ray.exceptions.RayTaskError as error:
            raise FeedRefused(str(error.cause)) from error
