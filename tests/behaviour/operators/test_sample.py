"""Sample: a share of the records, chosen by hash."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import ARRAYS, Case, cases, operator_settings, run
from tests.kit.operators.operator_case import ONLY_ARROW, OperatorCase, each_epoch, number_of
from tidewheel.batches.batches import is_arrow, is_numpy, records
from tidewheel.runtime.description.stable_hash import stable_hash

MASK = (1 << 64) - 1


def is_chosen(number: int, fraction: float, seed: int) -> bool:
    """Tell by SplitMix64, in plain Python, whether a number is in the sample."""
    mixed = (stable_hash(number) + stable_hash(seed)) & MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) & MASK
    return bool((mixed ^ (mixed >> 31)) < fraction * 2**64)


def half(numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers if is_chosen(number, 0.5, 7)]


CASES = [
    OperatorCase("sample", lambda stream: stream.sample(0.5, 7, key=number_of), each_epoch(half)),
    OperatorCase("sample", lambda stream: stream.sample(0.5, 7), each_epoch(half), kinds=(ARRAYS,), name="array"),
    OperatorCase("sample", lambda stream: stream.sample(0.5, 7, key="n"), each_epoch(half), ONLY_ARROW, name="column"),
]


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


@pytest.mark.parametrize("fraction", [-0.1, 1.1, "0.5", None, True, float("nan")])
def test_a_fraction_that_is_none_is_refused(fraction: Any) -> None:
    """When the dataflow is described; so is a seed, or a key, that is none."""
    stream = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.sample(fraction)


def test_seeds_and_keys_are_checked() -> None:
    """The error says which of them is wrong, and which record has no hash."""
    stream = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.sample(0.5, "x")  # type: ignore[arg-type]
    with raises(tw.GraphError):
        stream.sample(0.5, key=3)  # type: ignore[arg-type]
    with raises(tw.JobError):
        sampled([open], 0.5)
