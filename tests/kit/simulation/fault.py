"""A fault that a test puts into the code, which the simulation must find: it shows that the checks check."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from tests.kit.simulation.injection import Injection
from tests.kit.simulation.violation import ViolationError

Chosen = TypeVar("Chosen")


def _always(scenario: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Fault(Generic[Chosen]):
    """One way for the code to be wrong.

    Attributes:
        name: the defect, in a few words.
        inject: returns a context in which the code is wrong.
        checks: the promises that the defect breaks; empty if it may break any of them.
        concerns: whether the defect can show in a scenario at all.
        has: the parts of a world in which it can show.
        seed: the first seed at which it is caught; None where the search for it takes long.
    """

    name: str
    inject: Callable[[], Injection]
    checks: frozenset[str] = frozenset()
    concerns: Callable[[Chosen], bool] = _always
    _: KW_ONLY
    has: frozenset[Any] = frozenset()
    seed: int | None = None

    def __str__(self) -> str:
        return self.name


def check_found(
    fault: Fault[Chosen],
    scenarios: Iterable[Chosen],
    simulate: Callable[[Chosen], ViolationError | None],
    most: int,
) -> ViolationError:
    """Assert that a fault is found within the first ``most`` scenarios that it concerns; return how it shows.

    The violation has to be a promise that the fault breaks, and no crash. Without the fault, the scenario has to pass.
    """
    for scenario in islice(filter(fault.concerns, scenarios), most):
        with fault.inject():
            violation = simulate(scenario)
        if violation is not None:
            break
    else:
        raise AssertionError(f"{fault.name} was not caught in {most} simulations")
    print(f"{fault.name} is caught in {scenario}")  # noqa: T201 - pytest shows it beside a failure
    assert violation.check in fault.checks or (not fault.checks and violation.check != "raised"), str(violation)
    assert simulate(scenario) is None
    return violation
