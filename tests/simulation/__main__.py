"""Many simulations of a world, as a command: ``python -m tests.simulation jobs --runs 10000``."""

import sys
from collections.abc import Sequence
from functools import partial

from tests.kit.simulation.command import be_quiet, run_simulations
from tests.simulation.campaign import report_on
from tests.simulation.scenario import WORLDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    worlds = {name: partial(report_on, has) for name, has in WORLDS.items()}
    return run_simulations("tests.simulation", __doc__, worlds, arguments, runs=2000)


if __name__ == "__main__":
    be_quiet()
    sys.exit(main())
