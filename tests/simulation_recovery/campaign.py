"""The runs of simulations of snapshots, one seed after another, and the report on one that fails."""

import logging
from collections.abc import Iterable

from tests.kit.simulation.first_failure import report_on_first
from tests.kit.simulation.violation import TooLargeError, ViolationError, broken_promise
from tests.simulation_recovery.scenario import RecoveryScenario
from tests.simulation_recovery.simulation import Simulation

_LOGGER = logging.getLogger(__name__)


def simulate(scenario: RecoveryScenario) -> ViolationError | None:
    """Run a scenario; return the promise that it broke, None if it kept all."""
    return broken_promise(lambda: _run(scenario))


def _run(scenario: RecoveryScenario) -> None:
    try:
        Simulation(scenario).run()
    except TooLargeError as error:
        _LOGGER.warning("seed %d is given up: %s", scenario.seed, error)


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds; None if all pass."""
    return report_on_first(seeds, RecoveryScenario.of, simulate, "tests.simulation_recovery")
