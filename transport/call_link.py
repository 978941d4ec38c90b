"""The two ends of a connection between a parent actor and a child process on another node, by calls of the actor.

The child always has a pending call, which the parent answers with its messages for the child. The child sends its own
messages with a second call. Messages wait at the parent until the child fetches them; above a bound the parent drops
further messages, as a `ChildLink` does. A child may tell with each call how many messages have arrived. The parent then
keeps the others, and repeats a lost answer. The child's end can be polled like a socket: Ray answers calls on its own
threads, which make that socket readable and do nothing else.
"""

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import Final

from tidewheel.host.ray_cluster import lost
from tidewheel.host.retry import Retry
from tidewheel.transport.stream_link import WAITING_BYTES, Codec, Message

MOST_WAIT_S: Final = 10.0
"""The longest wait of a call, in seconds; it bounds how long a dead child counts as waiting."""

WAIT_S: Final = 5.0
"""How long a parent waits for messages before it answers that there are none, in seconds."""

SILENT_S: Final = 30.0
"""A parent is lost if it has not answered for `WAIT_S` plus this many seconds."""

_ONCE: Final = Retry(attempts=1)
_MOST_CALLS = 2
_RINGS_AT_ONCE = 64


class CallChild:
    """The parent's end, for one child and one asyncio loop.

    Args:
        waiting_bytes: the limit of waiting bytes; a single message may be larger.
        drained: called when the child has received all messages.

    Attributes:
        heard_s: when the child's last call ended, by ``clock``.
        dropped: the number of dropped messages; ``dropped_bytes`` has their size.
        waiting_bytes: the bytes that have not arrived yet, as far as is known.
        written_bytes: the bytes that have arrived.
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
        return self._calls > 0

    def tell(self, message: Message) -> bool:
        """Keep a message for the child.

        If there is no room and the child can do without it, drop it and return False.
        """
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
        """Return the waiting messages as soon as there are any.

        An empty list after ``wait_s``, or when the child calls again.

        Args:
            wait_s: the longest wait, in seconds.
            received: how many messages the child has received in all; None if it has received all that were returned.
            again: whether an answer was lost: then all messages after the first ``received`` are returned again.
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
        before = self.waiting_bytes
        while self._received < received and self._sent:
            self.waiting_bytes -= self._waiting.popleft()[1]
            self._received += 1
            self._sent -= 1
        self.written_bytes += before - self.waiting_bytes
        if before and not self.waiting_bytes:
            self._drained()

    def tell_now(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.tell(message)

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def close(self) -> None:
        self._wake()


class CallParent:
    """The child's end, for one thread at a time. The child's first message identifies it.

    Args:
        talk: calls the parent with messages and the longest wait, in seconds; returns a future of the answer.
        again: the retries of a call that fails. With more than one attempt, the child also tells the parent how many
            messages have arrived.
        silent_s: the parent is lost if it has not answered for `WAIT_S` plus this many seconds.
    """

    is_waiting = False
    """False: this link never has to be polled for writing."""

    def __init__(
        self,
        codec: Codec,
        talk: "Callable[..., Future[list[Message]]]",
        clock: Callable[[], float] = time.monotonic,
        *,
        again: Retry = _ONCE,
        silent_s: float = SILENT_S,
    ) -> None:
        self._talk = talk
        self._clock = clock
        self._silent_s = WAIT_S + silent_s
        self._unsaid = codec.unsaid()
        self._under_way: dict[Future[list[Message]], float] = {}
        self._answers: deque[Future[list[Message]]] = deque()
        self._has_joined = False
        self._again = again
        self._failures = self._received = 0
        self._said: list[Message] = []
        self._again_at_s = 0.0
        self._lock = threading.Lock()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self.why_lost = ""

    def fileno(self) -> int:
        """Return the descriptor to poll for reading; then call `read`."""
        return self._bell.fileno()

    @property
    def is_lost(self) -> bool:
        """True if `read` has returned everything and no more can come."""
        return bool(self.why_lost)

    def read(self) -> list[Message]:
        """Return the received messages and send the waiting ones; does not block."""
        told: list[Message] = []
        with suppress(OSError):  # mostly, there is nothing more to read
            while self._bell.recv(_RINGS_AT_ONCE):
                pass
        while self._answers and not self.is_lost:
            answer = self._answers.popleft()
            del self._under_way[answer]
            error = answer.exception()
            if error is None:
                self._has_joined = True
                self._failures = 0
                told += answer.result()
                self._received += len(answer.result())
            elif (pause_s := self._again.pause_s(self._failures + 1)) is not None and _is_passing(error):
                self._call_again(pause_s)
            else:
                self._lose(f"{type(error).__name__}: {error}")
        late_s = self._clock() - self._silent_s
        if any(called_s < late_s for called_s in self._under_way.values()):
            self._lose(f"it has not answered for {self._silent_s:g} s")
        self._say()
        return told

    def say(self, messages: Iterable[Message]) -> None:
        """Send messages without waiting for the parent; `read` notices if the parent is lost."""
        for message in messages:
            self._unsaid.add(message)
        self._say()

    def _say(self) -> None:
        while not self.is_lost and self._may_call():
            try:
                # The call that identifies this child must come first.
                self._said = self._unsaid.take()
                arrived = (self._received, self._failures > 0) if self._again.attempts != 1 else ()
                answer = self._talk(self._said, WAIT_S if self._has_joined else 0.0, *arrived)
            except Exception as error:  # noqa: BLE001 - Ray has many for an actor that it cannot reach
                self._lose(f"{type(error).__name__}: {error}")
                self._ring()  # the polling thread must notice
                return
            self._under_way[answer] = self._clock()
            answer.add_done_callback(self._answered)

    def _call_again(self, pause_s: float) -> None:
        self._failures += 1
        for message in self._said:
            self._unsaid.add(message)
        self._again_at_s = self._clock() + pause_s
        timer = threading.Timer(pause_s, self._ring)
        timer.daemon = True
        timer.start()

    def _may_call(self) -> bool:
        if self._clock() < self._again_at_s:
            return False
        if not self._has_joined:
            return bool(self._unsaid) and not self._under_way
        return not self._under_way or (bool(self._unsaid) and len(self._under_way) < _MOST_CALLS)

    def _answered(self, answer: "Future[list[Message]]") -> None:
        self._answers.append(answer)
        self._ring()

    def _ring(self) -> None:
        with self._lock, suppress(OSError):  # the socket has enough unread bytes, or no reader
            self._rope.send(b".")

    def _lose(self, why: str) -> None:
        self.why_lost = self.why_lost or why
        self._unsaid.take()

    def close(self) -> None:
        """Make no more calls, without waiting for pending ones."""
        self._lose("the link is closed")
        with self._lock:
            self._bell.close()
            self._rope.close()


def _is_passing(error: BaseException) -> bool:
    from ray.exceptions import ActorUnavailableError

    return isinstance(error, ActorUnavailableError) and not lost()
