"""The two ends of a link.

A member of a job has a sender to its peers, and a receiver of what its peers send. A link carries numbered items, such
as envelopes, and knows no more of them; a `Codec` makes frames of them. A link may reorder and repeat items. A sender
numbers what it sends, from 0, and gives its incarnation, a number that is another when it restarts. So whoever receives
can put the items of each sender in order.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from tidewheel.progress.errors import TidewheelError

LinkName: TypeAlias = Literal["socket", "ray"]
"""The links that there are."""


class PeerLost(TidewheelError):  # noqa: N818 - named for what it says
    """A peer cannot be reached, or cannot read what was sent to it.

    Attributes:
        worker: the number of that worker, None if it is not known which.
    """

    def __init__(self, message: str, worker: int | None = None) -> None:
        super().__init__(message, worker)
        self.worker = worker

    def __str__(self) -> str:
        return str(self.args[0])


class Numbered(Protocol):
    """An item that a link carries, numbered by its sender."""

    @property
    def sender(self) -> int:
        """The number of the member that sends it."""

    @property
    def incarnation(self) -> int:
        """Of the sender: it grows when that restarts."""

    @property
    def sequence(self) -> int:
        """Counts the items of a sender for one receiver, from 0."""


Item = TypeVar("Item", bound=Numbered)


@dataclass(frozen=True, slots=True)
class Codec(Generic[Item]):
    """How a link turns items into frames and back.

    Attributes:
        encode: returns the frames of an item: bytes, and then buffers. It raises TypeError, AttributeError or
            PicklingError if the item cannot be pickled.
        decode: returns the item of some frames, which come from a peer that belongs to the job. It raises
            ProtocolError.
        empty: returns an item with nothing in it, given its sender, incarnation and sequence number.
    """

    encode: Callable[[Item], list[Any]]
    decode: Callable[[bytes, Sequence[Any]], Item]
    empty: Callable[[int, int, int], Item]


class Sender(ABC, Generic[Item]):
    """Sends items to the peers of a member, from one thread at a time.

    It may reorder and repeat items, since they are numbered, but must not lose any in silence.
    """

    @abstractmethod
    def send(self, peer: int, item: Item) -> int:
        """Send an item to a peer, by its worker number, and return its size in bytes; never waits for the peer.

        Raises:
            PeerLost: that peer is known to be gone.
            TypeError, AttributeError, PicklingError: something in the item cannot be pickled; nothing was sent.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise PeerLost if something that was sent is known not to arrive any more; called now and then."""

    @abstractmethod
    def close(self, linger_s: float = 0.0) -> None:
        """Let go of every peer; what does not leave within ``linger_s`` seconds from now is lost. Idempotent."""


class Receiver(ABC, Generic[Item]):
    """Receives what peers send to one member; `receive` is called from one thread at a time, the rest from any."""

    def __init__(self) -> None:
        self._delivered: deque[Item] = deque()

    def deliver(self, item: Item) -> None:
        """Receive an item that came by a call; `receive` returns it."""
        self._delivered.append(item)
        self.wake()

    @abstractmethod
    def receive(self, timeout_s: float) -> list[Item]:
        """Return what has come, each peer's in its order; wait for that or for `wake`, ``timeout_s`` at most.

        Raises:
            ProtocolError: a peer that belongs to the job has sent what cannot be read; the error says why.
        """

    @abstractmethod
    def wake(self) -> None:
        """Have `receive` return now, or the next time at once; from any thread."""

    @abstractmethod
    def close(self) -> None:
        """Take nothing more; while nobody is in `receive`. Idempotent."""

    def _take_delivered(self) -> list[Item]:
        delivered = self._delivered
        return [delivered.popleft() for _ in range(len(delivered))]
