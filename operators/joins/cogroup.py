"""Cogroups: for each key of an epoch the records of two streams that have it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch
from tidewheel.operators.keys.join_keys import KeyColumns, KeyFunctions, rows_of
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.transport.batches import Batch


@dataclass(frozen=True, slots=True)
class Cogroup:
    """Gathers the records of an epoch by key on both sides. Linear."""

    keys: KeyFunctions | KeyColumns

    def process(self, kept: object, epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return (key, this side's records, the other's) for each key that either has."""
        lefts, rights = (
            Keys(key).grouped(rows_of(batches, self.keys))
            for batches, key in zip(epoch.batches, self.keys.exchanges, strict=True)
        )
        both = dict.fromkeys([*lefts, *rights])
        return ([[(key, lefts.get(key, []), rights.get(key, [])) for key in both]],)
