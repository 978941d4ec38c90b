"""Running a source to its end, for tests of sources."""

from collections import Counter
from typing import Any

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S, Bags
from tests.kit.operators.operator_case import plain_bags


def flow_of(source: Any, **options: Any) -> tw.Dataflow:
    """Return a dataflow that captures what ``source`` has."""
    flow = tw.Dataflow("test")
    flow.source("source", source, **options).probe("read").capture("results")
    return flow


def read(source: Any, workers: int = 1, **options: Any) -> tw.types.CapturedBatches:
    """Return what ``source`` has, batch by batch."""
    with tw.run(flow_of(source, **options), workers=workers, engine="local") as job:
        job.wait(DEADLINE_S)
        return job.captured("results")


def bags_of(source: Any, workers: int = 1) -> Bags:
    """Return the records of ``source`` by time."""
    return plain_bags(read(source, workers))


def bag(*records: Any) -> Counter[Any]:
    """Return a bag of records."""
    return Counter(records)
