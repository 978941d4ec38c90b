"""Many simulations of exactly-once delivery, as a command: ``python -m tests.simulation_delivery --runs 10000``."""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.simulation_delivery.scenario import report_on

_CHUNK = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation_delivery", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="how many simulations")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first; each next one has the next seed")
    given = parser.parse_args(arguments)
    last = given.seed + given.runs
    started = time.monotonic()
    for start in range(given.seed, last, _CHUNK):
        report = report_on(range(start, min(start + _CHUNK, last)))
        if report is not None:
            sys.stdout.write(f"{report}\n")
            return 1
    passed = f"{given.runs} simulations from seed {given.seed} passed"
    sys.stdout.write(f"{passed} in {time.monotonic() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
