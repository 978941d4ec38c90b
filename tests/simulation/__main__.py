"""Many simulations, as a command: ``python -m tests.simulation --runs 100000``."""

import sys
from collections.abc import Sequence

from tests.kit.simulation.command import be_quiet, run_simulations
from tests.simulation.campaign import report_on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    return run_simulations("tests.simulation", __doc__, report_on, arguments, runs=2000)


if __name__ == "__main__":
    be_quiet()
    sys.exit(main())
