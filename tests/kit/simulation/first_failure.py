"""The search for the first of many simulations that breaks a promise."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from tests.kit.simulation.violation import ViolationError


class Described(Protocol):
    """The parameters of one simulation."""

    def describe(self) -> str:
        """Return the parameters for people."""


Chosen = TypeVar("Chosen", bound=Described)


def report_on_first(
    seeds: Iterable[int],
    scenario: Callable[[int], Chosen],
    simulate: Callable[[Chosen], ViolationError | None],
    module: str,
) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds; None if all pass.

    Args:
        seeds: one for each simulation.
        scenario: returns the parameters that follow from a seed.
        simulate: returns the promise that was broken, if there is one.
        module: the command that runs one of the simulations again.
    """
    for seed in seeds:
        chosen = scenario(seed)
        violation = simulate(chosen)
        if violation is not None:
            return f"{violation}\n{chosen.describe()}\n{how_to_repeat(module, seed)}"
    return None


def how_to_repeat(module: str, seed: int) -> str:
    """Return the last line of a report: the command that runs this simulation alone."""
    return f"repeat it with: python -m {module} --seed {seed} --runs 1"
