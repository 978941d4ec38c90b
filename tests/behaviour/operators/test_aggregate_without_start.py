"""Aggregate without a start: the records of a key and epoch joined into one."""

import pytest

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, run


def test_one_record_of_each_key_travels() -> None:
    """The function is applied before the exchange."""
    flow = tw.Dataflow("test")
    source = tw.IterableSource([[(0, list(range(100))) for _ in range(20)]])
    flow.source("numbers", source).aggregate(lambda n: n % 2, add=max).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        assert bags(job.captured("results")) == {0: {(0, 98): 1, (1, 99): 1}}
        assert sum(edge.records for edge in job.statistics().edges if edge.target.endswith("'aggregate'")) == 2


def test_a_single_record_is_its_own_result() -> None:
    """The function is not called where there is nothing to join."""
    results = run(
        lambda stream: stream.aggregate(lambda n: n, add=lambda one, other: 1 // 0), Case([(0, [1, 2])], workers=2)
    )
    assert bags(results) == {0: {(1, 1): 1, (2, 2): 1}}


def test_a_function_that_returns_nothing_is_an_error() -> None:
    """The error says which records it was called with."""
    message = r"operator 'aggregate: partial' failed on worker 0 at time 0: TypeError: 2 was added to 1, and .* None"
    with pytest.raises(tw.JobError, match=message):
        run(lambda stream: stream.aggregate(lambda n: 0, add=lambda one, other: None), Case([(0, [1, 2])]))
