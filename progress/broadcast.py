"""The broadcast protocol: every worker tells every worker, itself included, what happened to its pointstamps.

Invariants:

- A batch is indivisible: all that one scheduling step of a worker did, in one message, applied at once.
- It never reports an action not yet performed, and reaches each receiver in the order in which it was sent.
- An empty batch is not sent.

Source: seed "Progress Tracking", section "Maintaining Capabilities"; Abadi et al., "Formal analysis of a distributed
algorithm for tracking progress", FORTE 2013.
"""

from collections.abc import Iterable
from typing import TypeAlias

from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

ProgressBatch: TypeAlias = list[tuple[tuple[int, Time], int]]
"""Net changes of one step: ((location number, time), difference)."""


class Broadcast:
    """One worker's end of the broadcast: accumulates its own changes, applies everybody's."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._pending: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        self.batches_sent = 0
        self.changes_sent = 0

    def record(self, changes: Iterable[tuple[tuple[int, Time], int]]) -> None:
        """Add changes that this worker made in the current step."""
        self._pending.extend(changes)

    def record_one(self, location: int, time: Time, difference: int) -> None:
        """Add one change that this worker made in the current step."""
        self._pending.update((location, time), difference)

    def commit(self) -> tuple[ProgressBatch, set[int]]:
        """End the step: return the batch for the peers, and the locations whose frontier it moved in this view."""
        batch = self._pending.drain()
        if not batch:
            return [], set()
        self.batches_sent += 1
        self.changes_sent += len(batch)
        return batch, self._tracker.update(batch)

    def receive(self, batch: ProgressBatch) -> set[int]:
        """Apply a peer's batch; return the locations whose frontier it moved in this view."""
        return self._tracker.update(batch)
