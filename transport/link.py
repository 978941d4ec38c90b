"""The two ends of a link, by which one member of a job sends numbered items to another.

A member, such as a worker, has one sender for all its peers, and one receiver. A `Codec` turns items into frames. A
link may reorder and repeat items. A sender numbers its items from 0 and adds its incarnation, which changes when it
restarts. So receivers can restore the order of each sender.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from tidewheel.progress.errors import TidewheelError

LinkName: TypeAlias = Literal["socket", "ray"]
"""The kinds of links."""


class PeerLost(TidewheelError):  # noqa: N818 - named for what it says
    """A peer cannot be reached, or cannot read its messages.

    Attributes:
        worker: its worker number, None if unknown.
    """

    def __init__(self, message: str, worker: int | None = None) -> None:
        super().__init__(message, worker)
        self.worker = worker

    def __str__(self) -> str:
        return str(self.args[0])


class Numbered(Protocol):
    """An item of a link, numbered by its sender."""

    @property
    def sender(self) -> int: ...

    @property
    def incarnation(self) -> int:
        """The sender's incarnation; it grows with each restart."""

    @property
    def sequence(self) -> int:
        """The number of the item from this sender to one receiver, from 0."""


Item = TypeVar("Item", bound=Numbered)


@dataclass(frozen=True, slots=True)
class Codec(Generic[Item]):
    """The functions with which a link turns items into frames and back.

    Attributes:
        encode: returns the frames of an item: bytes, then buffers; raises TypeError, AttributeError or PicklingError if
            it cannot be pickled.
        decode: returns the item in frames that an authenticated peer has sent; raises ProtocolError.
        empty: returns an empty item, given its sender, incarnation and sequence number.
    """

    encode: Callable[[Item], list[Any]]
    decode: Callable[[bytes, Sequence[Any]], Item]
    empty: Callable[[int, int, int], Item]


class Sender(ABC, Generic[Item]):
    """Sends items to the peers of a member, from one thread at a time.

    It may reorder and repeat numbered items, but must not lose any silently.
    """

    @abstractmethod
    def send(self, peer: int, item: Item) -> int:
        """Send an item to a peer, by worker number, and return its size in bytes; never waits for the peer.

        Raises:
            PeerLost: that peer is known to be gone.
            TypeError, AttributeError, PicklingError: a part of the item cannot be pickled; nothing was sent.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise PeerLost if a sent item cannot arrive any more; call this now and then."""

    @abstractmethod
    def close(self, linger_s: float = 0.0) -> None:
        """Disconnect, and wait at most ``linger_s`` seconds for the last items to leave; idempotent."""


class Receiver(ABC, Generic[Item]):
    """Receives a member's items. One thread at a time may call `receive`; any thread may call the rest."""

    def __init__(self) -> None:
        self._delivered: deque[Item] = deque()

    def deliver(self, item: Item) -> None:
        """Add an item that arrived by an actor call; `receive` returns it."""
        self._delivered.append(item)
        self.wake()

    @abstractmethod
    def receive(self, timeout_s: float) -> list[Item]:
        """Return the received items, each peer's in order; wait at most ``timeout_s`` for one, or for `wake`.

        Raises:
            ProtocolError: an authenticated peer has sent something unreadable.
        """

    @abstractmethod
    def wake(self) -> None:
        """Let `receive` return now or, if no thread is in it, at once the next time; thread-safe."""

    @abstractmethod
    def close(self) -> None:
        """Stop receiving; call it while no thread is in `receive`; idempotent."""

    def _take_delivered(self) -> list[Item]:
        delivered = self._delivered
        return [delivered.popleft() for _ in range(len(delivered))]
