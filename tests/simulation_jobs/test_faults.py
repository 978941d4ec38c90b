"""The checks check: each seeded fault is caught, and the seeds that catch it pass without it."""

import pytest

from tests.kit.simulation.fault import Fault, check_found
from tests.simulation_jobs.faults import FAULTS
from tests.simulation_jobs.scenario import JobScenario
from tests.simulation_jobs.simulation import simulate

SEEDS = range(4000)
MOST = 1000
"""Within so many simulations in which it can show a fault is caught."""


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_caught(fault: Fault[JobScenario]) -> None:
    """A promise is broken with the fault, and kept without it."""
    check_found(fault, map(JobScenario.of, SEEDS), simulate, MOST)
