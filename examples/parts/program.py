"""The common parts of the example programs: options, and the reading of results."""

import argparse
from dataclasses import dataclass
from typing import Any, Literal

import tidewheel as tw


@dataclass(frozen=True, slots=True)
class Options:
    """How an example runs: ``tw.run(flow, workers=options.workers, engine=options.engine)``."""

    workers: int
    engine: Literal["ray", "local"]


def options(description: str | None) -> Options:
    """Read ``--workers N`` and ``--engine ray|local``; without them it is two workers on Ray."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many workers; 2 by default")
    parser.add_argument(
        "--engine", choices=("ray", "local"), default="ray", help="on Ray, which is the default, or in this process"
    )
    given = parser.parse_args()
    return Options(given.workers, given.engine)


def by_epoch(job: tw.types.Job, name: str) -> dict[Any, list[Any]]:
    """Return the batches that ``capture(name)`` has kept, for each epoch in order."""
    captured = sorted(job.captured(name), key=lambda captured: captured.time)
    batches: dict[Any, list[Any]] = {}
    for one in captured:
        batches.setdefault(one.time, []).append(one.batch)
    return batches
