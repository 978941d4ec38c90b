"""The runs of simulations of substreams, one seed after another, and the report on one that fails."""

from collections.abc import Iterable

from tests.kit.simulation.first_failure import report_on_first
from tests.kit.simulation.violation import ViolationError, broken_promise
from tests.simulation.scenario import Scenario
from tests.simulation_substreams.simulation import Simulation


def simulate(scenario: Scenario) -> ViolationError | None:
    """Run a scenario; return the promise that was broken, if there is one."""
    return broken_promise(lambda: Simulation(scenario).run())


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds; None if all pass."""
    return report_on_first(seeds, Scenario.of, simulate, "tests.simulation_substreams")
