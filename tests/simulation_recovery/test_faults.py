"""The checks check: each fault seeded into snapshots is caught, and the seeds that catch it pass without it."""

import pytest

from tests.kit.simulation.fault import Fault, check_found
from tests.simulation_recovery.campaign import simulate
from tests.simulation_recovery.faults import FAULTS
from tests.simulation_recovery.scenario import RecoveryScenario

SEEDS = range(2000)
MOST = 500
"""Within so many simulations in which it can show a fault is caught."""


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_caught(fault: Fault[RecoveryScenario]) -> None:
    """The promise that it breaks is named, and nothing crashes; without the fault the same simulation passes."""
    check_found(fault, map(RecoveryScenario.of, SEEDS), simulate, MOST)
