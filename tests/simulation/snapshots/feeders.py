"""The feeders of a simulated job: processes to which the driver hands handles; each comes, hears, sends and leaves."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tests.simulation.network import Network
from tests.simulation.snapshots.driver import Driver, Post, Script
from tidewheel.progress import Time
from tidewheel.runtime.inputs.feeders import Feeders
from tidewheel.runtime.messages.feeder_status import FeederName, FeederStatus
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

_MOST_HANDLES = 100
"""More than an input has; a script numbers its own from 0, and a claim names a handle among those of all inputs."""


class Feeder(Driver):
    """One process with handles that were handed to it.

    Args:
        number: by which envelopes name it.
        snapshot: the number of the snapshot that the driver was in when it handed the first handle over.
        others: as for `Driver`, from ``post`` on.
    """

    def __init__(self, number: int, scripts: Mapping[str, Script], snapshot: int, *others: Any) -> None:
        super().__init__(scripts, {}, snapshot, *others)
        self.number = number
        self.unclaimed: list[int] = []
        self.is_member = False
        self.leaves = False
        for worker in range(self._workers):
            self._send(worker, status=FeederStatus(None))

    def take(self, name: str, handle: int, time: Time, snapshot: int) -> None:
        """Receive a handle that was handed over in a snapshot."""
        self.hear(snapshot)
        self.handles.setdefault(name, {})[handle] = InputPosition(time)
        self.unclaimed.append(list(self._scripts).index(name) * _MOST_HANDLES + handle)

    def hear(self, snapshot: int) -> None:
        """Hear that a snapshot has begun."""
        if snapshot > self.snapshot and not self.leaves:
            if self.is_member:
                self.begin_snapshot(snapshot)
            else:
                self.snapshot = snapshot

    def claim(self, known: Feeders) -> None:
        """Claim a handle at worker 0."""
        claim = known.claim(self.unclaimed.pop(), FeederName(self.number, "a feeder"))
        assert not claim.owner, "nobody else has it"
        if not self.is_member:
            self.is_member = True
            if self.snapshot > claim.snapshot:
                self.begin_snapshot(self.snapshot)
            self.snapshot = max(self.snapshot, claim.snapshot)

    def leave(self, workers: Sequence[int]) -> None:
        """Tell workers that nothing more comes."""
        self.leaves = True
        for worker in workers:
            self._send(worker, status=FeederStatus(None, is_leaving=True))


class SimulatedFeeders:
    """All feeders of one life.

    Args:
        cores: the workers; the first knows the feeders.
        network: what is on its way.
        make: makes a feeder, given its number and the snapshot in which it begins.
        random: the choices.
        snapshot: the number of the snapshot in which the life begins.
    """

    def __init__(
        self,
        cores: Sequence[WorkerCore],
        network: Network,
        make: Callable[[int, int], Feeder],
        random: Random,
        snapshot: int,
    ) -> None:
        self._cores = cores
        self._network = network
        self._make = make
        self._random = random
        self._known = Feeders(1e9, lambda: 0.0, snapshot=snapshot)
        self._count = 0
        self.present: list[Feeder] = []
        cores[0].memory.feeders_in = self._known.begin_snapshot

    def hand_over(self, name: str, handle: int, time: Time, snapshot: int) -> None:
        """Hand a handle to a new feeder, or to one that is there."""
        there = [feeder for feeder in self.present if not feeder.leaves and not feeder.is_done]
        if there and self._random.random() < 0.3:
            self._random.choice(there).take(name, handle, time, snapshot)
            return
        self._count += 1
        feeder = self._make(DRIVER - self._count, snapshot)
        feeder.take(name, handle, time, snapshot)
        self.present.append(feeder)

    @property
    def is_done(self) -> bool:
        """Whether all have sent what they had to send, and have left."""
        return not self.present

    def act(self) -> None:
        """Have one of them claim a handle, hear of a snapshot, do what its script says, or leave."""
        if not self.present:
            return
        feeder = self._random.choice(self.present)
        if feeder.unclaimed:
            feeder.claim(self._known)
        elif self._random.random() < 0.3:
            feeder.hear(self._random.choice(self._cores).memory.cut.number)
        elif not feeder.is_done:
            feeder.act()
        else:
            self._leave(feeder)

    def hear_all(self) -> None:
        """Have all hear of the last snapshot, and leave if they are done."""
        for feeder in list(self.present):
            feeder.hear(max(core.memory.cut.number for core in self._cores))
            if feeder.is_done and not feeder.unclaimed:
                self._leave(feeder)

    def _leave(self, feeder: Feeder) -> None:
        """Leave all workers but the first, and that when the others have all that was sent."""
        if not feeder.leaves and len(self._cores) > 1:
            feeder.leave(range(1, len(self._cores)))
        elif not any(self._network.size((feeder.number, worker)) for worker in range(1, len(self._cores))):
            feeder.leave([0])
            self.present.remove(feeder)

    def receive(self, worker: int) -> None:
        """Receive the statuses that have come to a worker."""
        core = self._cores[worker]
        while core.feeder_statuses:
            number, status = core.feeder_statuses.popleft()
            if worker == 0:
                self._known.hear(number, status)
            if status.is_leaving:
                core.forget(number)


def feeder_maker(
    scripts: Mapping[str, Script], post: Post, workers: int, random: Random, life: int
) -> Callable[[int, int], Feeder]:
    """Return what makes a feeder, given its number and the snapshot in which it begins."""
    return lambda number, snapshot: Feeder(number, scripts, snapshot, post, workers, random, life)
