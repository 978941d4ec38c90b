"""A fault that a test puts into the code, which the simulation must find: it shows that the checks check."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

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
    """

    name: str
    inject: Callable[[], Injection]
    checks: frozenset[str] = frozenset()
    concerns: Callable[[Chosen], bool] = _always

    def __str__(self) -> str:
        return self.name


def check_found(
    fault: Fault[Chosen],
    scenarios: Iterable[Chosen],
    simulate: Callable[[Chosen], ViolationError | None],
    most: int,
) -> None:
    """Assert that a fault is found within the first ``most`` scenarios that it concerns.

    The violation has to be a promise that the fault breaks, and no crash. Without the fault, the scenario has to pass.
    """
    tried = list(islice(filter(fault.concerns, scenarios), most))
    with fault.inject():
        found = ((scenario, simulate(scenario)) for scenario in tried)
        scenario, violation = next((one for one in found if one[1] is not None), (tried[0], None))
    assert violation is not None, f"{fault.name} was not caught in {len(tried)} simulations"
    assert violation.check in fault.checks or (not fault.checks and violation.check != "raised"), str(violation)
    assert simulate(scenario) is None
