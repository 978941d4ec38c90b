"""Topics by the publisher and by the one that it has replaced, as a command: every subscriber is told the same by both.

``python -m tests.simulation_pubsub.former --runs 100000`` compares them under as many seeds. The former publisher is a
copy in `tests/kit/former_topics`. It changes only where the promises do.
"""

import sys
from collections.abc import Iterable, Sequence

from tests.kit.former_topics.publisher import FormerPublisher
from tests.kit.simulation.command import run_simulations
from tests.kit.simulation.first_failure import report_on_first
from tests.kit.simulation.violation import ViolationError, broken_promise
from tests.simulation_pubsub.scenario import Scenario
from tests.simulation_pubsub.simulation import Simulation

_MODULE = "tests.simulation_pubsub.former"


def compare(scenario: Scenario) -> ViolationError | None:
    """Run a scenario with both; return what differs, or the promise that was broken, if there is one."""

    def run() -> None:
        now, formerly = (Simulation(scenario).run(), Simulation(scenario, publisher=FormerPublisher).run())
        for number in range(len(scenario.readers)):
            told, expected = now.ends(number), formerly.ends(number)
            if told != expected:
                raise ViolationError("former", f"subscriber {number} is told {told}, and was formerly told {expected}")

    return broken_promise(run)


def report_on(seeds: Iterable[int]) -> str | None:
    """Return the report on the first difference among the scenarios of some seeds; None if there is none."""
    return report_on_first(seeds, Scenario.of, compare, _MODULE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare as often as the command line asks for; return the exit code."""
    return run_simulations(_MODULE, __doc__, report_on, arguments)


if __name__ == "__main__":
    sys.exit(main())
