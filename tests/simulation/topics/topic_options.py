"""A topic without a log in a simulated world: its partitions, its subscribers, and how it ends."""

from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias, get_args

from tests.simulation.topics.conditions import CONDITIONS, Condition
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions, Slow

Order: TypeAlias = Literal["total", "product"]
Ending: TypeAlias = Literal["ends", "fails", "replaced"]
"""The ends of a life of the topic: as it should, with a failure, or because other publishers are there all at once."""

PLENTY = 1 << 30
HOLD_STEPS = 25.0
"""For so many steps of everybody may a subscriber hold back a publisher and take nothing."""
_STRIDE = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """What one subscriber is like.

    Attributes:
        condition: which records it wants.
        slow: what happens when it falls behind.
        atomic: whether it wants whole epochs.
        pace: how often it does something, compared with others.
        is_first: whether it is connected to everything before anything happens.
        leaves_after: after how many steps it leaves; None if it stays.
    """

    condition: Condition
    slow: Slow
    atomic: bool
    pace: float
    is_first: bool
    leaves_after: int | None

    @property
    def may_drop(self) -> bool:
        """Whether it asks for epochs to be left out when it falls behind."""
        return self.slow == "drop_epochs"

    @classmethod
    def random(cls, random: Random) -> "Reading":
        """Return any subscriber."""
        return cls(
            condition="all" if random.random() < 0.4 else random.choice(CONDITIONS),
            slow=random.choices(("drop_epochs", "disconnect", "block"), (0.45, 0.35, 0.2))[0],
            atomic=random.random() < 0.8,
            pace=random.choice((0.1, 0.3, 1.0, 3.0)),
            is_first=random.random() < 0.4,
            leaves_after=random.randrange(20) if random.random() < 0.15 else None,
        )


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The parameters of a topic, which all follow from a seed.

    Attributes:
        seed: decides everything.
        order: the kind of times.
        partitions: how many there are.
        capacity_bytes: how much may wait for one subscriber at one partition.
        readers: the subscribers.
        endings: how each life of the topic ends.
        steps: how many things happen in each life before it ends.
    """

    seed: int
    order: Order
    partitions: int
    capacity_bytes: int
    readers: tuple[Reading, ...]
    endings: tuple[Ending, ...]
    steps: int

    @classmethod
    def of(cls, seed: int) -> "TopicOptions":
        """Return those of a seed; orders and numbers of partitions take turns."""
        random = Random(seed * _STRIDE)
        endings: tuple[Ending, ...] = ("ends",)
        if random.random() < 0.25:
            endings = random.choice((("fails",), ("fails", "ends"), ("replaced", "ends")))
        return cls(
            seed,
            order="total" if seed % 2 else "product",
            partitions=1 + seed // 2 % 4,
            capacity_bytes=PLENTY if random.random() < 0.4 else random.choice((800, 1500, 2500, 4000)),
            readers=tuple(Reading.random(random) for _ in range(random.choice((1, 2, 2, 3, 4)))),
            endings=endings,
            steps=random.choice((40, 80, 140, 200)),
        )

    def random(self, number: int) -> Random:
        """Return a source of random choices of its own for each purpose, by its number from 0."""
        return Random(self.seed * _STRIDE + 1 + number)

    def __str__(self) -> str:
        readers = (f"\nsubscriber {number}: {reading}" for number, reading in enumerate(self.readers))
        return (
            f"{self.order} order, {self.partitions} partitions, {self.capacity_bytes} bytes of "
            f"capacity, {self.steps} steps, and then the topic {' and '.join(self.endings)}{''.join(readers)}"
        )


def options_of(reading: Reading) -> DeliveryOptions:
    """Return what a subscriber asks of the publishers."""
    return OPTIONS[reading.condition, reading.slow]


def _options() -> dict[tuple[Condition, Slow], DeliveryOptions]:
    from tests.simulation.topics.conditions import WHERES

    found = {
        (name, slow): DeliveryOptions(WHERES.get(name), slow, HOLD_STEPS)
        for name in CONDITIONS
        for slow in get_args(Slow)
    }
    return {**found, ("all", "disconnect"): EVERYTHING}


OPTIONS = _options()
"""The options of every kind of subscriber."""
