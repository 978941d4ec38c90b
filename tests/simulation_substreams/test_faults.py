"""The checks check: each fault seeded into the code is caught, and the seeds that catch it pass without it."""

import pytest

from tests.kit.simulation.fault import Fault, check_found
from tests.simulation.scenario import Scenario
from tests.simulation_substreams.campaign import simulate
from tests.simulation_substreams.faults import FAULTS

SEEDS = range(360)
MOST = 120
"""Within so many simulations in which it can show a fault is caught."""


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_caught(fault: Fault[Scenario]) -> None:
    """The promise that it breaks is named, and nothing crashes; without the fault the same simulation passes."""
    check_found(fault, map(Scenario.of, SEEDS), simulate, MOST)
