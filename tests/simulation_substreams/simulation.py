"""A simulated cluster whose workers run a dataflow with substreams, while envelopes take as long as chance wants."""

from collections import defaultdict
from itertools import count, product

from tests.kit.simulation.violation import ViolationError
from tests.simulation.scenario import Scenario
from tests.simulation_substreams.feeder import Feeder
from tests.simulation_substreams.random_dataflow import RandomDataflow
from tests.simulation_substreams.world import World
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.worker.worker_core import WorkerCore

_MOST_ROUNDS = 2000
_MISUSED_EVERY = 10


class Simulation:
    """One simulation.

    Attributes:
        world: what has really happened.
        was_refused: whether a record was refused that had to be.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World(scenario)
        self.was_refused = False
        self._random = scenario.random("substreams")
        pairs = product(range(scenario.workers), repeat=2)
        self._slow = {pair for pair in pairs if self._random.random() < 0.3} if self._random.random() < 0.6 else set()
        made = RandomDataflow(self._random, self.world)
        self.plan = description_of(made.flow).plan()
        self.cores = [
            WorkerCore(
                self.plan,
                worker,
                scenario.workers,
                progress=scenario.progress,
                hold_back=scenario.hold_back,
                bytes_in_flight=scenario.bytes_in_flight,
            )
            for worker in range(scenario.workers)
        ]
        self.world.begin(self.plan, self.cores, made.watchers)
        sequences: dict[tuple[int, int], count[int]] = defaultdict(count)
        self._feeders = [
            Feeder(self.world, number, lambda sender, worker: next(sequences[sender, worker]))
            for number in range(len(self.plan.inputs))
        ]

    def run(self) -> "Simulation":
        """Let random things happen, and then the end; raise ViolationError where a promise is broken."""
        for _ in range(self.scenario.events):
            self._act()
        if self.scenario.seed % _MISUSED_EVERY == 0 and any(feeder.misuse() for feeder in self._feeders):
            self._expect_refusal()
            return self
        for feeder in self._feeders:
            feeder.close()
        self._move_on()
        self._drain()
        self.world.check_end()
        return self

    def _act(self) -> None:
        chance = self._random.random()
        if chance < 0.3:
            self._random.choice(self._feeders).act()
        elif chance < 0.32:
            self._move_on()
        else:
            self._move()

    def _move_on(self) -> None:
        """Feed nothing for a while."""
        for _ in range(25 * self.scenario.workers):
            self._move()

    def _move(self) -> None:
        """Deliver something, let a worker take a step, or have an operator scheduled."""
        waiting = self.world.links.waiting()
        chance = self._random.random()
        if chance < 0.5 and waiting:
            link = self._random.choice(waiting)
            if link not in self._slow or self._random.random() < 0.1:
                self._deliver(*link)
        elif chance < 0.9:
            busy = [worker for worker, core in enumerate(self.cores) if not core.is_idle]
            if busy:
                self._step(self._random.choice(busy))
        elif self.world.wakers:
            self._random.choice(self.world.wakers)()

    def _drain(self) -> None:
        """Have operators give up all they hold, and bring everything to its end."""
        self.world.draining = True
        for wake in self.world.wakers:
            wake()
        for _ in range(2):
            self._move_on()
        self._settle()

    def _deliver(self, sender: int, receiver: int) -> None:
        envelope = self.world.links.take(sender, receiver)
        assert envelope is not None
        self.cores[receiver].receive(envelope)

    def _step(self, worker: int) -> None:
        for receiver, envelope in self.cores[worker].step():
            self.world.links.post(worker, receiver, envelope)

    def _settle(self) -> None:
        """Deliver and step until there is nothing to deliver and no step to take."""
        for _ in range(_MOST_ROUNDS):
            for link in self.world.links.waiting():
                for _ in range(self.world.links.size(link)):
                    self._deliver(*link)
            busy = [worker for worker, core in enumerate(self.cores) if not core.is_idle]
            for worker in busy:
                self._step(worker)
            released = [core.release() for core in self.cores if core.flow.is_held]
            if not busy and not self.world.links.waiting() and not any(released):
                return
        raise ViolationError("liveness", f"there is no end after {_MOST_ROUNDS} rounds")

    def _expect_refusal(self) -> None:
        try:
            self._drain()
        except JobError as error:
            if "has ended at time" not in str(error):
                raise
            self.was_refused = True
            return
        raise ViolationError("refused", "a record of a substream that has ended was let in at the same time")
