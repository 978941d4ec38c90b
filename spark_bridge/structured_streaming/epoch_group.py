"""The group of epochs that go into one file. No I/O, no clock.

Whoever reads the folder live takes every file that appears as new rows, so small files cannot be put together after
they were seen: small epochs wait for each other before they are.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewheel.progress import Time
from tidewheel.pubsub.messages.events import Batch
from tidewheel.pubsub.messages.wire import DataMessage

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class EpochGroup:
    """Whole epochs that wait to become one file.

    Attributes:
        tables: their rows, in the order of the epochs.
        times: of the epochs.
        batches: what is to be acknowledged of them; these batches have no content.
        bytes: how large the tables are.
        since_s: when the first of them came.
    """

    tables: "list[pa.Table]" = field(default_factory=list)
    times: list[Time] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    bytes: int = 0
    since_s: float = 0.0

    def add(self, time: Time, tables: "list[pa.Table]", batches: tuple[Batch, ...], now_s: float) -> None:
        """Add an epoch that has rows, with all that it has."""
        if not self.times:
            self.since_s = now_s
        self.times.append(time)
        self.tables += tables
        self.batches += map(_without_content, batches)
        self.bytes += sum(table.nbytes for table in tables)

    def due_in_s(self, now_s: float, file_bytes: int, max_delay_s: float) -> float | None:
        """Return in how many seconds this is to be a file; None if it is empty.

        Args:
            now_s: the time now.
            file_bytes: how large the tables are when it is at once.
            max_delay_s: how long the first epoch waits at most.

        >>> group = EpochGroup(times=[7], bytes=10, since_s=100.0)
        >>> group.due_in_s(100.25, 10_000, 1.0), group.due_in_s(100.25, 10, 1.0)
        (0.75, 0.0)
        """
        if not self.times:
            return None
        return 0.0 if self.bytes >= file_bytes else max(0.0, self.since_s + max_delay_s - now_s)


def _without_content(batch: Batch) -> Batch:
    """Return what acknowledges a batch, and does not hold what was in it meanwhile."""
    nothing = DataMessage(batch.time, b"", "pickle", 0)
    return Batch(batch.time, batch.partition, nothing, batch.counter, number=batch.number)
