"""Running simulations of substreams, one seed after another, and what there is to say of one that fails."""

import traceback
from collections.abc import Iterable

from tests.simulation.first_failure import report_on_first
from tests.simulation.scenario import Scenario
from tests.simulation.violation import ViolationError
from tests.simulation_substreams.simulation import Simulation


def simulate(scenario: Scenario) -> ViolationError | None:
    """Run a scenario; return the promise that was broken, if there is one."""
    try:
        Simulation(scenario).run()
    except ViolationError as violation:
        return violation
    except Exception as error:  # noqa: BLE001 - whatever a core raises is what is looked for
        cause = error.__cause__
        if isinstance(cause, ViolationError):
            return cause
        return ViolationError("raised", "".join(traceback.format_exception(error)))
    return None


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first failure among the scenarios of some seeds; None if all pass."""
    return report_on_first(seeds, Scenario.of, simulate, "tests.simulation_substreams")
