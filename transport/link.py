"""The two ends of a link, by which one member of a job sends numbered items to another.

A member, such as a worker, has one sender for all its peers, and one receiver. A `Codec` turns items into frames. A
link may reorder and repeat items. So a sender numbers its items from 0, and adds its incarnation, which changes when
the sender restarts: with these, receivers restore the order.
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
    """A peer cannot be reached, or cannot read what it receives.

    Attributes:
        worker: the peer's worker number, None if unknown.
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
        """The sender's incarnation, which grows with each restart."""

    @property
    def sequence(self) -> int:
        """The item's number among all items from this sender to the receiver, from 0."""


Item = TypeVar("Item", bound=Numbered)


@dataclass(frozen=True, slots=True)
class Codec(Generic[Item]):
    """The functions with which a link turns items into frames and back.

    Attributes:
        encode: returns the frames of an item: bytes, then buffers. Raises TypeError, AttributeError or PicklingError if
            the item cannot be pickled.
        decode: returns the item in some frames of an authenticated peer; raises ProtocolError.
        empty: returns an empty item, given its sender, incarnation and sequence number.
    """

    encode: Callable[[Item], list[Any]]
    decode: Callable[[bytes, Sequence[Any]], Item]
    empty: Callable[[int, int, int], Item]


class Sender(ABC, Generic[Item]):
    """Sends items to the peers of a member, from one thread at a time.

    A sender may reorder and repeat items, but must not lose any silently.
    """

    @abstractmethod
    def send(self, peer: int, item: Item) -> int:
        """Send an item to the worker ``peer``, without waiting for it; return the item's size in bytes.

        Raises:
            PeerLost: the peer is known to be gone.
            TypeError, AttributeError, PicklingError: a part of the item cannot be pickled; nothing was sent.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise PeerLost if a sent item can no longer arrive. Call this now and then."""

    @abstractmethod
    def close(self, linger_s: float = 0.0) -> None:
        """Wait at most ``linger_s`` seconds for the last items to leave, and disconnect; idempotent."""


class Receiver(ABC, Generic[Item]):
    """Receives a member's items. Only one thread at a time may call `receive`; the other methods are thread-safe."""

    def __init__(self) -> None:
        self._delivered: deque[Item] = deque()

    def deliver(self, item: Item) -> None:
        """Add an item that has arrived by an actor call; `receive` will return it."""
        self._delivered.append(item)
        self.wake()

    @abstractmethod
    def receive(self, timeout_s: float) -> list[Item]:
        """Return the received items, in the order of each peer. Wait for an item or for `wake`, at most ``timeout_s``.

        Raises:
            ProtocolError: an authenticated peer has sent something unreadable.
        """

    @abstractmethod
    def wake(self) -> None:
        """Let `receive` return now; if no thread is in `receive`, its next call returns at once. Thread-safe."""

    @abstractmethod
    def close(self) -> None:
        """Stop receiving; call it while no thread is in `receive`; idempotent."""

    def _take_delivered(self) -> list[Item]:
        delivered = self._delivered
        return [delivered.popleft() for _ in range(len(delivered))]
