"""Many simulations of snapshots and crashes, as a command: ``python -m tests.simulation_recovery --runs 20000``."""

import sys
from collections.abc import Sequence

from tests.kit.simulation.command import run_simulations
from tests.simulation_recovery.campaign import report_on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    return run_simulations("tests.simulation_recovery", __doc__, report_on, arguments)


if __name__ == "__main__":
    sys.exit(main())
