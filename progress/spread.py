"""The exchange of progress: two protocols by which workers tell each other the changes of their pointstamps.

Invariants of both:

- A batch is indivisible: one message has all changes of one or more whole steps of a worker, and the receiver applies
  them at once.
- A batch reports only actions that have happened. A receiver gets batches in the order of sending.
- A worker sends no empty batch, and holds back changes that cannot move a frontier; see `HeldBatch`.

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
"""``"broadcast"``: each worker sends its changes to all.

``"accumulated"``: all send to one worker, which sends the sums.
"""

ACCUMULATOR = 0
"""The worker that adds up the changes in the accumulated protocol."""

_MOST_RECENT = 256
"""The number of a worker's last batches that its `Knowledge` contains. More are hardly ever in flight at once."""


class Committed(NamedTuple):
    """The effects of the end of a step.

    ``batches`` has the batch to send to each peer, ``moved`` the locations whose frontier has moved in this view.
    """

    batches: Mapping[int, ProgressBatch]
    moved: set[int]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The counts of all pointstamps as one worker knows them at one moment, and the changes that it has sent.

    Attributes:
        counts: the counts of all pointstamps, unsent changes included.
        sent: the number of batches sent; a batch to several peers counts once.
        received: the number of batches received, by sender.
        hears_all: whether every peer sends its batches to this worker.
        recent: the latest batches sent.
    """

    counts: Mapping[tuple[int, Time], int]
    unsent: ProgressBatch
    sent: int
    recent: tuple[ProgressBatch, ...]
    received: Mapping[int, int]
    hears_all: bool

    def together(self, together: Sequence[int]) -> "Knowledge":
        """Return this knowledge with the separate counts of workers added up; see `CompiledGraph.together`."""
        if together[-1] == len(together) - 1:  # no locations are added up: the last one would be
            return self

        def added(changes: Iterable[Change]) -> ChangeBatch[tuple[int, Time]]:
            return ChangeBatch(((together[location], time), change) for (location, time), change in changes)

        recent = tuple(list(added(batch)) for batch in self.recent)
        return replace(self, counts=dict(added(self.counts.items())), unsent=list(added(self.unsent)), recent=recent)

    def with_peer(self, peer: int, other: "Knowledge") -> ProgressBatch:
        """Return the changes by ``peer`` that ``counts`` lacks: those in flight, and those not yet sent.

        ``other`` is the peer's knowledge at an earlier moment. Batches that this worker has received since are left
        out.
        """
        under_way = other.sent - self.received.get(peer, 0) if self.hears_all else 0
        if under_way < 0:
            return []
        batches = [*(other.recent[-under_way:] if under_way else ()), other.unsent]
        return [change for batch in batches for change in batch]


class Spread(ABC):
    """One worker's part of a progress protocol: sends its changes, and applies those of all workers to its view."""

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
        """Add changes by this worker in the current step."""
        self._step.extend(changes)

    def record_one(self, location: int, time: Time, difference: int) -> None:
        """Add one change by this worker in the current step."""
        self._step.update((location, time), difference)

    @abstractmethod
    def commit(self) -> Committed:
        """End the step; return the batches to send and the moved frontiers."""

    def receive(self, sender: int, batch: ProgressBatch) -> set[int]:
        """Apply a peer's batch; return the locations whose frontier moved in this view."""
        self._received[sender] += 1
        moved = self._tracker.update(batch)
        self._held.frontiers_moved(moved)
        return moved

    @property
    def is_due(self) -> bool:
        """True if the worker must end a step now, even without other work, to send changes."""
        return self._held.is_due

    def unsent(self) -> ProgressBatch:
        """Return the unsent changes."""
        return list(self._held)

    def knowledge(self) -> Knowledge:
        """Return all counts as this worker knows them, and the changes that it has sent."""
        return Knowledge(
            dict(self._tracker.counts()),
            self.unsent(),
            self._batches,
            tuple(self._recent),
            dict(self._received),
            hears_all=True,
        )

    def _send(self, peers: Iterable[int]) -> Mapping[int, ProgressBatch]:
        batch = self._held.drain()
        batches = dict.fromkeys(peers, batch)
        self._batches += 1
        self._recent.append(batch)
        self.batches_sent += len(batches)
        self.changes_sent += len(batches) * len(batch)
        return batches


class Broadcast(Spread):
    """The broadcast protocol: each worker sends its changes to every other worker.

    It applies them to its own view at once, before the peers receive them.
    """

    def __init__(self, tracker: Tracker, worker: int = 0, workers: int = 1, *, hold_back: bool = True) -> None:
        super().__init__(tracker, worker, workers, HeldBatch(tracker, hold_back=hold_back))

    def commit(self) -> Committed:
        """End the step; the batch for the peers includes changes held from earlier steps."""
        step = self._step.drain()
        moved = self._tracker.update(step) if step else set()
        if not self._peers:
            return Committed({}, moved)
        self._held.add(step)
        self._held.frontiers_moved(moved)
        return Committed(self._send(self._peers) if self._held.is_due else {}, moved)


class Accumulated(Spread):
    """The accumulated protocol: one worker, the accumulator, receives all changes and sends the net changes to all.

    When all workers pass an epoch, each sends and receives one message; with broadcast, each sends one to every other
    worker. A worker sees its own changes one round trip later, when they come back. Every view is a sum of whole
    batches, and could occur with broadcast too.

    Source: Murray et al., "Naiad: a timely dataflow system", SOSP 2013, section 3.3 (accumulation of progress updates).
    """

    def __init__(self, tracker: Tracker, worker: int, workers: int, *, hold_back: bool = True) -> None:
        held = NetBatch if worker == ACCUMULATOR else HeldBatch
        super().__init__(tracker, worker, workers, held(tracker, hold_back=hold_back))

    def commit(self) -> Committed:
        """End the step: report to the accumulator; the accumulator sends the net changes to all peers."""
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
        """On the accumulator, add a worker's report; on other workers, apply the net changes."""
        if self._worker != ACCUMULATOR:
            return super().receive(sender, batch)
        self._received[sender] += 1
        self._held.add(batch)
        return set()

    def knowledge(self) -> Knowledge:
        """Return this worker's knowledge; the accumulator includes changes that it has received and not yet sent."""
        counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(self._tracker.counts())
        counts.extend(self._held)
        return replace(super().knowledge(), counts=dict(counts), hears_all=self._worker == ACCUMULATOR)
