"""Two ends of a connection, and an event loop that a test turns by hand."""

import asyncio
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

from tests.waiting import WITHIN_S
from tidewheel.pubsub.messages.delivery_messages import Downstream, KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.transport.stream_link import ChildLink, SharedFrames

BUFFER_BYTES = 64 * 1024


@contextmanager
def pair(buffer_bytes: int = BUFFER_BYTES) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two sockets that are connected and do not block, each of which takes about so many bytes unread."""
    with ExitStack() as stack:
        ends = socket.socketpair()
        for end in ends:
            stack.enter_context(end)
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        yield ends


def knowledge(tick: int, size: int) -> KnowledgeMessage:
    """What is known of one tick that has a message of so many bytes, and of those before it."""
    return KnowledgeMessage(0, ((0, tick),), ((tick, encode(DataMessage(tick, b"x" * size, "pickle", 1))),))


class Child:
    """A link with the other end of its connection, and what its owner was given."""

    def __init__(self, loop: "TurnedLoop", waiting_bytes: int, buffer_bytes: int) -> None:
        self._pair = pair(buffer_bytes)
        ours, self.end = self._pair.__enter__()
        self.said: list[ChildMessage] = []
        self.gone: list[str] = []
        self.closes_when_it_hears = False
        self._is_in_call = False
        self.link = ChildLink(ours, loop.loop, loop.frames, self._hear, self._lose, lambda: None, waiting_bytes)

    def _hear(self, said: list[ChildMessage]) -> None:
        assert not self._is_in_call, "nothing is called within a call"
        assert not self.gone, "who has gone says nothing"
        self.said += said
        if self.closes_when_it_hears:
            self.link.close()

    def _lose(self, why: str) -> None:
        assert not self._is_in_call, "nothing is called within a call"
        self.gone.append(why)

    def tell(self, message: Downstream) -> bool:
        self._is_in_call = True
        is_told = self.link.tell(message)
        self._is_in_call = False
        return is_told

    def close(self) -> None:
        self.link.close()
        self._pair.__exit__(None, None, None)


class TurnedLoop:
    """An event loop, and children on it; a context manager."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self.frames = SharedFrames(CODEC, self.loop)
        self.children: list[Child] = []

    def child(self, waiting_bytes: int = 1 << 20, buffer_bytes: int = BUFFER_BYTES) -> Child:
        child = Child(self, waiting_bytes, buffer_bytes)
        self.children.append(child)
        return child

    def turn(self) -> None:
        """Have the loop do what there is to do now, once."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def turn_until(self, condition: Callable[[], bool]) -> None:
        """Turn until something is so, with a deadline."""
        deadline_s = self.loop.time() + WITHIN_S
        while not condition():
            assert self.loop.time() < deadline_s, "it does not come to that"
            self.turn()

    def watched(self) -> int:
        """Return how many files the loop watches, beside its own."""
        return len(self._selector.get_map()) - 1

    def waits_to_write(self) -> bool:
        """Tell whether the loop waits for a connection to take more."""
        return any(key.events & selectors.EVENT_WRITE for key in self._selector.get_map().values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.close()
        self.loop.close()
