"""How workers tell each other what happened to their pointstamps.

Invariants of every way to do so:

- A batch is indivisible: all that one scheduling step of a worker did, or several whole steps, in one message, applied
  at once.
- It never reports an action not yet performed, and reaches each receiver in the order in which it was sent.
- An empty batch is not sent, and what cannot move a frontier waits; see `HeldBatch`.

Source: seed "Progress Tracking", section "Maintaining Capabilities"; Abadi et al., "Formal analysis of a distributed
algorithm for tracking progress", FORTE 2013.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.progress.held_batch import Change, HeldBatch, ProgressBatch
from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

SpreadName: TypeAlias = Literal["broadcast", "accumulated"]
"""``"broadcast"``: each worker tells each. ``"accumulated"``: all tell one, which tells all what comes of it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What the end of a step brings about.

    ``batches`` has the batch for each peer that gets one; ``moved`` the locations whose frontier moved in this view.
    """

    batches: Mapping[int, ProgressBatch] = field(default_factory=dict)
    moved: set[int] = field(default_factory=set)


class Spread(ABC):
    """One worker's end of a progress protocol: collects its own changes, applies everybody's to its view.

    Args:
        tracker: this worker's view.
        worker: its number.
        workers: how many there are.
        held: where what is to be sent waits.
    """

    def __init__(self, tracker: Tracker, worker: int, workers: int, held: HeldBatch) -> None:
        self._tracker = tracker
        self._worker = worker
        self._peers = [peer for peer in range(workers) if peer != worker]
        self._held = held
        self._step: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        self.batches_sent = 0
        self.changes_sent = 0

    def record(self, changes: Iterable[Change]) -> None:
        """Add changes that this worker made in the current step."""
        self._step.extend(changes)

    def record_one(self, location: int, time: Time, difference: int) -> None:
        """Add one change that this worker made in the current step."""
        self._step.update((location, time), difference)

    @abstractmethod
    def commit(self) -> Committed:
        """End the step: say what is to be sent to whom, and what moved in this view."""

    @abstractmethod
    def receive(self, sender: int, batch: ProgressBatch) -> set[int]:
        """Take a peer's batch; return the locations whose frontier it moved in this view."""

    @property
    def is_due(self) -> bool:
        """Whether there is something to send, so that a step must end though nothing happened in it."""
        return self._held.is_due

    def unsent(self) -> ProgressBatch:
        """Return what waits to be sent."""
        return list(self._held)

    def known(self) -> dict[tuple[int, Time], int]:
        """Return the counts of all pointstamps, what this worker has not sent included."""
        return dict(self._tracker.counts())

    def _send(self, peers: Iterable[int]) -> Mapping[int, ProgressBatch]:
        """Return what is held as the batch for each of ``peers``."""
        batch = self._held.drain()
        batches = dict.fromkeys(peers, batch)
        self.batches_sent += len(batches)
        self.changes_sent += len(batches) * len(batch)
        return batches
