"""The checks check: each fault seeded into the code is caught, and the seed that catches it passes without it."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.kit.simulation.fault import Fault, check_found
from tests.kit.simulation.violation import ViolationError
from tests.simulation.campaign import Failure, simulate
from tests.simulation.event import Event
from tests.simulation.faults.table import FAULTS
from tests.simulation.scenario import TOKENS, WORLDS, Has, Scenario

FEW = 300
"""Within so many simulations from its seed on a fault is caught: in the first, unless the seed has grown old."""
MOST = 1000
"""Within so many simulations from seed 0 on a fault is caught."""
BOOKKEEPING = {"whole steps", "held back", "view", "complete", "timely", "envelope", "flow"}
"""The checks of what workers report; all others look at what comes of it."""

OF_TOKENS = [fault for fault in FAULTS if fault.has == TOKENS]
QUICK = [fault for fault in FAULTS if fault.seed is not None]


def test_each_world_has_faults_of_its_own() -> None:
    """The table has rows for every world, and a name for each."""
    assert {fault.has for fault in FAULTS} == set(WORLDS.values())
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def scenarios(first: int | None, has: Has) -> Iterator[Scenario]:
    """The scenarios of a world from a seed on."""
    return (Scenario.of(seed, has) for seed in count(first or 0))


def violation(scenario: Scenario) -> ViolationError | None:
    """Run a scenario; return the promise that was broken."""
    failure = simulate(scenario)
    return None if failure is None else failure.violation


@pytest.mark.parametrize("fault", QUICK, ids=str)
def test_a_fault_is_caught(fault: Fault[Scenario]) -> None:
    """The promise that it breaks is named, and nothing crashes; without the fault the same simulation passes.

    Where a change of the code has moved a rare one too far, the long form prints its new seed.
    """
    check_found(fault, scenarios(fault.seed, fault.has), violation, FEW)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_caught_from_the_first_seed_on(fault: Fault[Scenario]) -> None:
    """The same, whatever the seed in the table is; where the code has changed, it says which seed belongs there."""
    check_found(fault, scenarios(0, fault.has), violation, MOST)


@pytest.mark.parametrize("fault", OF_TOKENS, ids=str)
def test_a_fault_is_caught_by_what_comes_of_it(fault: Fault[Scenario]) -> None:
    """Without a look at what workers report, too: a frontier passes what can happen, or never gets there."""
    found = check_found(fault, scenarios(fault.seed, fault.has - {"books"}), violation, FEW)
    assert found.check not in BOOKKEEPING


def test_a_failure_is_reported_with_a_schedule_that_repeats_it() -> None:
    """The report has the seed and a shorter schedule; with that one, as printed, the same promise is broken again."""
    fault = OF_TOKENS[0]
    scenario = Scenario.of(fault.seed or 0, TOKENS)
    with fault.inject():
        found = simulate(scenario)
        assert isinstance(found, Failure)
        shrunk = found.shrunk()
        report = shrunk.report(found)
        assert f"--seed {scenario.seed} --runs 1" in report
        assert 0 < len(shrunk.events) < len(found.events)
        printed = report[report.index("brought about:\n") :].splitlines()[1:-1]
        again = simulate(scenario, [Event.parse(line) for line in printed])
    assert again is not None
    assert again.violation.check == found.violation.check
    assert str(again.violation) == str(shrunk.violation)
