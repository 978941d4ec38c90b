"""Many simulations of exactly-once delivery, as a command: ``python -m tests.simulation_delivery --runs 10000``."""

import sys
from collections.abc import Sequence

from tests.kit.simulation.command import run_simulations
from tests.simulation_delivery.scenario import report_on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    return run_simulations("tests.simulation_delivery", __doc__, {"delivery": report_on}, arguments)


if __name__ == "__main__":
    sys.exit(main())
