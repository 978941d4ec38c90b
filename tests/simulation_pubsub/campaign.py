"""The runs of simulations of topics, one seed after another, and the report on one that fails."""

from collections.abc import Iterable

from tests.kit.simulation.first_failure import report_on_first
from tests.kit.simulation.violation import ViolationError, broken_promise
from tests.simulation_pubsub.scenario import Scenario
from tests.simulation_pubsub.simulation import Simulation, check_alone

ALONE_EVERY = 10
"""In every so many simulations it is checked that nobody's deliveries depend on another subscriber."""


def simulate(scenario: Scenario) -> ViolationError | None:
    """Run a scenario; return the promise that was broken, if there is one."""

    def run() -> None:
        simulation = Simulation(scenario).run()
        if scenario.seed % ALONE_EVERY == 0:
            check_alone(scenario, simulation)

    return broken_promise(run)


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds; None if all pass."""
    return report_on_first(seeds, Scenario.of, simulate, "tests.simulation_pubsub")
