"""The checker checks: each fault seeded into the core is caught, and the seeds that catch it pass without it."""

from collections.abc import Iterator

import pytest

from tests.kit.simulation.fault import Fault
from tests.simulation.campaign import Failure, replay, simulate
from tests.simulation.event import Event
from tests.simulation.faults import FAULTS
from tests.simulation.scenario import Scenario

SEEDS = range(200)
BOOKKEEPING = {"whole steps", "held back", "view", "complete", "timely", "envelope", "flow"}
"""The checks of what workers report; all others look at what comes of it."""

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=str)


def scenarios(fault: Fault[Scenario]) -> Iterator[Scenario]:
    """The scenarios in which a fault can show."""
    return (scenario for scenario in map(Scenario.of, SEEDS) if fault.concerns(scenario))


def caught(fault: Fault[Scenario], *, books: bool) -> Failure:
    """Return the first failure that a fault causes."""
    with fault.inject():
        for scenario in scenarios(fault):
            failure = simulate(scenario, books=books)
            if failure is not None:
                return failure
    raise AssertionError(f"{fault.name} was not caught within {len(SEEDS)} seeds")


@every_fault
def test_a_fault_is_caught(fault: Fault[Scenario]) -> None:
    """The observer sees it, by name and not by a crash; without the fault the same simulation passes."""
    failure = caught(fault, books=True)
    assert failure.violation.check != "raised"
    assert simulate(failure.scenario) is None


@every_fault
def test_a_fault_is_caught_by_what_comes_of_it(fault: Fault[Scenario]) -> None:
    """Without a look at what workers report, too: a frontier passes what can happen, or never gets there."""
    failure = caught(fault, books=False)
    assert failure.violation.check not in {*BOOKKEEPING, "raised"}
    assert simulate(failure.scenario, books=False) is None


@pytest.mark.parametrize("fault", FAULTS[:1], ids=str)
def test_a_failure_is_reported_with_a_schedule_that_repeats_it(fault: Fault[Scenario]) -> None:
    """The report has the seed and a shorter schedule; with that one, as printed, the same promise is broken again."""
    found = caught(fault, books=False)
    with fault.inject():
        shrunk = found.shrunk(books=False)
        report = shrunk.report(found)
        assert f"--seed {found.scenario.seed} --runs 1" in report
        assert 0 < len(shrunk.events) < len(found.events)
        printed = report[report.index("brought about:\n") :].splitlines()[1:-1]
        again = replay(found.scenario, [Event.parse(line) for line in printed], books=False)
    assert again is not None
    assert again.violation.check == found.violation.check
    assert str(again.violation) == str(shrunk.violation)
