"""The accumulated protocol: workers tell one of them, which tells all the net changes.

An epoch that all workers pass costs one message from each worker and one to each, where the broadcast costs one from
each to each. The price is one more trip: a worker's own changes, too, count in its view only when they come back.

Every view is the same sum of whole batches, taken at some moment; so it is one that the broadcast could have shown.

Source: Murray et al., "Naiad: a timely dataflow system", SOSP 2013, section 3.3 (accumulation of progress updates).
"""

from dataclasses import replace

from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.progress.held_batch import HeldBatch, NetBatch, ProgressBatch
from tidewheel.progress.spread import Committed, Knowledge, Spread
from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

ACCUMULATOR = 0
"""The worker that adds up."""


class Accumulated(Spread):
    """One worker's end of the accumulated protocol."""

    def __init__(self, tracker: Tracker, worker: int, workers: int, *, hold_back: bool = True) -> None:
        held = NetBatch if worker == ACCUMULATOR else HeldBatch
        super().__init__(tracker, worker, workers, held(tracker, hold_back=hold_back))

    def commit(self) -> Committed:
        """End the step: report to the accumulator, or, being it, tell all peers what has come together."""
        step = self._step.drain()
        if step:
            self._held.add(step)
        if not self._held.is_due:
            return Committed({}, set())
        if self._worker != ACCUMULATOR:
            return Committed(self._send([ACCUMULATOR]), set())
        net = list(self._held)
        batches = self._send(self._peers)
        return Committed(batches, self._tracker.update(net))

    def _apply(self, batch: ProgressBatch) -> set[int]:
        """Add a worker's report to what is to be told, or apply what the accumulator tells."""
        if self._worker == ACCUMULATOR:
            self._held.add(batch)
            return set()
        moved = self._tracker.update(batch)
        self._held.frontiers_moved(moved)
        return moved

    @property
    def hears_all(self) -> bool:
        """Whether this is the accumulator."""
        return self._worker == ACCUMULATOR

    def knowledge(self) -> Knowledge:
        """Return what this worker knows; the accumulator counts what it has heard and not told, too."""
        counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(self._tracker.counts())
        counts.extend(self._held)
        return replace(super().knowledge(), counts=dict(counts))
