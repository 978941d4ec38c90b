"""Looking for the first of many simulations that breaks a promise."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from tests.simulation.violation import ViolationError


class Described(Protocol):
    """What is simulated."""

    def describe(self) -> str:
        """Return for people what it is."""


Chosen = TypeVar("Chosen", bound=Described)


def report_on_first(
    seeds: Iterable[int],
    scenario: Callable[[int], Chosen],
    simulate: Callable[[Chosen], ViolationError | None],
    module: str,
) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds; None if all pass.

    Args:
        seeds: each says what is simulated.
        scenario: returns what one says.
        simulate: returns the promise that was broken, if there is one.
        module: runs one of them again.
    """
    for seed in seeds:
        chosen = scenario(seed)
        violation = simulate(chosen)
        if violation is not None:
            return f"{violation}\n{chosen.describe()}\nrepeat it with: python -m {module} --seed {seed} --runs 1"
    return None
