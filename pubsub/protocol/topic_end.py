"""The end of a topic in two phases, decided by the driver of its job. No I/O.

A publisher that has received everything reports the end of its partition. Its subscribers then receive every epoch, but
not the end. Once all publishers have reported, the end is final.

Invariants:

- Before the end is final, no subscriber receives it and the job is not complete. So the job can go back to a snapshot
  with all partitions, whichever process dies.
- A report belongs to a generation; after a return of the job only reports of the new generation count.
- A final end stays final. The driver tells each publisher until the publisher has answered, even if it replaces a dead
  one. A subscriber receives the end after all messages; if it has missed some, it is told so.
- A worker waits until its publisher has confirmed everything. The publisher confirms before it reports to the driver.
  So no worker waits for a publisher that dies after the end is final.
- After the final end, publishers drop messages that a worker repeats.
- An input that is closed in the snapshot stays closed when the job goes back; the program closes the others again.
- A publisher that replaces a dead one learns the names of its subscribers from the other publishers, and ends after
  they have come.
- A log records that it has received everything, and a job that begins again asks for this record. So a topic with logs
  ends when all logs have received everything, even if the driver has died. A worker that repeats the end gets the same
  answer as the first time.
- Every message may be repeated.
"""

from dataclasses import dataclass
from typing import Final

ALL_READ_WITHIN_S: Final = 1.0
"""The seconds for which a publisher that has received everything waits for its subscribers before it reports the
end."""


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """A publisher's report of the end of its partition, before the end is final.

    Attributes:
        number: the number of the partition's last message.
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
        """Forget a publisher's report, since the publisher has died; a final end stays."""
        if not self.is_final:
            self.ends.pop(partition, None)

    def go_back(self, generation: int) -> None:
        """Forget all reports, since the job goes back and begins this generation; a final end stays."""
        if not self.is_final:
            self._generation = generation
            self.ends.clear()
