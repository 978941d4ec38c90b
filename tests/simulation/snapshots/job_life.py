"""One life of a simulated job that takes snapshots: workers, a driver and feeders, moved by one event at a time."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, TypeAlias

from tests.kit.simulation.violation import ViolationError
from tests.simulation.network import Network
from tests.simulation.scenario import LifeOptions
from tests.simulation.snapshots.divided import WATCHED
from tests.simulation.snapshots.driver import Driver, Script
from tests.simulation.snapshots.feeders import SimulatedFeeders, feeder_maker
from tests.simulation.snapshots.snapshot_watch import SnapshotWatch
from tests.simulation.snapshots.snapshots import WrittenSnapshots
from tests.simulation.snapshots.witness import Had, Tokens, Witness
from tests.simulation.snapshots.world import World
from tests.simulation.workers.cluster import Cluster, make_cores
from tests.simulation.workers.observer import Observer
from tests.simulation.workers.watch import Watch
from tidewheel.batches.batches import records
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.input_position import Positions
from tidewheel.runtime.state.saved_worker import SavedWorker, beginning
from tidewheel.transport.socket_address import DRIVER

ToldEnds: TypeAlias = dict[str, Counter[Any]]
"""By operator, of how many ends of each key it was told."""

_MOST_MESSAGES = 2500


@dataclass(frozen=True, slots=True)
class Restored:
    """A complete snapshot.

    Attributes:
        number: that of the snapshot.
        workers: what each has saved.
        positions: where the driver goes on.
        had: what each worker really had.
        files: how many files it needs.
    """

    number: int
    workers: Sequence[SavedWorker]
    positions: Positions
    had: Sequence[Had]
    files: int


class JobLife(Watch):
    """One life: workers, a driver, feeders, and the snapshots that are written.

    Args:
        options: how many workers there are, and how they tell each other of progress.
        plan: what they run.
        world: what operators see.
        network: carries the envelopes; those of the life before are lost.
        scripts: what the driver does.
        random: the choices.
        tokens: watches the tokens.
        snapshot: what it begins with; None for nothing.
        life: the number of this life.
        attachments: what each worker has of those of the dataflow; nothing if it has none.

    Raises:
        ViolationError: as every method does when a promise is broken.
    """

    def __init__(
        self,
        options: LifeOptions,
        plan: Plan,
        world: World,
        network: Network,
        scripts: Mapping[str, Script],
        random: Random,
        tokens: Tokens,
        snapshot: Restored | None,
        life: int,
        attachments: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        tokens.forget()
        world.begin()
        self._random = random
        self._world = world
        self._network = network
        network.lose_envelopes()
        workers = range(options.workers)
        slow = {link for link in product((DRIVER, *workers), workers) if random.random() < random.choice((0, 0.2, 0.6))}
        haste = random.choice((0.3, 0.55))
        number, positions = (0, None) if snapshot is None else (snapshot.number, snapshot.positions)

        def more(worker: int) -> dict[str, Any]:
            saved = None if snapshot is None else snapshot.workers
            return {
                "attachments": attachments[worker] if attachments else None,
                "incarnation": life,
                "beginning": None if saved is None else beginning(number, plan, saved, worker, options.workers),
                "is_tracked": True,
            }

        self.cores = make_cores(options, plan, more)
        others = self._post, options.workers, random, life
        self.driver = Driver(scripts, positions, number, *others)
        self.feeders = SimulatedFeeders(self.cores, self._network, feeder_maker(scripts, *others), random, number)
        self.driver.hand_over = self._hand_over
        self.snapshots = WrittenSnapshots(options.workers, life, random)
        witness = Witness(plan, tokens, options.workers)
        if snapshot is not None:
            witness.check(snapshot.had, self.cores, snapshot.positions)
        self._observer = Observer(options, plan, self.cores, [tokens.of(core) for core in self.cores], books=False)
        self._watch = SnapshotWatch(self.cores, self.feeders, witness, number)
        self._cluster = Cluster(self._network, self.cores, _MOST_MESSAGES)
        self._cluster.slow, self._cluster.haste = slow, haste
        self._cluster.watches = [self._observer, self._watch, self]

    # ------------------------------------------------------------------ events

    @property
    def is_taking(self) -> bool:
        """Whether some worker has not taken its part of the last snapshot."""
        return any(core.memory.cut.settled < 0 or core.memory.cut.number < self.driver.snapshot for core in self.cores)

    def act(self) -> None:
        """Have the driver or a feeder do something."""
        if self.feeders.present and self._random.random() < 0.7:
            self.feeders.act()
        else:
            self.driver.act()

    @property
    def is_fed(self) -> bool:
        """Whether all that is to be sent was sent."""
        return self.driver.is_done and self.feeders.is_done

    def move(self) -> None:
        """Deliver something, or let a worker take a step."""
        self._cluster.move(self._random)

    def write(self) -> None:
        """Write a part that is complete."""
        failed = self.snapshots.write()
        if failed is not None:
            self.cores[failed].memory.write_all_next()

    def settle(self) -> None:
        """Deliver and step until there is nothing to deliver and no step to take."""
        self._cluster.settle(self.feeders.hear_all)

    def arrived(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Receive what a worker has to say to feeders, and the parts that it has taken."""
        self.feeders.receive(receiver)
        self._watch.check_awaited(receiver)
        parts = self.cores[receiver].memory.parts
        while parts:
            self.snapshots.take(parts.popleft())

    def _post(self, worker: int, envelope: Envelope) -> None:
        """Put an envelope of the driver or of a feeder on its way."""
        self._watch.fed(worker, envelope)
        self._network.post(envelope.sender, worker, envelope)

    def _hand_over(self, *handle: Any) -> bool:
        """Give a handle to a feeder, or not."""
        is_given = self._random.random() < 0.7
        if is_given:
            self.feeders.hand_over(*handle)
        return is_given

    # ------------------------------------------------------------------ what comes of it

    def restored(self, number: int) -> Restored:
        """Return a complete snapshot, read from its files."""
        saved, positions = self.snapshots.saved(number), self.snapshots.positions(number)
        return Restored(number, saved, positions, self._watch.had(number), self.snapshots.files(number))

    def captured(self, names: Sequence[str]) -> dict[str, dict[Time, Counter[str]]]:
        """Return how often each record has come, by name of the capture and time."""
        found: dict[str, dict[Time, Counter[str]]] = {name: defaultdict(Counter) for name in names}
        for core in self.cores:
            for name in names:
                for time, batch in core.captured(name):
                    found[name][time].update(map(repr, records(batch)))
        return found

    def told_ends(self) -> ToldEnds:
        """Return of which ends operators were told, on each worker, in the same order."""
        found: dict[str, list[Any]] = {}
        for core in self.cores:
            for instance in core._instances:
                told = instance.kept.states.get(WATCHED)
                if told is not None and found.setdefault(instance.name, told) != told:
                    what = f"{instance.name} was told of {told} on worker {core.worker}, and on worker 0 of"
                    raise ViolationError("ends", f"{what} {found[instance.name]}")
        return {name: Counter(told) for name, told in found.items()}

    def check_ends(self, expected: ToldEnds) -> None:
        """Check that operators were told of the ends that there were, and once."""
        found = self.told_ends()
        if found != expected:
            raise ViolationError("ends", f"operators were told of {found}, and without a crash of {expected}")

    def check_end(self) -> None:
        """Check that nothing is left, that every worker knows, and that the last snapshot was taken."""
        self._observer.check_end()
        for worker, core in enumerate(self.cores):
            if core.memory.cut.settled < 0 or core.memory.cut.number != self.driver.snapshot:
                raise ViolationError("snapshot", f"worker {worker} has not taken its part of {self.driver.snapshot}")
