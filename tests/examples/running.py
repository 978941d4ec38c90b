"""Running the stream of an example in a test."""

from collections.abc import Callable
from typing import Any, Literal

import tidewheel as tw
from examples.parts.program import by_epoch

DEADLINE_S = 60.0


def captured(
    describe: Callable[[tw.Dataflow], tw.Stream[Any]], workers: int, engine: Literal["local", "ray"] = "local"
) -> dict[Any, list[Any]]:
    """Return the batches of the stream that ``describe`` puts into a dataflow, for each epoch in order."""
    flow = tw.Dataflow("example")
    describe(flow).capture("found")
    with tw.run(flow, workers=workers, engine=engine) as job:
        job.wait(timeout_s=DEADLINE_S)
        return by_epoch(job, "found")


def records(batches: list[Any]) -> list[Any]:
    """Return the records of some batches, which are lists, in no particular order."""
    return [record for batch in batches for record in batch]


def columns(batches: list[Any], *names: str) -> list[tuple[Any, ...]]:
    """Return the rows of some tables as tuples of these columns."""
    return [row for table in batches for row in zip(*(table[name].to_pylist() for name in names), strict=True)]


def epochs(batches: list[Any]) -> tw.IterableSource[Any]:
    """Return a source of two partitions, which have a part each of the batch of every epoch."""
    halves = [(batch[: len(batch) // 2], batch[len(batch) // 2 :]) for batch in batches]
    return tw.IterableSource([list(enumerate(half)) for half in zip(*halves, strict=True)])
