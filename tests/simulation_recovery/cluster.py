"""The workers, links and driver of one life of a simulated job, moved by one event at a time."""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any, TypeAlias

from tests.kit.simulation.violation import TooLargeError, ViolationError
from tests.simulation.frontier_watch import FrontierWatch
from tests.simulation.links import Links
from tests.simulation.scenario import Scenario
from tests.simulation.truth import Truth
from tests.simulation.world import World as Shown
from tests.simulation_recovery.divided import WATCHED
from tests.simulation_recovery.driver import Driver, Script
from tests.simulation_recovery.feeders import SimulatedFeeders, feeder_maker
from tests.simulation_recovery.snapshots import WrittenSnapshots
from tests.simulation_recovery.witness import Had, Tokens, Unread, Witness
from tests.simulation_recovery.world import World
from tidewheel.batches.batches import records
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.input_position import Positions
from tidewheel.runtime.state.saved_worker import SavedWorker, beginning
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER

ToldEnds: TypeAlias = dict[str, Counter[Any]]
"""By operator, of how many ends of each key it was told."""

_MOST_ROUNDS = 3000
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


class Cluster:
    """One life.

    Args:
        scenario: how many workers there are, and how they tell each other of progress.
        plan: what they run.
        world: what operators see.
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
        scenario: Scenario,
        plan: Plan,
        world: World,
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
        self._links = Links()
        self._colours: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        workers = range(scenario.workers)
        self._slow = {
            link for link in product((DRIVER, *workers), workers) if random.random() < random.choice((0, 0.2, 0.6))
        }
        self._haste = random.choice((0.3, 0.55))
        number = snapshot.number if snapshot is not None else 0
        self.cores = [
            WorkerCore(
                plan,
                worker,
                scenario.workers,
                attachments[worker] if attachments else None,
                incarnation=life,
                progress=scenario.progress,
                hold_back=scenario.hold_back,
                bytes_in_flight=scenario.bytes_in_flight,
                beginning=None
                if snapshot is None
                else beginning(number, plan, snapshot.workers, worker, scenario.workers),
                is_tracked=True,
            )
            for worker in workers
        ]
        positions = None if snapshot is None else snapshot.positions
        others = self._post_from_feeder, scenario.workers, random, life
        self.driver = Driver(scripts, positions, number, *others)
        self.feeders = SimulatedFeeders(self.cores, self._links, feeder_maker(scripts, *others), random, number)
        self.driver.hand_over = self._hand_over
        self.snapshots = WrittenSnapshots(scenario.workers, life, random)
        self._now = [number] * scenario.workers
        self._had: dict[int, dict[int, Had]] = defaultdict(dict)
        self._late: dict[tuple[int, int], Unread] = defaultdict(Counter)
        self._witness = Witness(plan, tokens, scenario.workers)
        if snapshot is not None:
            self._witness.check(snapshot.had, self.cores, snapshot.positions)
        shown = Shown(scenario)
        shown.tokens = [tokens.of(core) for core in self.cores]
        self._truth = Truth(plan.graph(len(self.cores)), self.cores, shown)
        self._watch = FrontierWatch(plan, self.cores, self._truth)
        self._watch.check_start()

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
        waiting = self._links.waiting()
        if waiting and self._random.random() < self._haste:
            link = self._random.choice(waiting)
            if link not in self._slow or self._random.random() < 0.1:
                self._deliver(*link)
            return
        busy = [worker for worker, core in enumerate(self.cores) if not core.is_idle]
        if busy:
            self._step(self._random.choice(busy))

    def write(self) -> None:
        """Write a part that is complete."""
        failed = self.snapshots.write()
        if failed is not None:
            self.cores[failed].memory.write_all_next()

    def settle(self) -> None:
        """Deliver and step until there is nothing to deliver and no step to take."""
        for _ in range(_MOST_ROUNDS):
            for link in self._links.waiting():
                for _ in range(self._links.size(link)):
                    self._deliver(*link)
            self.feeders.hear_all()
            busy = [worker for worker, core in enumerate(self.cores) if not core.is_idle]
            for worker in busy:
                self._step(worker)
            released = [core.release() for core in self.cores if core.flow.is_held]
            if not busy and not self._links.waiting() and not any(released):
                return
        raise ViolationError("liveness", f"there is no end after {_MOST_ROUNDS} rounds")

    def _step(self, worker: int) -> None:
        core = self.cores[worker]
        for receiver, envelope in core.step():
            self._truth.sent(worker, receiver, envelope.messages)
            self._post(worker, receiver, core.memory.cut.number, envelope)
        self._truth.recount(worker)
        self._watch.check_moves(worker)
        if sum(len(port.queue) for port in core._ports.values()) > _MOST_MESSAGES:
            raise TooLargeError("too many messages wait at once")

    def _post(self, sender: int, receiver: int, colour: int, envelope: Envelope) -> None:
        self._colours[sender, receiver].append(colour)
        self._links.post(sender, receiver, envelope)

    def _post_from_feeder(self, worker: int, envelope: Envelope) -> None:
        self._post(envelope.sender, worker, envelope.snapshot, envelope)

    def _hand_over(self, *handle: Any) -> bool:
        """Give a handle to a feeder, or not."""
        is_given = self._random.random() < 0.7
        if is_given:
            self.feeders.hand_over(*handle)
        return is_given

    def _deliver(self, sender: int, receiver: int) -> None:
        envelope, core = self._links.take(sender, receiver), self.cores[receiver]
        assert envelope is not None
        colour, now = self._colours[sender, receiver].popleft(), self._now[receiver]
        newest = max([colour, *(early.snapshot for early in core._substreams._early)])
        had = self._witness.look(core, newest) if newest > now else None
        for number in range(colour + 1, now + 1):
            self._late[receiver, number] += self._witness.records(envelope.messages)
        core.receive(envelope)
        self._now[receiver] = core.memory.cut.number
        if had is not None and self._now[receiver] > now:
            # If one that was held back has begun the snapshot, the worker had received this one before.
            more = self._witness.records(envelope.messages) if colour < self._now[receiver] else Counter()
            self._had[receiver][self._now[receiver]] = replace(had, unread=had.unread + more)
        if sender >= 0:
            self._truth.delivered(sender, receiver)
        self.feeders.receive(receiver)
        self._watch.check_moves(receiver)
        self._check_awaited(receiver)
        while core.memory.parts:
            self.snapshots.take(core.memory.parts.popleft())

    def _check_awaited(self, worker: int) -> None:
        """Check that each feeder that a worker waits for has yet to begin the snapshot, or is about to be heard."""
        cut = self.cores[worker].memory.cut
        for feeder in self.feeders.present:
            is_in_it = feeder.number in cut._awaited and feeder.snapshot >= cut.number
            if is_in_it and not any(colour >= cut.number for colour in self._colours[feeder.number, worker]):
                what = f"waits for a feeder in snapshot {cut.number}, which has told it nothing of that"
                raise ViolationError("snapshot", f"worker {worker} {what}")

    # ------------------------------------------------------------------ what comes of it

    def restored(self, number: int) -> Restored:
        """Return a complete snapshot, read from its files."""
        had = []
        for worker in range(len(self.cores)):
            one = self._had[worker][number]
            had.append(Had(one.unread + self._late[worker, number], one.tokens, one.keyed))
        return Restored(
            number, self.snapshots.saved(number), self.snapshots.positions(number), had, self.snapshots.files(number)
        )

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
        left = list(self._truth.live())
        if left:
            raise ViolationError("liveness", f"at the end there is still {left}")
        self._watch.check_exact("liveness")
        for worker, core in enumerate(self.cores):
            if not core.is_complete:
                raise ViolationError("liveness", f"nothing is left, and worker {worker} does not know: {core.view()}")
            if core.memory.cut.settled < 0 or core.memory.cut.number != self.driver.snapshot:
                raise ViolationError("snapshot", f"worker {worker} has not taken its part of {self.driver.snapshot}")
