"""The broadcast protocol: every worker tells every worker, itself included, what happened to its pointstamps."""

from tidewheel.progress.held_batch import HeldBatch, ProgressBatch
from tidewheel.progress.spread import Committed, Spread
from tidewheel.progress.tracker import Tracker


class Broadcast(Spread):
    """One worker's end of the broadcast; its own changes are in its view at once, before the peers have them."""

    def __init__(self, tracker: Tracker, worker: int = 0, workers: int = 1, *, hold_back: bool = True) -> None:
        super().__init__(tracker, worker, workers, HeldBatch(tracker, hold_back=hold_back))

    def commit(self) -> Committed:
        """End the step; the batch, or what has been held back with it, goes to every peer."""
        step = self._step.drain()
        moved = self._tracker.update(step) if step else set()
        if not self._peers:
            return Committed({}, moved)
        self._held.add(step)
        self._held.frontiers_moved(moved)
        return Committed(self._send(self._peers) if self._held.is_due else {}, moved)

    def _apply(self, batch: ProgressBatch) -> set[int]:
        moved = self._tracker.update(batch)
        self._held.frontiers_moved(moved)
        return moved
