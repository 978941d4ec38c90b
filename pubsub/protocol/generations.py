"""The return of all partitions of a topic to a snapshot, as one subscriber sees it.

Invariants:

- A subscriber goes back with all partitions at once. Until each of them has said that it went back, what is new from
  those that did waits. So no epoch is made of parts of two generations.
- A partition may go back again while what it said since its last return still waits. If that return stands, some of
  what waits is void, and nothing else has changed. If not, the new return is in its place. With a log, what the
  last return has made void stays so: epochs may have become complete since, and then the new one says nothing of them.
"""

from tidewheel.progress import Time
from tidewheel.pubsub.messages.wire import WentBack


class Generations:
    """The generation of each partition.

    Args:
        partitions: how many there are.

    >>> generations = Generations(2)
    >>> generations.snapshot(0, sequence=4, generation=0), generations.snapshot(1, sequence=9, generation=0)
    (None, None)
    >>> generations.start()
    >>> generations.go_back(0, 8, WentBack(1, 5, [3]))
    >>> generations.is_ahead(0), generations.is_ahead(1), generations.take()
    (True, False, None)
    >>> generations.go_back(1, 12, WentBack(1, 10, [3]))
    >>> [(partition, message.number) for partition, message in generations.take()]
    [(0, 5), (1, 10)]
    """

    def __init__(self, partitions: int) -> None:
        self._of = [0] * partitions
        self._present = 0
        self._returns: dict[int, list[WentBack]] = {}
        self._waits_from: dict[int, int] = {}

    def snapshot(self, partition: int, sequence: int, generation: int) -> None:
        """Record the snapshot of a partition, which is message ``sequence``: what comes next waits."""
        self._of[partition] = generation
        self._waits_from[partition] = sequence

    def go_back(self, partition: int, sequence: int, message: WentBack) -> None:
        """Record that a partition has gone back by message ``sequence``."""
        self._of[partition] = message.generation
        if message.standing is not None:
            self._returns.setdefault(partition, []).append(message)
        elif message.number < self._waits_from.get(partition, sequence):
            self._returns[partition] = [message]
            self._waits_from[partition] = sequence

    def lower_of(self, partition: int, snapshot: list[Time]) -> list[Time]:
        """Return the lower frontier of a partition before the first message that waits."""
        return self._returns[partition][-1].lower if partition in self._returns else snapshot

    def start(self) -> None:
        """Begin, once all partitions have sent a snapshot. What comes from those that are not ahead waits no more."""
        self._present = min(self._of)
        for partition, generation in enumerate(self._of):
            if generation == self._present:
                self._returns.pop(partition, None)
                del self._waits_from[partition]

    def is_ahead(self, partition: int) -> bool:
        """Tell whether what comes from a partition has to wait for others."""
        return self._of[partition] > self._present

    def take(self) -> list[tuple[int, WentBack]] | None:
        """Return the returns of partitions if all have gone back now; None if some have not, or there is no return."""
        if min(self._of) == self._present or min(self._of) < max(self._of):
            return None
        self._present = self._of[0]
        self._waits_from.clear()
        returns, self._returns = self._returns, {}
        return [(partition, message) for partition, all_of in sorted(returns.items()) for message in all_of]
