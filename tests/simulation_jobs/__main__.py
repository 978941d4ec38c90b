"""Many simulations of jobs that publish and crash, as a command: ``python -m tests.simulation_jobs --runs 10000``."""

import sys
from collections.abc import Sequence

from tests.kit.simulation.command import run_simulations
from tests.simulation_jobs.simulation import report_on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    return run_simulations("tests.simulation_jobs", __doc__, report_on, arguments)


if __name__ == "__main__":
    sys.exit(main())
