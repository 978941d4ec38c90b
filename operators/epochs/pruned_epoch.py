"""Folding an epoch by gathering its records, or those of them that may still matter, such as the greatest."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidewheel.operators.epochs.partial import joined
from tidewheel.transport.batches import Batch, length

_SMALLEST_PRUNING = 1024
"""So many records are gathered before it is worth looking which of them matter."""


@dataclass(slots=True)
class Gathered:
    """The records of an epoch that may still matter."""

    batches: list[Batch] = field(default_factory=list)
    records: int = 0
    limit: int = _SMALLEST_PRUNING


@dataclass(frozen=True, slots=True)
class PrunedEpoch:
    """A fold that keeps what ``prune`` leaves of the records of an epoch; memory is linear in that.

    Args:
        prune: takes records out of a batch, such that
            ``prune(joined([prune(a), b])) == prune(joined([a, b]))``.
    """

    prune: Callable[[Batch], Batch]

    def start(self) -> Gathered:
        """Return nothing gathered."""
        return Gathered()

    def add(self, state: Gathered, batch: Batch) -> Gathered:
        """Gather a batch; prune if there are twice as many records as the last time."""
        state.batches.append(batch)
        state.records += length(batch)
        if state.records > state.limit:
            left = self.prune(joined(state.batches))
            state.batches, state.records = [left], length(left)
            state.limit = max(2 * state.records, _SMALLEST_PRUNING)
        return state

    def size(self, state: Gathered) -> int:
        """Return how many records are left, at most."""
        return state.records

    def finish(self, state: Gathered) -> Iterable[Batch]:
        """Return what is left, as one batch."""
        return [self.prune(joined(state.batches))]
