"""The watch over snapshots: what each worker really had when it began one, whatever its part says."""

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from tests.kit.simulation.violation import ViolationError
from tests.simulation.snapshots.feeders import SimulatedFeeders
from tests.simulation.snapshots.witness import Had, Unread, Witness
from tests.simulation.workers.watch import Sent, Watch
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.worker.worker_core import WorkerCore


class SnapshotWatch(Watch):
    """Notes of each envelope in which snapshot it was sent, and looks at a worker as it begins one.

    Args:
        cores: the workers.
        feeders: those for which workers may wait.
        witness: looks at a worker.
        snapshot: the number of the snapshot in which the life begins.
    """

    def __init__(self, cores: Sequence[WorkerCore], feeders: SimulatedFeeders, witness: Witness, snapshot: int) -> None:
        self._cores = cores
        self._feeders = feeders
        self._witness = witness
        self._colours: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self._now = [snapshot] * len(cores)
        self._had: dict[int, dict[int, Had]] = defaultdict(dict)
        self._late: dict[tuple[int, int], Unread] = defaultdict(Counter)
        self._seen: Had | None = None

    def stepped(self, worker: int, sent: Sent) -> None:
        """Note the snapshot that a worker is in as it sends."""
        for receiver, _ in sent:
            self._colours[worker, receiver].append(self._cores[worker].memory.cut.number)

    def fed(self, worker: int, envelope: Envelope) -> None:
        """Note the snapshot that a feeder is in as it sends."""
        self._colours[envelope.sender, worker].append(envelope.snapshot)

    def arriving(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Look at a worker that may begin a snapshot now, and note what comes late for one that it is in."""
        core, colour, now = self._cores[receiver], self._colours[sender, receiver][0], self._now[receiver]
        newest = max([colour, *(early.snapshot for early in core._substreams._early)])
        self._seen = self._witness.look(core, newest) if newest > now else None
        for number in range(colour + 1, now + 1):
            self._late[receiver, number] += self._witness.records(envelope.messages)

    def arrived(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Keep what the worker had if it has begun a snapshot."""
        colour, before = self._colours[sender, receiver].popleft(), self._now[receiver]
        now = self._now[receiver] = self._cores[receiver].memory.cut.number
        if self._seen is not None and now > before:
            # If one that was held back has begun the snapshot, the worker had received this one before.
            more = self._witness.records(envelope.messages) if colour < now else Counter()
            self._had[receiver][now] = replace(self._seen, unread=self._seen.unread + more)

    def check_awaited(self, worker: int) -> None:
        """Check that each feeder that a worker waits for has yet to begin the snapshot, or is about to be heard."""
        cut = self._cores[worker].memory.cut
        for feeder in self._feeders.present:
            is_in_it = feeder.number in cut._awaited and feeder.snapshot >= cut.number
            if is_in_it and not any(colour >= cut.number for colour in self._colours[feeder.number, worker]):
                what = f"waits for a feeder in snapshot {cut.number}, which has told it nothing of that"
                raise ViolationError("snapshot", f"worker {worker} {what}")

    def had(self, number: int) -> list[Had]:
        """Return what each worker had when it began a snapshot, and what came late for it."""
        found = []
        for worker in range(len(self._cores)):
            one = self._had[worker][number]
            found.append(Had(one.unread + self._late[worker, number], one.tokens, one.keyed))
        return found
