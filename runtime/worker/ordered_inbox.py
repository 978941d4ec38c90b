"""The inbox of a worker: it restores the order of each sender's envelopes, and drops repeated ones."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidewheel.progress import ProtocolError

T = TypeVar("T")


@dataclass(slots=True)
class _Stream(Generic[T]):
    incarnation: int
    expected: int = 0
    early: dict[int, T] = field(default_factory=dict)


class OrderedInbox(Generic[T]):
    """Restores the order in which each sender has sent.

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
        """Receive one numbered item; return the items that can now be handled in order, oldest first.

        Raises:
            ProtocolError: the sender has another incarnation, so its earlier state is gone; or more than ``capacity``
                items wait for a missing item.
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
        stream = self._streams.get(sender)
        return 0 if stream is None else stream.expected

    def forget(self, sender: Hashable) -> None:
        self._streams.pop(sender, None)
