"""The exchange of progress: the two ways in which workers tell each other what happened to their pointstamps.

Invariants of both:

- A batch is indivisible: all that one scheduling step of a worker did, or several whole steps, in one message, applied
  at once.
- It never reports an action not yet performed, and reaches each receiver in the order in which it was sent.
- An empty batch is not sent, and what cannot move a frontier waits; see `HeldBatch`.

Source: seed "Progress Tracking", section "Maintaining Capabilities"; Abadi et al., "Formal analysis of a distributed
algorithm for tracking progress", FORTE 2013.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from tidewheel.progress.change_batch import Change, ChangeBatch, HeldBatch, NetBatch, ProgressBatch
from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

SpreadName: TypeAlias = Literal["broadcast", "accumulated"]
"""``"broadcast"``: each worker tells each. ``"accumulated"``: all tell one, which tells all what comes of it."""

ACCUMULATOR = 0
"""The worker that adds up in the accumulated protocol."""

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

    def together(self, together: Sequence[int]) -> "Knowledge":
        """Return the same with all workers' counts at an input added up; see `CompiledGraph.together`."""
        if together[-1] == len(together) - 1:  # the last location is one of these, if there are any
            return self

        def added(changes: Iterable[Change]) -> ChangeBatch[tuple[int, Time]]:
            return ChangeBatch(((together[location], time), change) for (location, time), change in changes)

        recent = tuple(list(added(batch)) for batch in self.recent)
        return replace(self, counts=dict(added(self.counts.items())), unsent=list(added(self.unsent)), recent=recent)

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
    """One worker's end of a progress protocol: it collects its own changes, and applies those of all to its view.

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
        """Apply a peer's batch; return the locations whose frontier it moved in this view."""
        self._received[sender] += 1
        moved = self._tracker.update(batch)
        self._held.frontiers_moved(moved)
        return moved

    @property
    def is_due(self) -> bool:
        """Whether there is something to send, so that a step must end though nothing happened in it."""
        return self._held.is_due

    def unsent(self) -> ProgressBatch:
        """Return what waits to be sent."""
        return list(self._held)

    def knowledge(self) -> Knowledge:
        """Return what this worker knows and has told, by which several workers' knowledge can be put together."""
        return Knowledge(
            dict(self._tracker.counts()),
            self.unsent(),
            self._batches,
            tuple(self._recent),
            dict(self._received),
            hears_all=True,
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


class Broadcast(Spread):
    """One worker's end of the broadcast protocol: each worker tells every worker what happened to its pointstamps.

    Its own changes are in its view at once, before the peers have them.
    """

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


class Accumulated(Spread):
    """One worker's end of the accumulated protocol: workers tell one of them, which tells all the net changes.

    An epoch that all workers pass costs one message from each worker and one to each, where the broadcast costs one
    from each to each. The price is one more trip: a worker's own changes, too, count in its view only when they come
    back. Every view is the same sum of whole batches, taken at some moment. So it is one that the broadcast could have
    shown.

    Source: Murray et al., "Naiad: a timely dataflow system", SOSP 2013, section 3.3 (accumulation of progress updates).
    """

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

    def receive(self, sender: int, batch: ProgressBatch) -> set[int]:
        """Add a worker's report to what is to be told, or apply what the accumulator tells."""
        if self._worker != ACCUMULATOR:
            return super().receive(sender, batch)
        self._received[sender] += 1
        self._held.add(batch)
        return set()

    def knowledge(self) -> Knowledge:
        """Return what this worker knows; the accumulator counts what it has heard and not told, too."""
        counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(self._tracker.counts())
        counts.extend(self._held)
        return replace(super().knowledge(), counts=dict(counts), hears_all=self._worker == ACCUMULATOR)
