"""Sample: a share of the records, chosen by hash."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, cases, operator_settings, run
from tidewheel.batches.batches import is_arrow, is_numpy, records


def sampled(batch: Any, fraction: float, seed: int = 0, key: Any = None) -> list[Any]:
    """Return what is chosen of a batch."""
    flow = tw.Dataflow("test")
    flow.source("records", tw.IterableSource([[(0, batch)]])).sample(fraction, seed, key=key).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        return [record for result in job.captured("results") for record in records(result.batch)]


@operator_settings(20)
@given(cases())
def test_batches_keep_their_kind_and_order(case: Case) -> None:
    """Tables and arrays are never taken apart; all or nothing can be chosen."""
    everything = run(lambda stream: stream.sample(1), case)
    assert len(everything) == sum(1 for _, numbers in case.feed if numbers)
    assert run(lambda stream: stream.sample(0), case) == []
    some = run(lambda stream: stream.sample(0.5), case)
    assert all(is_arrow(result.batch) == is_arrow(case.kind.make([1])) for result in some)
    assert all(is_numpy(result.batch) == is_numpy(case.kind.make([1])) for result in some)


def test_a_row_is_chosen_in_a_table_as_in_a_list() -> None:
    """The choice depends on the record alone; columns may stand in any order, and be nested."""
    table = pa.table({"b": [f"row {n}" for n in range(300)], "a": list(range(300))})
    chosen = sampled(table, 0.3)
    assert chosen == sampled(table.to_pylist(), 0.3) == sampled(table.select(["a", "b"]), 0.3)
    assert 60 < len(chosen) < 120
    nested = table.append_column("c", pa.array([[n] for n in range(300)]))
    assert sampled(nested, 0.3) == sampled(nested.to_pylist(), 0.3)


def test_seeds_choose_independently() -> None:
    """Of regular numbers the share is about right, and two seeds agree about as often as chance has it."""
    numbers = np.arange(0, 70_000, 7)
    one, other = set(sampled(numbers, 0.2, 1)), set(sampled(numbers, 0.2, 2))
    assert 1800 < len(one) < 2200
    assert 1800 < len(other) < 2200
    assert 300 < len(one & other) < 500
    assert set(sampled(numbers, 0.4, 1)) > one, "a larger share has the smaller one in it"


def test_all_records_of_a_key_are_kept_or_dropped() -> None:
    """By a function, a name or several names, for every kind of batch."""
    table = pa.table({"k": [n % 50 for n in range(500)], "v": list(range(500))})
    rows = table.to_pylist()
    found = [sampled(batch, 0.4, key=key) for batch in (table, rows) for key in ("k", lambda row: row["k"])]
    assert found[0] == found[1] == found[2] == found[3]
    assert sampled(table, 0.4, key=("k", "v")) == sampled(rows, 0.4, key=("k", "v"))
    kept = {row["k"] for row in found[0]}
    assert [row for row in rows if row["k"] in kept] == found[0]
    assert 0 < len(kept) < 50


def test_a_record_without_a_hash_fails_the_job() -> None:
    """The error shows it."""
    with raises(tw.JobError):
        sampled([open], 0.5)
