"""The command line of simulations: many of them, in several processes."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeAlias

ReportOn: TypeAlias = Callable[[Iterable[int]], str | None]
"""Runs the simulations of some seeds and returns the report on the first that fails; a function of a module."""

_CHUNK = 100


def run_simulations(
    package: str,
    description: str | None,
    worlds: Mapping[str, ReportOn],
    arguments: Sequence[str] | None,
    runs: int = 10_000,
) -> int:
    """Run the simulations that the command line asks for; return the exit code.

    Args:
        package: of the simulations; ``python -m`` runs it.
        description: of the command.
        worlds: by the name of each world, what runs some simulations of it.
        arguments: of the command line; by default those of this process.
        runs: how many simulations run if the command line does not say.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("world", nargs="?", choices=list(worlds), default=next(iter(worlds)), help="what it has")
    parser.add_argument("--runs", type=int, default=runs, help="how many simulations")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first; each next one has the next seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    given = parser.parse_args(arguments)
    last = given.seed + given.runs
    chunks = [range(start, min(start + _CHUNK, last)) for start in range(given.seed, last, _CHUNK)]
    started, done = time.monotonic(), 0
    for chunk, report in _reports(worlds[given.world], chunks, min(given.jobs, len(chunks))):
        if report is not None:
            sys.stdout.write(f"{report}\n")
            return 1
        done += len(chunk)
        if done // 1000 > (done - len(chunk)) // 1000:
            sys.stdout.write(f"{done} of {given.runs} simulations, {time.monotonic() - started:.0f} s\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{done} simulations of {given.world} from seed {given.seed} passed in {time.monotonic() - started:.0f} s\n"
    )
    return 0


def be_quiet() -> None:
    """Keep workers from warning of the tokens that are leaked on purpose, in this process."""
    logging.getLogger("tidewheel").setLevel(logging.ERROR)


def _reports(report_on: ReportOn, chunks: list[range], jobs: int) -> Iterator[tuple[range, str | None]]:
    if jobs <= 1:
        yield from ((chunk, report_on(chunk)) for chunk in chunks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=be_quiet) as pool:
        try:
            yield from zip(chunks, pool.map(report_on, chunks), strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
