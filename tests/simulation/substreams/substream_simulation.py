"""A simulated cluster whose workers run a dataflow with substreams, while envelopes take as long as chance wants."""

from collections import defaultdict
from itertools import count, product

from tests.kit.simulation.violation import ViolationError
from tests.simulation.scenario import Scenario
from tests.simulation.substreams.feeder import Feeder
from tests.simulation.substreams.random_dataflow import RandomDataflow
from tests.simulation.substreams.world import World
from tests.simulation.workers.cluster import Cluster, make_cores
from tests.simulation.workers.flow_watch import FlowWatch
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.errors import JobError

_MISUSED_EVERY = 10


class SubstreamSimulation:
    """One simulation.

    Attributes:
        world: what has really happened.
        was_refused: whether a record was refused that had to be.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._life = life = scenario.lives[0]
        self.world = World(scenario)
        self.was_refused = False
        self._random = scenario.random("substreams")
        pairs = product(range(life.workers), range(life.workers))
        slow = [pair for pair in pairs if self._random.random() < 0.3] if self._random.random() < 0.6 else []
        made = RandomDataflow(self._random, self.world)
        self.plan = description_of(made.flow).plan()
        self.cores = make_cores(life, self.plan)
        self.world.begin(self.plan, self.cores, made.watchers)
        self._cluster = Cluster(self.world.network, self.cores)
        self._cluster.slow = slow
        self._flow = FlowWatch(self.cores, self.world.network)
        self._cluster.watches = [self._flow]
        sequences: dict[tuple[int, int], count[int]] = defaultdict(count)
        self._feeders = [
            Feeder(self.world, number, lambda sender, worker: next(sequences[sender, worker]))
            for number in range(len(self.plan.inputs))
        ]

    def run(self) -> "SubstreamSimulation":
        """Let random things happen, and then the end; raise ViolationError where a promise is broken."""
        for _ in range(self._life.events):
            self._act()
        if self.scenario.seed % _MISUSED_EVERY == 0 and any(feeder.misuse() for feeder in self._feeders):
            self._expect_refusal()
            return self
        for feeder in self._feeders:
            feeder.close()
        self._move_on()
        self._drain()
        self.world.check_end()
        self._flow.check_end()
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
        for _ in range(25 * self._life.workers):
            self._move()

    def _move(self) -> None:
        """Deliver something, let a worker take a step, or have an operator scheduled."""
        if self.world.wakers and self._random.random() < 0.1:
            self._random.choice(self.world.wakers)()
        else:
            self._cluster.move(self._random)

    def _drain(self) -> None:
        """Have operators give up all they hold, and bring everything to its end."""
        self.world.draining = True
        for wake in self.world.wakers:
            wake()
        for _ in range(2):
            self._move_on()
        self._cluster.settle()

    def _expect_refusal(self) -> None:
        try:
            self._drain()
        except JobError as error:
            if "has ended at time" not in str(error):
                raise
            self.was_refused = True
            return
        raise ViolationError("refused", "a record of a substream that has ended was let in at the same time")
