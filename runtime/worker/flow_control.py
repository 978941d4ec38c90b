"""Back-pressure at sources: whether the sources of a job may add to the bytes in flight.

Invariants:

- Every byte in flight counts at exactly one worker: at its sender, until an operator has received it.
- A worker above its limit tells all workers that it is congested, until it is down to half of the limit. While any
  worker is congested, no source on any worker sends.
- Only sources wait, so operators in a cycle cannot block each other.

Source: credit-based flow control (Kung, Blackwell, Chapman: Credit-based flow control for ATM networks, SIGCOMM 1994).
The rule that only sources wait is tidewheel's own, because of cycles.
"""

from tidewheel.runtime.messages.credit import UNTOLD_PARTS, Credit


class FlowControl:
    """One worker's account of bytes in flight."""

    def __init__(self, worker: int, workers: int, limit: int) -> None:
        self._worker = worker
        self._limit = limit
        self.load = 0
        self._congested = False
        self._congested_peers: set[int] = set()
        self._taken = [0] * workers
        self._told = [0] * workers
        self._acknowledged = [0] * workers
        self._due: set[int] = set()

    @property
    def is_held(self) -> bool:
        return self._congested or bool(self._congested_peers)

    def add(self, size: int) -> None:
        self.load += size
        if self.load > self._limit and not self._congested:
            self._turn(congested=True)

    def take(self, sender: int, size: int) -> None:
        if sender == self._worker:
            self._drop(size)
            return
        self._taken[sender] += size
        untold = self._taken[sender] - self._told[sender]
        if untold * UNTOLD_PARTS > self._limit or sender in self._congested_peers:
            self._due.add(sender)

    def receive(self, peer: int, credit: Credit) -> None:
        """Apply a report of a peer. The reports of each peer come in order."""
        self._drop(credit.taken - self._acknowledged[peer])
        self._acknowledged[peer] = credit.taken
        if not credit.congested:
            self._congested_peers.discard(peer)
        elif peer not in self._congested_peers:
            self._congested_peers.add(peer)
            if self._taken[peer] > self._told[peer]:
                self._due.add(peer)

    @property
    def is_due(self) -> bool:
        return bool(self._due)

    def drain(self) -> dict[int, Credit]:
        due, self._due = self._due, set()
        for peer in due:
            self._told[peer] = self._taken[peer]
        return {peer: Credit(self._taken[peer], self._congested) for peer in due}

    def _drop(self, size: int) -> None:
        self.load -= size
        if self._congested and 2 * self.load <= self._limit:
            self._turn(congested=False)

    def _turn(self, *, congested: bool) -> None:
        self._congested = congested
        self._due.update(peer for peer in range(len(self._taken)) if peer != self._worker)


class Intake:
    """The number of bytes that this worker's inputs have received, from each present feeder and in total."""

    def __init__(self) -> None:
        self.taken: dict[int, int] = {}
        self.total = 0

    def count(self, feeder: int, size: int) -> None:
        if size:
            self.taken[feeder] = self.taken.get(feeder, 0) + size
            self.total += size
