"""The two ends of a link, and the order of what it carries.

A member of a job has a sender to its peers, and a receiver of what its peers send. A link carries numbered items, such
as envelopes, and knows no more of them; a `Codec` makes frames of them. A link may reorder and repeat items. A sender
numbers what it sends, from 0, and gives its incarnation, a number that is another when it restarts. The receiver puts
the items of each sender in order, drops what it had before, and refuses another incarnation.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from tidewheel.progress.errors import ProtocolError, TidewheelError

LinkName: TypeAlias = Literal["socket", "ray"]
"""The links that there are."""

T = TypeVar("T")


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
    """An item that a link carries: its sender numbers it, and an `OrderedInbox` puts it in order."""

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


@dataclass(slots=True)
class _Stream(Generic[T]):
    incarnation: int
    expected: int = 0
    early: dict[int, T] = field(default_factory=dict)


class OrderedInbox(Generic[T]):
    """Restores, for each sender, the order in which it sent.

    >>> inbox = OrderedInbox()
    >>> inbox.accept("a", 0, 1, "second")
    []
    >>> inbox.accept("a", 0, 0, "first")
    ['first', 'second']
    >>> inbox.accept("a", 0, 0, "first"), inbox.duplicates
    ([], 1)
    """

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._streams: dict[Hashable, _Stream[T]] = {}
        self._capacity = capacity
        self.duplicates = 0

    def accept(self, sender: Hashable, incarnation: int, sequence: int, item: T) -> list[T]:
        """Take one numbered item; return the items that are now in order, oldest first.

        Raises:
            ProtocolError: the sender has another incarnation than before (its state is gone), or more than ``capacity``
                items wait behind one that never came.
        """
        stream = self._streams.get(sender)
        if stream is None:
            stream = self._streams[sender] = _Stream(incarnation)
        if stream.incarnation != incarnation:
            raise ProtocolError(
                f"sender {sender!r} was incarnation {stream.incarnation} and is now {incarnation}: "
                "it has restarted and lost its state"
            )
        if sequence < stream.expected or sequence in stream.early:
            self.duplicates += 1
            return []
        if sequence != stream.expected:
            stream.early[sequence] = item
            if len(stream.early) > self._capacity:
                raise ProtocolError(f"item {stream.expected} of sender {sender!r} was lost: {sequence} has come")
            return []
        ready = [item]
        stream.expected += 1
        while stream.expected in stream.early:
            ready.append(stream.early.pop(stream.expected))
            stream.expected += 1
        return ready

    def accepted(self, sender: Hashable) -> int:
        """Return how many items of a sender have come, in order and without a gap."""
        stream = self._streams.get(sender)
        return 0 if stream is None else stream.expected

    def forget(self, sender: Hashable) -> None:
        """Forget a sender that will not send any more."""
        self._streams.pop(sender, None)

    def waiting(self) -> dict[Hashable, int]:
        """Return, for each sender with a gap, the sequence number that is missing."""
        return {sender: stream.expected for sender, stream in self._streams.items() if stream.early}
