"""The parameters of one simulation of snapshots, all of which follow from its seed."""

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class RecoveryScenario:
    """What is fixed before the first event.

    Attributes:
        seed: decides everything.
        lives: the parameters of the workers, once for each time that they begin; all but the last end in a crash.
        least_swept: how many keys a snapshot writes at least, of those that have not changed.
        most_changed: which share of the keys may have changed before a snapshot writes all: one in so many.
    """

    seed: int
    lives: tuple[Scenario, ...]
    least_swept: int
    most_changed: int

    @classmethod
    def of(cls, seed: int) -> "RecoveryScenario":
        """Return the scenario of a seed; four seeds in a row have each kind of progress with and without hold-back."""
        random, first = Random(f"{seed} lives"), Scenario.of(seed)
        lives = [_life(first, random)]
        for _ in range(random.choice((1, 1, 1, 2))):
            workers = random.choice((lives[-1].workers, random.randint(1, 4)))
            lives.append(_life(replace(first, workers=workers), random))
        return cls(seed, tuple(lives), random.choice((1, 3, 1000)), random.choice((1, 4)))

    @property
    def is_rescaled(self) -> bool:
        """Whether the number of workers changes."""
        return len({life.workers for life in self.lives}) > 1

    def random(self, purpose: str) -> Random:
        """Return a source of random choices of its own for each purpose."""
        return Random(f"{self.seed} {purpose}")

    def describe(self) -> str:
        """Return the parameters for people."""
        workers = ", then ".join(f"{life.workers} for {life.events} events" for life in self.lives)
        return f"{self.lives[0].describe()}; workers: {workers}; least swept: {self.least_swept}"


def _life(scenario: Scenario, random: Random) -> Scenario:
    return replace(scenario, workers=min(scenario.workers, 4), events=random.choice((20, 50, 100, 200)), leaks=False)
