"""The call of for_each_epoch with a whole epoch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch
from tidewheel.progress import Time
from tidewheel.transport.batches import Batch, records


@dataclass(frozen=True, slots=True)
class EpochCall:
    """Calls a function with the time and all records of an epoch, and sends what it returns."""

    function: Callable[[Time, list[Any]], Any]

    def process(self, kept: object, epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return the result, as a batch of one."""
        return [[[self.function(epoch.time, [record for batch in epoch.batches[0] for record in records(batch)])]]]
