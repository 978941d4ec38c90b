"""A child of a parent to which there is no socket, as it is on another node: it asks for messages by calls.

What it has not asked for yet waits here, up to a bound, as with a `ChildLink`; beyond that it is dropped. A child may
say with each call what has arrived. Then everything is kept until it has, so that a lost reply comes again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

from tidewheel.transport.child_link import WAITING_BYTES
from tidewheel.transport.codec import Codec, Message

MOST_WAIT_S: Final = 10.0
"""So long a call waits at most, so that a child which has died is not taken for one that waits."""


class CallChild:
    """The parent's end. To be used on one asyncio loop only.

    Args:
        codec: of the messages.
        clock: seconds, which never go back.
        waiting_bytes: so much may wait, or one message, if that is more.
        drained: is called when the child has received everything.

    Attributes:
        heard_s: when the last of its calls ended.
        dropped: how many messages the child was not told because it did not ask.
        dropped_bytes: how many bytes those had.
        waiting_bytes: how much waits to be asked for, or to be known to have arrived.
        written_bytes: how much has arrived.
    """

    def __init__(
        self,
        codec: Codec,
        clock: Callable[[], float],
        waiting_bytes: int = WAITING_BYTES,
        drained: Callable[[], None] = lambda: None,
    ) -> None:
        self._codec = codec
        self._clock = clock
        self._most_waiting_bytes = waiting_bytes
        self._drained = drained
        self._waiting: deque[tuple[Message, int]] = deque()
        self._received = self._sent = 0
        self._news: asyncio.Event | None = None
        self._calls = 0
        self.heard_s = clock()
        self.dropped = self.dropped_bytes = self.waiting_bytes = self.written_bytes = 0

    @property
    def is_asking(self) -> bool:
        """Whether it is in a call now."""
        return self._calls > 0

    def tell(self, message: Message) -> bool:
        """Keep a message until it is asked for, or drop it if there is no room, unless it must be told; tell which."""
        size = self._codec.size_of(message)
        is_full = bool(self._waiting) and self.waiting_bytes + size > self._most_waiting_bytes
        if is_full and not self._codec.must_be_told(message):
            self.dropped += 1
            self.dropped_bytes += size
            return False
        self._waiting.append((message, size))
        self.waiting_bytes += size
        self._wake()
        return True

    async def take(self, wait_s: float, received: int | None = None, *, again: bool = False) -> list[Message]:
        """Return what there is to tell as soon as there is any; nothing if there is not in that time.

        A call that waits returns when there is a later one.

        Args:
            wait_s: for how long to wait at most, in seconds.
            received: how many messages the child has received; None if it takes all for received that was returned.
            again: whether a reply was lost, so that everything is to be returned that the child has not received.
        """
        self._calls += 1
        try:
            self._wake()
            self._arrived(self._received + self._sent if received is None else received)
            if again:
                self._sent = 0
            if self._sent == len(self._waiting):
                news = self._news = asyncio.Event()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait_s, MOST_WAIT_S)):
                        await news.wait()
        finally:
            self._calls -= 1
            self.heard_s = self._clock()
        found = [message for message, _ in islice(self._waiting, self._sent, None)]
        self._sent = len(self._waiting)
        if received is None:
            self._arrived(self._received + self._sent)
        return found

    def _arrived(self, received: int) -> None:
        """Forget what the child has received: so many messages since it is here."""
        before = self.waiting_bytes
        while self._received < received and self._sent:
            self.waiting_bytes -= self._waiting.popleft()[1]
            self._received += 1
            self._sent -= 1
        self.written_bytes += before - self.waiting_bytes
        if before and not self.waiting_bytes:
            self._drained()

    def tell_now(self, messages: Iterable[Message]) -> None:
        """Keep messages until they are asked for, as `tell` does."""
        for message in messages:
            self.tell(message)

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def close(self) -> None:
        """Answer the call that waits."""
        self._wake()
