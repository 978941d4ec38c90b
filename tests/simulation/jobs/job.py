"""A job that publishes, crashes and begins again: from a snapshot, or from its beginning, with the logs kept."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.kit.simulation.violation import ViolationError
from tests.simulation.jobs.publisher import Publisher
from tests.simulation.jobs.wire import Wire, WorkerConnection
from tests.simulation.jobs.world import JobWorld
from tests.simulation.network import GOOD_LINE
from tests.simulation.scenario import Scenario
from tests.simulation.snapshots.job_life import JobLife, Restored, ToldEnds
from tests.simulation.snapshots.random_dataflow import RandomDataflow
from tests.simulation.snapshots.snapshot_simulation import SnapshotSimulation
from tidewheel.pubsub.exactly_once.journal import LogPlace, have_all, next_generation
from tidewheel.pubsub.messages.wire import FIRST
from tidewheel.pubsub.publications.publication import Publication
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.pubsub.publishers.publisher_calls import PublisherCalls
from tidewheel.pubsub.publishers.recognition import Recognition

TOPIC = "simulated"

_BEAT_S = 0.03
_DYING_S = 0.1
_AWAY_S = 0.5
_MOST_BEFORE = 1000
"""After so many events a life may end though nothing is published."""


class PublishingJob(SnapshotSimulation):
    """The job. The network calls it; it publishes to a world.

    Args:
        scenario: its lives, and how they end.

    Attributes:
        topic: what it publishes.
        generations: how often the topic has gone back.
        refusals: how often a snapshot was refused, as a later life had begun without it.
        compared: how often epochs that came again were compared.
        is_over: whether it has ended.
    """

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        topic = self.described.publication
        assert isinstance(topic, Publication), "it is described so"
        self.topic = topic
        self.generations = self.compared = self.refusals = 0
        self.is_over = False
        self._life, self._left, self._done = -1, 0, 0
        self._cluster_now: JobLife | None = None
        self._snapshot: Restored | None = None
        self._left_behind: list[Restored] = []
        self._connections: list[WorkerConnection] = []
        self._generation = FIRST
        self._calls: list[Callable[[], Any]] = []
        self._ends = self._is_dying = False
        self._told: ToldEnds = {}
        self.undisturbed: dict[Any, Any] = {}

    def _describe(self, random: Random) -> RandomDataflow:
        return RandomDataflow(random, self._world, TOPIC)

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return self.scenario.lives[0].workers if self.topic.partition == "worker" else 1

    def prepare(self) -> None:
        """Compute what it publishes if nothing disturbs it."""
        expected, self._told = self._undisturbed()
        self.undisturbed = expected
        self.expected = {time: records for time, records in expected[self.described.published].items() if records}

    # ------------------------------------------------------------------ lives

    def live_in(self, world: JobWorld) -> None:
        """Begin, as the network goes on, and go on until the end."""
        self._outside = world
        self.network = world.network
        self._random_now = self.scenario.random("the job")
        self._beat()

    def _beat(self) -> None:
        if self.is_over:
            return
        if self._cluster_now is None:
            self._begin_life()
        else:
            self._connect()
            self._compare()
            if any(connection.is_refused for connection in self._connections):
                self._begin_without()
            elif self._ends:
                self._end(self._cluster_now)
            else:
                self._live_on(self._cluster_now)
        self._outside.network.at(_BEAT_S * self._random_now.random(), self._beat)

    def _live_on(self, cluster: JobLife) -> None:
        self._break()
        for _ in range(self.scenario.pace):
            self._act(cluster, self._random_now)
        self._done += self.scenario.pace
        if self._done > _MOST_BEFORE or any(
            one.is_there and one.core.told.has_begun for one in self._outside.publishers
        ):
            self._left -= self.scenario.pace
        if self._left < 0 and self._life + 1 < len(self.scenario.lives):
            self._crash(cluster)

    def _act(self, cluster: JobLife, random: Random) -> None:
        chance = random.random()
        if chance < 0.08:
            cluster.act()
        elif chance < 0.14:
            if not cluster.is_taking:
                cluster.driver.begin_snapshot(next(self._numbers))
        elif chance < 0.24:
            cluster.write()
        else:
            cluster.move()

    def _begin_life(self) -> None:
        """Begin, once all publishers say how far their logs are."""
        world = self._outside
        places = [publisher.place() for publisher in world.publishers]
        known = [place for place in places if place is not None]
        if self._is_dying or len(known) < len(places) or self._conclude(known):
            return
        self._life += 1
        self._random_now = random = self.scenario.random(f"life {self._life}")
        self._generation = next_generation(self.topic.domain, known)
        self.generations = self._generation.number
        self._recognise()
        self._cluster_now = self._cluster(self._life, self._snapshot, random)
        self._left, self._done = self.scenario.lives[self._life].events, 0
        if random.random() < 0.7:
            self._world.drain()

    def _attachments(self, workers: int) -> Sequence[Mapping[str, Any]]:
        if self._life < 0:
            return [{TOPIC: PublisherConnection(TOPIC, worker)} for worker in range(workers)]
        domain, generation = self.topic.domain, self._generation
        self._connections = [WorkerConnection(TOPIC, n, domain, generation) for n in range(self.partitions)]
        idle = [PublisherConnection(TOPIC, worker) for worker in range(self.partitions, workers)]
        return [{TOPIC: connection} for connection in [*self._connections, *idle]]

    def _crash(self, cluster: JobLife) -> None:
        """Crash all workers; the next life begins from the last snapshot, without one, or from one left behind."""
        random = self._random_now
        newest = self._after_crash(cluster, random) or self._snapshot
        choice = random.random()
        if choice < 0.3:
            self._snapshot = None
        elif choice < 0.6 and self._left_behind:
            self._snapshot = random.choice(self._left_behind)
        else:
            self._snapshot = newest
        if newest is not None and self._snapshot is not newest:
            self._left_behind.append(newest)
        self._die()

    def _begin_without(self) -> None:
        """Do what the error says as a publisher refuses the snapshot: begin the life again, without it."""
        if not any(self._snapshot is one for one in self._left_behind):
            raise ViolationError("refused", "no life has begun without the snapshot of this one, and it is refused")
        self.refusals += 1
        self._snapshot = None
        self.outputs = {}
        self._life -= 1
        self._die()

    def _die(self) -> None:
        """End all workers, and the publishers or not.

        Publishers that live receive what was on its way, up to some moment, and then nothing more of these workers.
        """
        random, world = self._random_now, self._outside
        self._cluster_now = None
        self._calls = []
        self._is_dying = True
        for connection in self._connections:
            connection.is_dead = True
        for publisher in world.publishers if random.random() < 0.5 else ():
            world.crash(publisher, random.random() * _AWAY_S)
        world.network.at(_DYING_S * random.random(), self._close_wires)

    def _close_wires(self) -> None:
        self._is_dying = False
        for publisher in self._outside.publishers:
            publisher.close_worker()
        for connection in self._connections:
            if connection.wire is not None:
                connection.wire.is_cut = True

    def end_life(self) -> None:
        """Have the present life be the last: it does all that there is to do."""
        self._ends = True

    def _end(self, cluster: JobLife) -> None:
        """Do all that there is to do, at once; and end once all is durable, and compared."""
        if not self.outputs:
            self._finish(cluster, self._random_now)
            cluster.check_ends(self._told)
            self.outputs = cluster.captured(list(self.plan.captures))
        has_sent_all = all(connection.has_sent_all for connection in self._connections)
        known = [place for publisher in self._outside.publishers if (place := publisher.place()) is not None]
        is_known = len(known) == len(self._outside.publishers)
        if has_sent_all and not self._calls and is_known and not self._conclude(known):
            self.is_over = not any(place.lower for place in known)

    def _conclude(self, known: Sequence[LogPlace]) -> bool:
        """End the topic if all have everything, by some publishers at a time; return whether one has yet to end."""
        if not have_all(known):
            return False
        for publisher in self._outside.publishers:
            if self._random_now.random() < 0.5:
                publisher.conclude()
        return True

    # ------------------------------------------------------------------ publishers

    def _connect(self) -> None:
        """Have workers connect that are not connected, sooner or later."""
        random, line = self._random_now, GOOD_LINE if self._ends else self.scenario.line
        for connection in self._connections:
            publisher = self._outside.publishers[connection.number]
            if not connection.is_connected and publisher.is_there and random.random() < line.again:
                connection.connect(Wire(self._outside.network, random, line, connection, publisher))

    def _break(self) -> None:
        """Have connections break: workers do not know then which of the messages on their way are logged."""
        for connection in self._connections:
            if connection.wire is not None and self._random_now.random() < self.scenario.line.breaks:
                connection.wire.is_cut = True

    def _recognise(self) -> None:
        """Have epochs compared that come again; see `Recognition`."""
        handles = [_Handle(publisher) for publisher in self._outside.publishers]
        self._recognition = Recognition(self.topic.domain, PublisherCalls(TOPIC, handles))
        self._calls = []
        if self._generation.number:
            self._steps = self._recognition._compare(self._generation.number)
            self._calls = next(self._steps)

    def _compare(self) -> None:
        if not self._calls or not all(publisher.is_there for publisher in self._outside.publishers):
            return
        answers = [call() for call in self._calls]
        if None in answers:
            return
        self.compared += sum(map(len, answers))
        try:
            self._calls = self._steps.send(answers)
        except StopIteration:
            self._calls = []
        if self._recognition._error is not None:
            raise ViolationError("compared", f"the job is said to differ: {self._recognition._error}")


class _Handle:
    """The handle of a publisher: a call is a function without arguments."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=partial(partial, getattr(self._publisher, method)))
