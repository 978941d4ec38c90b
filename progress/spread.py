"""The exchange of progress: the ways in which workers tell each other what happened to their pointstamps.

Invariants of every way to do so:

- A batch is indivisible: all that one scheduling step of a worker did, or several whole steps, in one message, applied
  at once.
- It never reports an action not yet performed, and reaches each receiver in the order in which it was sent.
- An empty batch is not sent, and what cannot move a frontier waits; see `HeldBatch`.

Source: seed "Progress Tracking", section "Maintaining Capabilities"; Abadi et al., "Formal analysis of a distributed
algorithm for tracking progress", FORTE 2013.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.progress.held_batch import Change, HeldBatch, ProgressBatch
from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

SpreadName: TypeAlias = Literal["broadcast", "accumulated"]
"""``"broadcast"``: each worker tells each. ``"accumulated"``: all tell one, which tells all what comes of it."""

_MOST_RECENT = 256
"""So many batches are remembered; more are hardly ever under way at once."""


class Committed(NamedTuple):
    """What the end of a step brings about.

    ``batches`` has the batch for each peer that gets one; ``moved`` the locations whose frontier moved in this view.
    """

    batches: Mapping[int, ProgressBatch]
    moved: set[int]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What one worker knows of all pointstamps at one moment, and what it has told of its own.

    Attributes:
        counts: the counts of all pointstamps, what this worker has not sent included.
        unsent: what it has not sent.
        sent: how many batches it has sent (to several peers counts once), and ``recent`` the latest of them.
        received: how many batches it has received, by sender.
        hears_all: whether every peer sends its own batches to this worker.
    """

    counts: Mapping[tuple[int, Time], int]
    unsent: ProgressBatch
    sent: int
    recent: tuple[ProgressBatch, ...]
    received: Mapping[int, int]
    hears_all: bool

    def with_peer(self, peer: int, other: "Knowledge") -> ProgressBatch:
        """Return what ``peer`` has done that is not in ``counts``: what is under way from it, and what it has not sent.

        Both may speak of different moments: what this worker has heard since ``peer`` spoke is not counted twice.
        """
        under_way = other.sent - self.received.get(peer, 0) if self.hears_all else 0
        if under_way < 0:
            return []
        batches = [*(other.recent[-under_way:] if under_way else ()), other.unsent]
        return [change for batch in batches for change in batch]


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
        self._received: Counter[int] = Counter()
        self._recent: deque[ProgressBatch] = deque(maxlen=_MOST_RECENT)
        self._batches = 0
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

    def receive(self, sender: int, batch: ProgressBatch) -> set[int]:
        """Take a peer's batch; return the locations whose frontier it moved in this view."""
        self._received[sender] += 1
        return self._apply(batch)

    @abstractmethod
    def _apply(self, batch: ProgressBatch) -> set[int]:
        """Take a peer's batch, as `receive` does."""

    @property
    def is_due(self) -> bool:
        """Whether there is something to send, so that a step must end though nothing happened in it."""
        return self._held.is_due

    def unsent(self) -> ProgressBatch:
        """Return what waits to be sent."""
        return list(self._held)

    @property
    def hears_all(self) -> bool:
        """Whether every peer sends its own batches to this worker."""
        return True

    def knowledge(self) -> Knowledge:
        """Return what this worker knows and has told, by which several workers' knowledge can be put together."""
        return Knowledge(
            dict(self._tracker.counts()),
            self.unsent(),
            self._batches,
            tuple(self._recent),
            dict(self._received),
            self.hears_all,
        )

    def _send(self, peers: Iterable[int]) -> Mapping[int, ProgressBatch]:
        """Return what is held as the batch for each of ``peers``."""
        batch = self._held.drain()
        batches = dict.fromkeys(peers, batch)
        self._batches += 1
        self._recent.append(batch)
        self.batches_sent += len(batches)
        self.changes_sent += len(batches) * len(batch)
        return batches
