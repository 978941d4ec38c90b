"""A child of a pubend or relay to which there is no socket, as it is on another node: it asks what there is to tell it.

What it has not asked for yet waits here, up to a bound, as with a `ChildLink`; beyond that it is dropped, and the child
asks for it again when it has noticed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidewheel.pubsub.exactly_once.messages import Downstream, KnowledgeMessage, Rejected
from tidewheel.pubsub.publishers.child_link import WAITING_BYTES

MOST_WAIT_S: Final = 10.0
"""So long a call waits at most, so that a child which has died is not taken for one that waits."""

_EACH_BYTES = 64


class CallChild:
    """The parent's end. To be used on one asyncio loop only.

    Args:
        clock: seconds, which never go back.
        waiting_bytes: so much may wait, or one message, if that is more.

    Attributes:
        heard_s: when the last of its calls ended.
        dropped: how many messages the child was not told because it did not ask.
        dropped_bytes: how many bytes those had.
        waiting_bytes: how much waits to be asked for.
    """

    def __init__(self, clock: Callable[[], float], waiting_bytes: int = WAITING_BYTES) -> None:
        self._clock = clock
        self._most_waiting_bytes = waiting_bytes
        self._waiting: list[Downstream] = []
        self._news: asyncio.Event | None = None
        self._calls = 0
        self.heard_s = clock()
        self.dropped = self.dropped_bytes = self.waiting_bytes = 0

    @property
    def is_asking(self) -> bool:
        """Whether it is in a call now."""
        return self._calls > 0

    def tell(self, message: Downstream) -> bool:
        """Keep a message until it is asked for, or drop it if there is no room; tell which. A rejection is kept."""
        size = size_of(message)
        is_full = bool(self._waiting) and self.waiting_bytes + size > self._most_waiting_bytes
        if is_full and not isinstance(message, Rejected):
            self.dropped += 1
            self.dropped_bytes += size
            return False
        self._waiting.append(message)
        self.waiting_bytes += size
        self._wake()
        return True

    async def take(self, wait_s: float) -> list[Downstream]:
        """Return what there is to tell as soon as there is any; nothing if there is not in that time.

        A call that waits returns when there is a later one.
        """
        self._calls += 1
        try:
            self._wake()
            if not self._waiting:
                news = self._news = asyncio.Event()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait_s, MOST_WAIT_S)):
                        await news.wait()
        finally:
            self._calls -= 1
            self.heard_s = self._clock()
        found, self._waiting, self.waiting_bytes = self._waiting, [], 0
        return found

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def close(self) -> None:
        """Answer the call that waits."""
        self._wake()


def size_of(message: Downstream) -> int:
    """Return about how many bytes a message has."""
    if isinstance(message, KnowledgeMessage):
        sizes: list[int] = [one.size_bytes for _, one in message.data]
        return sum(sizes, _EACH_BYTES * (1 + len(sizes)))
    return _EACH_BYTES
