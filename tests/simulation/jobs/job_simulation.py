"""One run: a job that crashes and begins again, publishers, relays and readers. In the end all have everything."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations

from tests.kit.simulation.violation import ViolationError
from tests.simulation.delivery.world import HOUR_S, LOOK_S
from tests.simulation.jobs.job import PublishingJob
from tests.simulation.jobs.publisher import on_simulated_disks
from tests.simulation.jobs.store import Place, Store
from tests.simulation.jobs.subscriber import Manner, Subscriber
from tests.simulation.jobs.world import JobWorld
from tests.simulation.network import Network
from tests.simulation.scenario import Scenario

TROUBLE_S = 4.0
PATIENCE_S = 60.0
"""Once nothing is lost and nothing crashes, everything has to arrive within so many seconds."""

_ATTEMPTS = 3


class JobSimulation:
    """One simulation.

    Attributes:
        job: what publishes.
        world: everything else.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = scenario.random("world outside")
        self.job: PublishingJob
        self.network = Network(self._random, scenario.weather)
        self.world: JobWorld

    def run(self) -> "JobSimulation":
        """Run it; raise ViolationError where a promise is broken."""
        self.job = self._published()
        with self.job._patched(), on_simulated_disks():
            self.world = JobWorld(self._random, self.network, self.job.topic, self.job.partitions)
            self._build()
            self.world.look()
            self.network.at((0.5 + self._random.random() / 2) * TROUBLE_S, self.job.end_life)
            self._plan_trouble()
            self.job.live_in(self.world)
            self.network.run(TROUBLE_S)
            self.network.clear_up()
            while not self._is_over and self.network.now_s < TROUBLE_S + PATIENCE_S:
                self.network.run(self.network.now_s + LOOK_S)
            self._check()
        return self

    def _published(self) -> PublishingJob:
        """Return a job that publishes something, unless that is seldom so."""
        job = PublishingJob(self._scenario)
        with job._patched():
            job.prepare()
        if job.expected or self._scenario.attempt == _ATTEMPTS:
            return job
        self._scenario = replace(self._scenario, attempt=self._scenario.attempt + 1)
        return self._published()

    # ------------------------------------------------------------------ what there is, and what happens

    def _build(self) -> None:
        """Make up a tree of relays, and subscribers below."""
        random, world = self._random, self.world
        parents: list[str | None] = [None]
        for _ in range(random.randint(0, 2)):
            parents += [world.add_relay(random.choice(parents)) for _ in range(random.randint(1, 2))]
        for number in range(random.randint(1, 4)):
            begins_s = random.choice((0.0, 0.0, random.random() * TROUBLE_S))
            manner = Manner(
                has_name=random.random() < 0.7,
                by_epoch=random.random() < 0.5,
                order=random.choice(("publisher", "total")),
                is_slow=random.random() < 0.3,
            )
            name = f"subend {number}"
            store = Store(f"{name} {manner}", self.job.topic.domain, self.job.expected, is_first=not begins_s)
            subscriber = Subscriber(world, name, random.choice(parents), manner, store)
            subscriber.begins_s = begins_s
            world.subends[name] = subscriber

    def _plan_trouble(self) -> None:
        """Plan crashes, links that are cut, publishers that pause, clocks that step, and readers that come and go."""
        random, network, world = self._random, self.network, self.world

        def soon(counts: tuple[int, ...]) -> Iterable[float]:
            return [random.random() * TROUBLE_S for _ in range(random.choice(counts))]

        for at_s in soon((0, 1, 3)):
            network.at(at_s, partial(world.crash, random.choice(world.nodes), random.random()))
        for at_s in soon((0, 0, 1, 3)):
            one, other = random.sample([node.name for node in world.nodes], 2)
            network.at(at_s, partial(network.cut, one, other, random.random()))
        for at_s in soon((0, 0, 1)):
            network.at(at_s, partial(world.pause, random.choice(world.pubends), 2 * random.random()))
        for at_s in soon((0, 0, 1, 3)):
            step_s = random.choice((-HOUR_S, -1.0, 1.0, HOUR_S))
            network.at(at_s, partial(random.choice(world.pubends).step_clock, step_s))
        for at_s in soon((0, 0, 1, 3)):
            network.at(at_s, partial(random.choice(world.subscribers).leave))
        for at_s in soon((0, 1, 3)):
            network.at(at_s, random.choice(world.subscribers).die_halfway)
        relays = list(world.relays)
        for at_s in soon((0, 0, 1)):
            network.at(at_s, partial(world.move, random.choice(world.subscribers), random.choice([None, *relays])))

    # ------------------------------------------------------------------ what comes of it

    @property
    def _is_over(self) -> bool:
        publishers = self.world.publishers
        are_read = all(subscriber.is_over and subscriber.core is None for subscriber in self.world.subscribers)
        return self.job.is_over and are_read and not any(one.core is None or one.core.unread() for one in publishers)

    def _check(self) -> None:
        job, world = self.job, self.world
        if not job.is_over:
            raise ViolationError("live", "the job has not come to its end")
        for subscriber in world.subscribers:
            if not subscriber.is_over:
                missing = subscriber.store.missing()
                raise ViolationError("live", f"{subscriber.name} {subscriber.manner} has yet to have {missing}")
        for publisher in world.publishers:
            if publisher.core is None or publisher.core.unread():
                raise ViolationError("acknowledged", f"{publisher.name} does not know that all is read")
        if job.outputs != job.undisturbed:
            raise ViolationError("outputs", f"the job has captured {job.outputs}, not {job.undisturbed}")
        orders = [order for one in world.subscribers if one.order == "total" for order in one.store.orders]
        for first, second in combinations(orders, 2):
            if _within(first, second) != _within(second, first):
                raise ViolationError("order", f"batches came in the orders {first} and {second}")


def _within(order: list[Place], other: list[Place]) -> list[Place]:
    """Return the part of an order that is in another one."""
    both = set(other)
    return [place for place in order if place in both]
