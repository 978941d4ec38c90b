"""The rebalance operator."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import Case, operator_settings, run, tag_with_worker


@operator_settings()
@given(st.lists(st.lists(st.integers(0, 9), max_size=7), max_size=9), st.integers(1, 4))
def test_what_one_worker_has_is_shared_evenly(batches: list[list[int]], workers: int) -> None:
    """Whatever the size of the batches and however equal the records, no two shares differ by more than one."""

    def describe(stream: tw.Stream[int]) -> tw.Stream[Any]:
        return stream.exchange(lambda _: 0).rebalance().unary(tag_with_worker, name="tag")

    results = run(describe, Case([(0, batch) for batch in batches], workers=workers))
    shares = Counter(dict.fromkeys(range(workers), 0))
    shares.update(worker for result in results for _, worker in result.batch)
    assert max(shares.values()) - min(shares.values()) <= 1
    assert shares.total() == sum(map(len, batches))


def test_arrow_is_sliced_without_a_copy() -> None:
    """The shares are slices of the table that was sent: they are in its memory."""
    seen: list[Any] = []
    flow = tw.Dataflow("test")
    flow.input("rows").inspect_batches(lambda batch, time, worker: seen.append(batch)).rebalance().capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        with job.input("rows") as rows:
            rows.send(pa.table({"n": pa.array(range(1001), pa.int64())}))
        job.wait()
        shares = [result.batch for result in job.captured("results")]
    assert sorted(share.num_rows for share in shares) == [500, 501]
    (table,) = seen
    addresses = {share["n"].chunk(0).buffers()[1].address for share in shares}
    assert addresses == {table["n"].chunk(0).buffers()[1].address}


@pytest.mark.parametrize("workers", [2, 4])
def test_single_records_go_to_each_worker_in_turn(workers: int) -> None:
    """Batches too small to divide go round, and not always to the same."""
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(time, [time]) for time in range(8)]]))
    numbers.rebalance().unary(tag_with_worker, name="tag").capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        turns = sorted(pair for result in job.captured("results") for pair in result.batch)
    assert turns == [(time, time % workers) for time in range(8)]
