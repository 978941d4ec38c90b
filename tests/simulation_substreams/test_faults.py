"""The checks check: each fault seeded into the runtime is caught, and the seeds that catch it pass without it."""

import pytest

from tests.simulation.scenario import Scenario
from tests.simulation_substreams.campaign import simulate
from tests.simulation_substreams.faults import FAULTS, Fault

MOST = 120
"""Within so many simulations in which it can show a fault is caught."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught(fault: Fault) -> None:
    """The promise that it breaks is named, and nothing crashes; without the fault the same simulation passes."""
    scenarios = [scenario for scenario in map(Scenario.of, range(3 * MOST)) if fault.concerns(scenario)][:MOST]
    with fault.inject():
        found = ((scenario, simulate(scenario)) for scenario in scenarios)
        scenario, violation = next((one for one in found if one[1] is not None), (scenarios[0], None))
    assert violation is not None, f"{fault.name} was not caught in {len(scenarios)} simulations"
    assert violation.check in fault.checks, f"seed {scenario.seed}: {violation}"
    assert simulate(scenario) is None
