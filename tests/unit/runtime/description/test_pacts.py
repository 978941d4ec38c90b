"""Pacts that look at no record."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tidewheel.batches.batches import concatenate, length, records
from tidewheel.runtime.description.pacts import BroadcastPact, Exchange, RebalancePact


@given(st.lists(st.integers(1, 20), max_size=20), st.integers(1, 6), st.integers(0, 5))
def test_shares_never_differ_by_more_than_one(sizes: list[int], workers: int, begins: int) -> None:
    """After any number of batches of any size, each worker has its share, and nothing is lost or out of order."""
    pact = RebalancePact().for_worker(begins % workers)
    shares = [0] * workers
    for size in sizes:
        parts = pact.split(list(range(size)), workers)
        assert [record for part in parts if part is not None for record in part] == list(range(size))
        shares = [share + (0 if part is None else len(part)) for share, part in zip(shares, parts, strict=True)]
        assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    "make", [list, np.array, lambda rows: pa.table({"n": rows}), lambda rows: pa.record_batch({"n": rows})]
)
def test_slices_are_of_the_kind_of_the_batch(make: Any) -> None:
    """Every kind of batch can be divided, and joined again."""
    batch = make([1, 2, 3, 4, 5])
    parts = [part for part in RebalancePact().split(batch, 2) if part is not None]
    assert [length(part) for part in parts] == [3, 2]
    assert {type(part) for part in parts} == {type(batch)}
    assert records(concatenate(parts)) == records(batch)


def test_each_edge_and_worker_has_turns_of_its_own() -> None:
    """What a pact remembers is not shared, so that a dataflow runs the same way each time; others remember nothing."""
    pact = RebalancePact()
    for _ in range(2):
        assert pact.for_worker(0).split(["a"], 2) == [["a"], None]
    assert pact.for_worker(1).split(["c"], 2) == [None, ["c"]]
    for stateless in (BroadcastPact(), Exchange("n")):
        assert stateless.for_worker(3) is stateless


def test_two_runs_of_one_dataflow_are_the_same() -> None:
    """A description is not changed by being run."""
    flow = tw.Dataflow("test")
    flow.input("numbers").rebalance().capture("results")
    runs = []
    for _ in range(2):
        with tw.run(flow, workers=2, engine="local") as job:
            with job.input("numbers") as numbers:
                numbers.send([1])
                numbers.send([2, 3, 4])
            job.wait()
            runs.append([result.batch for result in job.captured("results")])
    assert runs[0] == runs[1]
