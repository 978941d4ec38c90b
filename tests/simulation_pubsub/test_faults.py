"""The checks check: each fault seeded into the code is caught, and the seeds that catch it pass without it."""

import pytest

from tests.kit.simulation.fault import Fault, check_found
from tests.simulation_pubsub.campaign import simulate
from tests.simulation_pubsub.faults import FAULTS
from tests.simulation_pubsub.scenario import Scenario

SEEDS = range(1200)
MOST = 400
"""Within so many simulations in which it can show a fault is caught."""


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_caught(fault: Fault[Scenario]) -> None:
    """The promise that it breaks is named, and nothing crashes; without the fault the same simulation passes."""
    check_found(fault, map(Scenario.of, SEEDS), simulate, MOST)
