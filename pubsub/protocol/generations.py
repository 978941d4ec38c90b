"""The return of all partitions of a topic to a snapshot, at one subscriber.

Invariants:

- A subscriber goes back with all partitions at once. Until each partition has reported its return, messages after a
  return wait, and no epoch mixes two generations.
- A partition may go back again while messages since its last return still wait. If the last return stays valid, only
  some of these messages are void, and the frontier becomes the frontier in the new return. It cannot be derived from
  the waiting moves: a full queue joins several moves, and a part of such a move may be void. If the last return is not
  valid, the new return replaces it. With a log, batches that the last return has made void stay void.
"""

from typing import TypeAlias

from tidewheel.progress import Time
from tidewheel.pubsub.messages.wire import WentBack

Return: TypeAlias = tuple[int, int, WentBack]
"""The partition of a return, the number of its message, and the message."""


class Generations:
    """The generation of each partition.

    >>> generations = Generations(2)
    >>> generations.snapshot(0, sequence=4, generation=0), generations.snapshot(1, sequence=9, generation=0)
    (None, None)
    >>> generations.start()
    []
    >>> generations.go_back(0, 8, WentBack(1, 5, [3]))
    True
    >>> generations.is_ahead(0), generations.is_ahead(1), generations.take()
    (True, False, None)
    >>> generations.go_back(1, 12, WentBack(1, 10, [3]))
    True
    >>> [(partition, sequence, message.number) for partition, sequence, message in generations.take()]
    [(0, 8, 5), (1, 12, 10)]
    """

    def __init__(self, partitions: int) -> None:
        self._of = [0] * partitions
        self._present = 0
        self._returns: dict[int, list[tuple[int, WentBack]]] = {}
        self._waits_from: dict[int, int] = {}

    def snapshot(self, partition: int, sequence: int, generation: int) -> None:
        """Record a partition's snapshot, which is message ``sequence``; later messages wait."""
        self._of[partition] = generation
        self._waits_from[partition] = sequence

    def go_back(self, partition: int, sequence: int, message: WentBack) -> bool:
        """Record that a partition has gone back, by message ``sequence``.

        Return whether the first waiting message comes after the point of return; if not, the previous return stays
        valid.
        """
        self._of[partition] = message.generation
        if message.standing is not None:
            self._returns.setdefault(partition, []).append((sequence, message))
        elif message.number < self._waits_from.get(partition, sequence):
            self._returns[partition] = [(sequence, message)]
            self._waits_from[partition] = sequence
        else:
            return False
        return True

    def lower_of(self, partition: int, snapshot: list[Time]) -> list[Time]:
        """Return the lower frontier of a partition before the first waiting message."""
        return self._returns[partition][-1][1].lower if partition in self._returns else snapshot

    def start(self) -> list[Return]:
        """Begin, when all partitions have sent a snapshot.

        For each partition that is not ahead of others, return its last return to a snapshot; its messages no longer
        wait.
        """
        self._present = min(self._of)
        here = [partition for partition, generation in enumerate(self._of) if generation == self._present]
        for partition in here:
            del self._waits_from[partition]
        return [(one, *each) for one in here for each in self._returns.pop(one, ())]

    def is_ahead(self, partition: int) -> bool:
        return self._of[partition] > self._present

    def take(self) -> list[Return] | None:
        """Return the partitions' returns to a snapshot if all partitions have now gone back; otherwise None."""
        if min(self._of) == self._present or min(self._of) < max(self._of):
            return None
        self._present = self._of[0]
        self._waits_from.clear()
        returns, self._returns = self._returns, {}
        return [(partition, *each) for partition in sorted(returns) for each in returns[partition]]
