"""A topic, its publishers and its subscribers under one seed."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.kit.simulation.violation import ViolationError
from tests.simulation.topics.life import Life
from tests.simulation.topics.reader import Reader, State
from tests.simulation.topics.topic_options import TopicOptions
from tests.simulation.topics.watch import Told
from tidewheel.pubsub.protocol.publisher import Publisher

_ALONE_EVERY = 10
_ROUNDS = 1000
_PUBLISHING = 1.5
"""The pace of a partition, compared with a subscriber of pace 1."""


@dataclass(slots=True)
class Counts:
    """How much happened, so that a test can tell that it was not nothing."""

    batches: int = 0
    filtered: int = 0
    dropped: int = 0
    duplicates: int = 0
    held: int = 0
    ends: Counter[str] = field(default_factory=Counter)


class TopicSimulation:
    """One run. Everybody has random choices of their own, so what one does changes nothing of what others choose.

    Args:
        options: the parameters.
        without: the number of a subscriber that does not exist, though all others do what they would do.
        publisher: makes the publishers.
    """

    def __init__(
        self, options: TopicOptions, without: int | None = None, publisher: Callable[..., Any] = Publisher
    ) -> None:
        self._options = options
        self._publisher = publisher
        self._numbers = range(len(options.readers))
        self._schedule = options.random(0)
        self._upstream = [options.random(1 + number) for number in range(options.partitions)]
        self._randoms = [options.random(1 + options.partitions + number) for number in self._numbers]
        self._without = without
        self._names = count()
        self.life = Life(options, self._upstream, publisher)
        self.lives = [self.life]
        self.readers: list[list[Reader]] = [[] for _ in self._numbers]

    def run(self) -> "TopicSimulation":
        """Run it to the end; raises ViolationError when a promise is broken."""
        for number in self._numbers:
            self._connect(number)
        for index, ending in enumerate(self._options.endings):
            self._live()
            if ending == "fails":
                self.life.fail(self._schedule.randrange(self._options.partitions))
            last = self.life
            if index + 1 < len(self._options.endings):
                self.life = Life(self._options, self._upstream, self._publisher)
                self.lives.append(self.life)
            if ending == "replaced":
                last.replace(self.life)
        self._drain()
        self._check_rest()
        return self

    def told(self, number: int) -> list[list[Told]]:
        """Return all that a subscriber was told, in each life."""
        return [reader.watch.told for reader in self.readers[number]]

    def ends(self, number: int) -> list[tuple[State, list[Told]]]:
        """Return all that a subscriber was told in each life, and how that ended."""
        return [(reader.state, reader.watch.told) for reader in self.readers[number]]

    def counts(self) -> Counts:
        """Return how much happened."""
        found = Counts(held=sum(life.held for life in self.lives))
        for reader in (reader for readers in self.readers for reader in readers):
            statistics = reader.core.statistics()
            found.batches += sum(told[0] == "batch" for told in reader.watch.told)
            found.filtered += statistics.filtered
            found.dropped += len(reader.watch.dropped)
            found.duplicates += statistics.duplicates
            found.ends[reader.state] += 1
        return found

    def _live(self) -> None:
        partitions = self._options.partitions
        weights = [_PUBLISHING] * partitions + [reading.pace for reading in self._options.readers]
        for actor in self._schedule.choices(range(len(weights)), weights, k=self._options.steps):
            self.life.tick()
            if actor < partitions:
                self.life.step(actor)
            elif actor - partitions != self._without and not self._goes_on(actor - partitions):
                self.readers[actor - partitions][-1].step()

    def _drain(self) -> None:
        """Let everybody read until they are over, in turn: who holds back a publisher keeps others waiting."""
        going: list[int] = []
        for _ in range(_ROUNDS):
            if self._options.endings[-1] == "ends":
                self.life.end()
            going = [number for number in self._numbers if number != self._without and not self._goes_on(number)]
            if not going:
                return
            for number in going:
                if not self.readers[number][-1].is_over:
                    self.readers[number][-1].drain()
        names = [self.readers[number][-1].name for number in going]
        raise ViolationError("stuck", f"{', '.join(names)}: nothing more comes, and it is not over")

    def _goes_on(self, number: int) -> bool:
        """Tell whether a subscriber is over for good; one whose topic was lost subscribes to its next life."""
        reader = self.readers[number][-1]
        if reader.state == "lost" and reader.life is not self.life:
            self._connect(number)
            return False
        return reader.is_over

    def _connect(self, number: int) -> None:
        if number != self._without:
            name = f"subscriber {number}, life {len(self.readers[number]) + 1}"
            reading = self._options.readers[number]
            self.readers[number].append(Reader(name, reading, self.life, self._randoms[number]))

    def _check_rest(self) -> None:
        """Check that whoever is gone has left nothing behind."""
        for life in self.lives:
            for publisher in life.publishers:
                left = publisher.statistics()
                if left.subscribers or left.queued_bytes or publisher._blocking or publisher.queues:
                    raise ViolationError("memory", f"something is left of subscribers that are gone: {left}")
        if not all(publisher.is_drained_but_for(None) for publisher in self.life.publishers):
            raise ViolationError("end", "a publisher is not drained when everybody has gone")


def run_topic(options: TopicOptions) -> TopicSimulation:
    """Run it; in some simulations also check that nobody's deliveries depend on another subscriber."""
    simulation = TopicSimulation(options).run()
    if options.seed % _ALONE_EVERY == 0:
        check_alone(options, simulation)
    return simulation


def check_alone(options: TopicOptions, all_of_them: TopicSimulation) -> None:
    """Check that nobody's deliveries depend on another subscriber: leave each one out that is trouble to others."""
    for without, reading in enumerate(options.readers):
        # One that may hold back the publishers changes when things come to others, and that is what it asked for.
        is_trouble = reading.leaves_after is not None or reading.pace < 1 or reading.condition == "raises"
        is_trouble = is_trouble and reading.slow != "block"
        if not is_trouble or len(options.readers) == 1:
            continue
        alone = TopicSimulation(options, without).run()
        for number in range(len(options.readers)):
            if number != without and alone.told(number) != all_of_them.told(number):
                text = f"subscriber {number} is told {alone.told(number)} without subscriber {without}"
                raise ViolationError("isolation", f"{text}, and {all_of_them.told(number)} with it")
