"""Many simulations, as a command: ``python -m tests.simulation --runs 100000``."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.simulation.campaign import be_quiet, report_on

_CHUNK = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="how many simulations")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first; each next one has the next seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    given = parser.parse_args(arguments)
    last = given.seed + given.runs
    chunks = [range(start, min(start + _CHUNK, last)) for start in range(given.seed, last, _CHUNK)]
    started, done = time.monotonic(), 0
    for chunk, report in _reports(chunks, min(given.jobs, len(chunks))):
        if report is not None:
            sys.stdout.write(f"{report}\n")
            return 1
        done += len(chunk)
        if done // 1000 > (done - len(chunk)) // 1000:
            sys.stdout.write(f"{done} of {given.runs} simulations, {time.monotonic() - started:.0f} s\n")
            sys.stdout.flush()
    sys.stdout.write(f"{done} simulations from seed {given.seed} passed in {time.monotonic() - started:.0f} s\n")
    return 0


def _reports(chunks: list[range], jobs: int) -> Iterator[tuple[range, str | None]]:
    if jobs <= 1:
        yield from ((chunk, report_on(chunk)) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=be_quiet) as pool:
        try:
            yield from zip(chunks, pool.map(report_on, chunks), strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    be_quiet()
    sys.exit(main())
