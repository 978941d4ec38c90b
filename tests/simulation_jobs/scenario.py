"""The parameters of one simulation of a job that publishes, all of which follow from its seed."""

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.scenario import Scenario
from tests.simulation_delivery.network import Weather
from tests.simulation_jobs.wire import BAD_LINE, GOOD_LINE, Line
from tests.simulation_recovery.scenario import RecoveryScenario


@dataclass(frozen=True, slots=True)
class JobScenario(RecoveryScenario):
    """What is fixed before the first event.

    Attributes:
        pace: how many events of a life happen in a hundredth of a second, at least.
        weather: how bad the network is.
        line: how good the connections of workers to publishers are.
        attempt: another one has another dataflow.
    """

    pace: int
    weather: Weather
    line: Line
    attempt: int = 0

    @classmethod
    def of(cls, seed: int) -> "JobScenario":
        """Return the scenario of a seed."""
        random = Random(f"{seed} job")
        first = Scenario.of(seed)
        first = replace(first, workers=random.choice((1, 2, 2, 3)), leaks=False)
        lives = tuple(
            replace(first, events=random.choice((20, 60, 150, 300))) for _ in range(random.choice((1, 2, 3, 4, 4, 6)))
        )
        weather = Weather(random.choice((0.0, 0.1, 0.5, 0.5)), random.choice((0.0, 0.2)), random.choice((0.0, 0.2)))
        rest = random.choice((1, 3, 1000)), random.choice((1, 4)), random.choice((2, 5, 10))
        return cls(seed, lives, *rest, weather, random.choice((GOOD_LINE, BAD_LINE)))

    def random(self, purpose: str) -> Random:
        """Return a source of random choices of its own for each purpose."""
        return Random(f"{self.seed} {purpose} {self.attempt}")

    def describe(self) -> str:
        """Return the parameters for people."""
        return f"{self.lives[0].describe()}; {len(self.lives)} lives; {self.weather}"
