"""A whole epoch of a topic: all its batches, from all partitions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.events import Batch


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class Epoch:
    """All batches of one time, by partition and, within one, in the order of publication.

    Args:
        time: the epoch.
        batches: at least one.
    """

    time: Time
    batches: tuple[Batch, ...]

    @cached_property
    def records(self) -> list[Any]:
        """All records, decoded the first time that they are asked for; rows of Arrow are dicts."""
        return [record for batch in self.batches for record in batch.records]

    def to_arrow(self) -> Any:
        """Return all records as one ``pyarrow.Table``, without a copy.

        Raises:
            DeliveryError: some batch is not Arrow.
        """
        if not all(batch.is_arrow for batch in self.batches):
            raise DeliveryError(f"epoch {self.time!r} has batches that are not Arrow: use records")
        import pyarrow as pa

        return pa.concat_tables(batch.data for batch in self.batches)

    def __len__(self) -> int:
        """The number of records; known without decoding."""
        return sum(len(batch) for batch in self.batches)
