"""What the commands that run many simulations have in common."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence

_CHUNK = 1000


def run_simulations(
    package: str,
    description: str | None,
    report_on: Callable[[Iterable[int]], str | None],
    arguments: Sequence[str] | None,
) -> int:
    """Run the simulations that the command line asks for; return the exit code.

    Args:
        package: of the tests; ``python -m`` runs it.
        description: what the command does.
        report_on: runs the simulations of some seeds, and returns what there is to say of the first that fails.
        arguments: of the command line; by default those of this process.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
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
