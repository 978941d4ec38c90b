"""Messages by tick, in order, with their sizes."""

from bisect import bisect_left, insort
from typing import Generic, TypeVar

M = TypeVar("M")

_SPARE = 64


class TickMessages(Generic[M]):
    """At most one message on each tick.

    Complexity: O(1) to add the latest message; for any other, O(log messages) and a move of the later messages in
    memory. Other calls are O(log messages + found or removed messages), amortised, if most removed messages are the
    oldest or latest.

    >>> messages = TickMessages[str]()
    >>> messages.add(7, "b", size_bytes=10), messages.add(3, "a", size_bytes=20)
    (None, None)
    >>> messages.between(0, 8)
    [(3, 'a'), (7, 'b')]
    >>> messages.remove(0, 7)
    >>> messages.between(0, 8), messages.bytes
    ([(7, 'b')], 10)
    """

    __slots__ = ("_entries", "_gone", "_ticks", "bytes")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[M, int]] = {}
        self._ticks: list[int] = []
        self._gone = 0  # the number of ticks at the beginning of the list whose messages were removed
        self.bytes = 0

    def add(self, tick: int, message: M, size_bytes: int) -> None:
        assert tick not in self._entries, f"tick {tick} has a message"
        ticks = self._ticks
        if not ticks or tick > ticks[-1]:
            ticks.append(tick)
        else:
            insort(ticks, tick, self._gone)
        self._entries[tick] = (message, size_bytes)
        self.bytes += size_bytes

    def remove(self, first: int, end: int) -> None:
        ticks = self._ticks
        if not self._entries or first > ticks[-1]:
            return
        low = bisect_left(ticks, first, self._gone)
        high = bisect_left(ticks, end, low)
        for tick in ticks[low:high]:
            self.bytes -= self._entries.pop(tick)[1]
        if low > self._gone:
            del ticks[low:high]
        else:
            self._gone = high
            # Removing from the lists moves the remaining entries, so it waits until fewer remain than it removes.
            if self._gone > _SPARE and 2 * self._gone > len(ticks):
                del ticks[: self._gone]
                self._gone = 0

    def between(self, first: int, end: int) -> list[tuple[int, M]]:
        entries = self._entries
        return [(tick, entries[tick][0]) for tick in self.ticks(first, end)]

    def ticks(self, first: int, end: int) -> list[int]:
        low = bisect_left(self._ticks, first, self._gone)
        return self._ticks[low : bisect_left(self._ticks, end, low)]

    def read(self, first: int, end: int, max_bytes: int, most: int) -> tuple[list[tuple[int, M]], int]:
        """Return ticks and messages from ``first`` up to ``end``, in order, and the end of the range read.

        If the messages exceed ``max_bytes`` or ``most``, the range ends after the last returned message; at least one
        message is returned. Complexity: O(log messages + returned messages).
        """
        ticks, entries = self._ticks, self._entries
        found: list[tuple[int, M]] = []
        for position in range(bisect_left(ticks, first, self._gone), len(ticks)):
            tick = ticks[position]
            if tick >= end:
                break
            if found and (max_bytes <= 0 or len(found) >= most):
                return found, found[-1][0] + 1
            message, size_bytes = entries[tick]
            found.append((tick, message))
            max_bytes -= size_bytes
        return found, end

    def oldest_over(self, max_bytes: int) -> int | None:
        """Return the last tick to remove, so that the messages after it fit into ``max_bytes``; None if all fit."""
        excess, position, tick = self.bytes - max_bytes, self._gone, None
        while excess > 0 and position < len(self._ticks):
            tick = self._ticks[position]
            excess -= self._entries[tick][1]
            position += 1
        return tick

    def latest_over(self, max_bytes: int, after: int = 0) -> int | None:
        """Return the first tick to remove, so that the messages before it fit into ``max_bytes``; None if all fit.

        Messages before ``after`` stay.
        """
        excess, position, tick = self.bytes - max_bytes, len(self._ticks), None
        while excess > 0 and position > self._gone and self._ticks[position - 1] >= after:
            position -= 1
            tick = self._ticks[position]
            excess -= self._entries[tick][1]
        return tick

    def last_before(self, tick: int) -> int | None:
        position = bisect_left(self._ticks, tick, self._gone)
        return self._ticks[position - 1] if position > self._gone else None

    def __getitem__(self, tick: int) -> M:
        return self._entries[tick][0]

    def __contains__(self, tick: int) -> bool:
        return tick in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def oldest(self) -> int | None:
        return self._ticks[self._gone] if self._entries else None

    @property
    def latest(self) -> int | None:
        return self._ticks[-1] if self._entries else None
