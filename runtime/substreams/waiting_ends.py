"""Ends of substreams that an operator has not looked at yet, at one of its inputs on one worker."""

from collections import deque
from collections.abc import Sequence

from tidewheel.progress.substream_tracker import Key


class WaitingEnds:
    """Keys in the order in which their ends were told.

    A key is here several times if it was used again meanwhile, and what had it then has ended, too, with nothing of it
    having come here.

    Attributes:
        are_all: whether no end will be added any more, as no substream is left, and none can come.
    """

    __slots__ = ("_counts", "_queue", "are_all")

    def __init__(self) -> None:
        self._queue: deque[Key] = deque()
        self._counts: dict[Key, int] = {}
        self.are_all = False

    def add(self, keys: Sequence[Key]) -> None:
        """Add ends. O(1) each."""
        self._queue.extend(keys)
        counts = self._counts
        for key in keys:
            counts[key] = counts.get(key, 0) + 1

    def take(self) -> Key:
        """Take the oldest end. O(1)."""
        key = self._queue.popleft()
        left = self._counts.pop(key) - 1
        if left:
            self._counts[key] = left
        return key

    def __contains__(self, key: Key) -> bool:
        return key in self._counts

    def __len__(self) -> int:
        return len(self._queue)
