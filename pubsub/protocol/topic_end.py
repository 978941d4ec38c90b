"""The end of a topic in two phases, as the driver of its job decides it. No I/O.

A publisher that has everything reports the end of its partition. Its subscribers then receive every epoch, but not the
end. Once all publishers have reported, the end is final.

Invariants:

- Before the end is final, no subscriber receives it and the job is not complete. So the job can go back to a snapshot
  with all partitions, whichever process dies.
- A report belongs to a generation; after a return of the job only reports of the new generation count.
- A final end stays final. The driver tells each publisher until it has answered, also a publisher that replaces a dead
  one. A subscriber receives the end after all messages; if it has missed some, it is told so.
- A worker waits until its publisher has confirmed everything. The publisher does that before it tells the driver. So no
  worker waits for a publisher that dies after the end is final.
- After the final end, publishers drop messages that a worker repeats.
- An input that is closed in the snapshot stays closed when the job goes back; the program closes the others again.
- A publisher that replaces a dead one learns the names of its subscribers from the other publishers, and ends after
  they have come.
- A log records that it has everything, and a job that begins again asks for that. So a topic with logs ends when all
  logs have everything, even if the driver has died. A worker that repeats the end gets the same answer as the first
  time.
- Every message may be repeated.
"""

from dataclasses import dataclass
from typing import Final

ALL_READ_WITHIN_S: Final = 1.0
"""A publisher that has all messages waits this long, in seconds, for its subscribers to have them before it says so."""


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The end of one partition, as its publisher reports it before it is final.

    Attributes:
        number: the number of its last message.
        generation: how often the job had gone back by then.
    """

    number: int
    generation: int
    readers: tuple[str, ...] = ()


class TopicEnd:
    """The ends of all partitions of one topic.

    Attributes:
        is_final: whether the ends of all partitions are known; then subscribers receive the end.

    >>> end = TopicEnd(2)
    >>> end.receive(0, PartitionEnd(4, generation=0))
    False
    >>> end.go_back(1)
    >>> [end.receive(partition, PartitionEnd(9, generation)) for partition, generation in [(1, 0), (1, 1), (0, 1)]]
    [False, False, True]
    >>> end.go_back(2)
    >>> end.lose(0)
    >>> end.is_final, len(end.ends)
    (True, 2)
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._generation = 0
        self.ends: dict[int, PartitionEnd] = {}
        self.is_final = False

    def receive(self, partition: int, end: PartitionEnd) -> bool:
        if self.is_final or end.generation != self._generation:
            return False
        self.ends[partition] = end
        self.is_final = len(self.ends) == self._partitions
        return self.is_final

    def lose(self, partition: int) -> None:
        """Forget the end that a publisher has reported, since it has died; a final end stays."""
        if not self.is_final:
            self.ends.pop(partition, None)

    def go_back(self, generation: int) -> None:
        """Forget all ends, since the job goes back and begins this generation; a final end stays."""
        if not self.is_final:
            self._generation = generation
            self.ends.clear()
