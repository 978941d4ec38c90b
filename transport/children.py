"""The children of a parent, by name, connected by a socket or by calls.

No child delays the others, and a bound limits the messages that wait for each child.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from tidewheel.progress import ProtocolError
from tidewheel.transport.call_link import CallChild
from tidewheel.transport.stream_link import WAITING_BYTES, ChildLink, Codec, Message, SharedFrames

SILENT_S: Final = 30.0
"""A child without a socket counts as gone after this many seconds without a call."""

SIGN_OF_LIFE_S: Final = 1.0
"""A parent sends a sign of life to a child with a socket at this interval, in seconds."""

_LOOK_S = 1.0

Heard: TypeAlias = Callable[[str, list[Message]], None]
Gone: TypeAlias = Callable[[str, str], None]


class Children:
    """The children of one actor; call it only on the actor's loop.

    Args:
        heard: receives a child's name and its messages, in order.
        gone: receives, once, the name of a child that has gone, and the reason; not after `close` or `let_go`.
            ``heard`` and ``gone`` are never called within `tell`.
        silent_s: a child without a socket counts as gone after this many seconds without a call.
    """

    def __init__(
        self,
        codec: Codec,
        loop: asyncio.AbstractEventLoop,
        heard: Heard,
        gone: Gone,
        waiting_bytes: int = WAITING_BYTES,
        *,
        drained: Callable[[str], None] = lambda _: None,
        silent_s: float | None = None,
    ) -> None:
        self._loop = loop
        self._heard = heard
        self._gone = gone
        self._waiting_bytes = waiting_bytes
        self._drained = drained
        self._silent_s = SILENT_S if silent_s is None else silent_s
        self._frames = SharedFrames(codec, loop)
        self._children: dict[str, ChildLink | CallChild] = {}
        self._look: asyncio.TimerHandle | None = None
        self._dropped = 0
        self._shown_s = 0.0

    def connect(self, child: str, connection: socket.socket) -> None:
        """Add a child with a non-blocking connection; it replaces a child of the same name."""
        self._lose(child, "it has connected anew")
        self._children[child] = ChildLink(
            connection,
            self._loop,
            self._frames,
            partial(self._heard, child),
            partial(self._lose, child),
            partial(self._drained, child),
            self._waiting_bytes,
        )

    async def talk(
        self, child: str, said: list[Message], wait_s: float, received: int | None = None, *, again: bool = False
    ) -> list[Message]:
        """Receive messages from a child without a socket; return messages for it as soon as there are any.

        The arguments are those of `CallChild.take`; the first message of a child identifies it.

        Raises:
            ProtocolError: the child was silent for too long, or has not identified itself, so it must join again.
        """
        found = self._children.get(child)
        if not isinstance(found, CallChild):
            found = self._joining(child, said)
        if said:
            self._heard(child, said)
        return await found.take(wait_s, received, again=again)

    def _joining(self, child: str, said: list[Message]) -> CallChild:
        if not any(map(self._frames.codec.joins, said)):
            raise ProtocolError(f"{child!r} is not known here, or no more: it has to join first")
        self._lose(child, "it has connected anew")
        found = self._children[child] = CallChild(
            self._frames.codec, self._loop.time, self._waiting_bytes, partial(self._drained, child)
        )
        if self._look is None:
            self._look = self._loop.call_later(_LOOK_S, self._look_for_silent)
        return found

    def _look_for_silent(self) -> None:
        late_s = self._loop.time() - self._silent_s
        calling = [(name, child) for name, child in self._children.items() if isinstance(child, CallChild)]
        for name, child in calling:
            if not child.is_asking and child.heard_s <= late_s:
                self._lose(name, f"it has not called for {self._silent_s:g} s")
        self._look = self._loop.call_later(_LOOK_S, self._look_for_silent) if calling else None

    def tell(self, outgoing: Iterable[tuple[str, Message]]) -> None:
        """Send each message to the child with that name; messages to a child that has gone are dropped."""
        children = self._children
        for name, message in outgoing:
            child = children.get(name)
            if child is not None:
                child.tell(message)

    def show_life(self) -> None:
        """Show the children with a socket that the parent is alive; call it at least every `SIGN_OF_LIFE_S`."""
        now_s = self._loop.time()
        if now_s >= self._shown_s + SIGN_OF_LIFE_S:
            self._shown_s = now_s
            for child in list(self._children.values()):
                if isinstance(child, ChildLink):
                    child.show_life()

    def get(self, child: str) -> ChildLink | CallChild | None:
        return self._children.get(child)

    def let_go(self, child: str) -> None:
        """Close the connection to a child, if there is any. Bytes that the socket has taken still arrive."""
        found = self._children.pop(child, None)
        if found is not None:
            self._dropped += found.dropped
            found.close()

    def _lose(self, child: str, why: str) -> None:
        if child in self._children:
            self.let_go(child)
            self._gone(child, why)

    @property
    def names(self) -> list[str]:
        return list(self._children)

    def __contains__(self, child: str) -> bool:
        return child in self._children

    def __len__(self) -> int:
        return len(self._children)

    @property
    def waiting_bytes(self) -> int:
        return sum(child.waiting_bytes for child in self._children.values())

    @property
    def dropped(self) -> int:
        return self._dropped + sum(child.dropped for child in self._children.values())

    def close(self) -> None:
        for child in self.names:
            self.let_go(child)
        if self._look is not None:
            self._look.cancel()
            self._look = None
