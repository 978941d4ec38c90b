"""The messages that one subscriber has not yet acknowledged, bounded in bytes."""

from collections import deque
from dataclasses import dataclass

from tidewheel.pubsub.wire import DataMessage, InitialFrontierSnapshot, LowerFrontierUpdate, Message, Numbered

_MESSAGE_BYTES = 128
_TIME_BYTES = 64


def size_of(message: Message) -> int:
    """Return about how many bytes a message holds in memory; 0 for a last message, for which there is always room."""
    match message:
        case DataMessage():
            return _MESSAGE_BYTES + len(message.payload)
        case LowerFrontierUpdate():
            return _MESSAGE_BYTES + _TIME_BYTES * len(message.updates)
        case InitialFrontierSnapshot():
            return _MESSAGE_BYTES + _TIME_BYTES * (len(message.lower) + len(message.upper))
        case _:
            return 0


@dataclass(frozen=True, slots=True)
class _Entry:
    numbered: Numbered
    size: int


class OutgoingQueue:
    """Keeps messages until they are acknowledged, so that a reply that gets lost loses nothing.

    An empty queue takes a message of any size: otherwise a batch larger than the capacity could never be delivered.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._is_closed = False

    @property
    def bytes(self) -> int:
        """How many bytes wait."""
        return self._bytes

    @property
    def is_closed(self) -> bool:
        """Whether the subscriber has been cut off: nothing more is taken."""
        return self._is_closed

    def offer(self, numbered: Numbered, size: int) -> bool:
        """Append a message of ``size`` bytes; return False, and take nothing, if it does not fit."""
        if size and self._entries and self._bytes + size > self._capacity_bytes:
            return False
        self._entries.append(_Entry(numbered, size))
        self._bytes += size
        return True

    def close(self, reason: Numbered) -> None:
        """Free everything; ``reason`` is all that the subscriber will still get."""
        self._entries.clear()
        self._bytes = 0
        self.offer(reason, size_of(reason.message))
        self._is_closed = True

    def acknowledge(self, sequence: int) -> None:
        """Forget the messages up to number ``sequence``: they have arrived. Complexity: O(messages forgotten)."""
        while self._entries and self._entries[0].numbered.sequence <= sequence:
            self._bytes -= self._entries.popleft().size

    def head(self, max_bytes: int) -> list[Numbered]:
        """Return the oldest messages, up to ``max_bytes`` of them but at least one if there is one. They stay."""
        found: list[Numbered] = []
        taken = 0
        for entry in self._entries:
            taken += entry.size
            if found and taken > max_bytes:
                break
            found.append(entry.numbered)
        return found

    def __len__(self) -> int:
        """The number of messages that wait."""
        return len(self._entries)
