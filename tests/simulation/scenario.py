"""The parameters of one simulation: what the world has, and what follows from the seed."""

from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias

from tests.simulation.network import BAD_LINE, FAIR, GOOD_LINE, Line, Weather
from tests.simulation.topics.topic_options import TopicOptions
from tidewheel.runtime.messages.credit import DEFAULT_BYTES_IN_FLIGHT

Part: TypeAlias = Literal["workers", "books", "substreams", "snapshots", "topic", "log"]
"""A part that a world may have.

==============  =======================================================================================
``workers``     a job of some workers, with a random dataflow
``books``       an observer that also compares what workers report with what they have done
``substreams``  streams that are divided, and operators that are told of ends
``snapshots``   snapshots, crashes, and further lives, perhaps on another number of workers
``topic``       what is published, with subscribers
``log``         publishers keep a log on a disk, and deliver exactly once through relays
==============  =======================================================================================
"""

Has: TypeAlias = frozenset[Part]
Progress: TypeAlias = Literal["broadcast", "accumulated"]

TOKENS: Has = frozenset({"workers", "books"})
SUBSTREAMS: Has = frozenset({"workers", "substreams"})
SNAPSHOTS: Has = frozenset({"workers", "substreams", "snapshots"})
TOPICS: Has = frozenset({"topic"})
DELIVERY: Has = frozenset({"topic", "log"})
JOBS: Has = frozenset({"workers", "substreams", "snapshots", "topic", "log"})
WORLDS: dict[str, Has] = {
    "tokens": TOKENS,
    "substreams": SUBSTREAMS,
    "snapshots": SNAPSHOTS,
    "jobs": JOBS,
    "topics": TOPICS,
    "delivery": DELIVERY,
}
"""The worlds that are simulated, by name."""

_PROTOCOLS: tuple[tuple[Progress, bool], ...] = (
    ("broadcast", False),
    ("broadcast", True),
    ("accumulated", False),
    ("accumulated", True),
)


@dataclass(frozen=True, slots=True)
class LifeOptions:
    """The workers of one life of a job.

    Attributes:
        workers: how many workers there are.
        progress: how progress travels.
        hold_back: whether batches that move no frontier are held back.
        events: how many events there are before the end is brought about.
        leaks: whether operators may forget to discard a token.
        bytes_in_flight: how many bytes each worker may answer for before sources wait.
    """

    workers: int
    progress: Progress
    hold_back: bool
    events: int
    leaks: bool
    bytes_in_flight: int

    @classmethod
    def of(cls, seed: int) -> "LifeOptions":
        """Return those of a seed; four seeds in a row have each kind of progress with and without hold-back."""
        random = Random(f"{seed} scenario")
        progress, hold_back = _PROTOCOLS[seed % len(_PROTOCOLS)]
        return cls(
            workers=random.choice((1, 2, 2, 3, 3, 4, 5)),
            progress=progress,
            hold_back=hold_back,
            events=random.choice((80, 120, 160, 240)),
            leaks=random.random() < 0.15,
            bytes_in_flight=random.choice((0, 1000, 3000, DEFAULT_BYTES_IN_FLIGHT)),
        )

    def __str__(self) -> str:
        held = "held back while it moves no frontier" if self.hold_back else "sent at once"
        return (
            f"{self.workers} workers for {self.events} events, {self.progress} progress, {held}, "
            f"at most {self.bytes_in_flight} bytes in flight"
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is fixed before the first event.

    Attributes:
        seed: decides everything: these parameters, the dataflow, what its operators do, and the schedule.
        has: the parts of the world.
        lives: the workers, once for each time that they begin; all lives but the last end in a crash.
        topic: the topic that has no log.
        least_swept: how many keys a snapshot writes at least, of those that have not changed.
        most_changed: which share of the keys may have changed before a snapshot writes all: one in so many.
        pace: how many events of a life happen in a hundredth of a second, at least, where there is a topic.
        weather: how bad the network is for packets.
        line: how good the connections of workers to publishers are.
        attempt: another one has another dataflow.
    """

    seed: int
    has: Has
    lives: tuple[LifeOptions, ...] = ()
    topic: TopicOptions | None = None
    least_swept: int = 1000
    most_changed: int = 1
    pace: int = 0
    weather: Weather = FAIR
    line: Line = GOOD_LINE
    attempt: int = 0

    @classmethod
    def of(cls, seed: int, has: Has) -> "Scenario":
        """Return the scenario of a seed for a world with some parts."""
        first = LifeOptions.of(seed)
        if "workers" not in has:
            return cls(seed, has, topic=None if "log" in has else TopicOptions.of(seed))
        if "topic" in has:
            return cls._of_job(seed, has, replace(first, leaks=False))
        if "snapshots" in has:
            return cls._of_snapshots(seed, has, replace(first, leaks=False))
        return cls(seed, has, (first,))

    @classmethod
    def _of_snapshots(cls, seed: int, has: Has, first: LifeOptions) -> "Scenario":
        random = Random(f"{seed} lives")
        numbers = [first.workers]
        events = [random.choice(_EVENTS)]
        for _ in range(random.choice((1, 1, 1, 2))):
            numbers.append(random.choice((min(numbers[-1], 4), random.randint(1, 4))))
            events.append(random.choice(_EVENTS))
        lives = tuple(
            replace(first, workers=min(number, 4), events=many) for number, many in zip(numbers, events, strict=True)
        )
        return cls(seed, has, lives, None, random.choice((1, 3, 1000)), random.choice((1, 4)))

    @classmethod
    def _of_job(cls, seed: int, has: Has, first: LifeOptions) -> "Scenario":
        random = Random(f"{seed} job")
        first = replace(first, workers=random.choice((1, 2, 2, 3)))
        lives = tuple(
            replace(first, events=random.choice((20, 60, 150, 300))) for _ in range(random.choice((1, 2, 3, 4, 4, 6)))
        )
        weather = Weather(random.choice((0.0, 0.1, 0.5, 0.5)), random.choice((0.0, 0.2)), random.choice((0.0, 0.2)))
        rest = random.choice((1, 3, 1000)), random.choice((1, 4)), random.choice((2, 5, 10))
        return cls(seed, has, lives, None, *rest, weather, random.choice((GOOD_LINE, BAD_LINE)))

    @property
    def is_rescaled(self) -> bool:
        """Whether the number of workers changes."""
        return len({life.workers for life in self.lives}) > 1

    def random(self, purpose: str) -> Random:
        """Return a source of random choices of its own for each purpose."""
        return Random(f"{self.seed} {purpose} {self.attempt}" if self.attempt else f"{self.seed} {purpose}")

    def describe(self) -> str:
        """Return the parameters for people."""
        said = [", then ".join(map(str, self.lives)), str(self.topic or "")]
        if self.has == JOBS:
            said.append(f"{self.weather}, {self.line}")
        return "; ".join([f"seed {self.seed}, a world with {', '.join(sorted(self.has))}", *filter(None, said)])


_EVENTS = (20, 50, 100, 200)
