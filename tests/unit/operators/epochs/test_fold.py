"""Folds of epochs: when their results are sent, and what they keep until then."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import fail_flow
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.batches.batches import is_arrow
from tidewheel.operators.epochs.fold import MOST_KEPT, Fold, build_partial, pruned_fold
from tidewheel.operators.epochs.gathered_epochs import joined
from tidewheel.operators.epochs.picks import FirstOfEach, TopK, distinct_records
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.keys.record_order import Order


def add_size(sizes: list[int], batch: Any) -> list[int]:
    return [*sizes, len(batch) if batch != [0] else 1 // 0]


SIZES = Fold(list, add_size, lambda sizes: [tuple(sizes)], sum)
"""A fold that counts batches, and says that it is as large as their records add up to."""


def partial_flow() -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.operator([flow.input("numbers")], 1, build_partial(SIZES), notify=False, name="subject")[0].capture("results")
    return flow


def test_records_are_folded_as_long_as_they_keep_coming() -> None:
    """A time is sent when a call has no records of it, other times may go on; nothing is kept then."""
    group = WorkerGroup(partial_flow(), workers=1)

    def step(*batches: list[int]) -> list[Any]:
        for batch in batches:
            group.send("numbers", batch)
        group.deliver(0)
        group.step(0)
        return group.captured("results")

    assert step([1], [1, 2]) == []
    assert step([3]) == []
    group.advance("numbers", 1)
    assert step([4]) == [(0, [(1, 2, 1)])]
    assert step() == [(0, [(1, 2, 1)]), (1, [(1,)])]
    group.close("numbers")
    group.run()
    assert group.is_complete
    (states,) = (instance.kept.states for instance in group.cores[0]._instances if instance.name == "subject")
    assert states == {"partial": {}}
    assert group.cores[0].leaks == []


def test_what_becomes_too_large_is_sent_at_once() -> None:
    """Also while records keep coming."""
    flow = partial_flow()
    with tw.run(flow, engine="local") as job:
        for _ in range(5):
            job.input("numbers").send([1] * (MOST_KEPT // 2))
        job.input("numbers").close()
        job.wait()
        found = [record for result in job.captured("results") for record in result.batch]
    assert sum(map(sum, found)) == 5 * (MOST_KEPT // 2)
    assert max(map(sum, found)) <= MOST_KEPT * 3 // 2


def test_an_error_names_the_time() -> None:
    """Whether records are added or the result is made."""
    assert fail_flow(partial_flow(), [1], [0]).time == 1


def test_batches_are_joined_as_their_kind() -> None:
    """One kind stays what it is; several become a list of records."""
    table = pa.table({"n": [1]})
    assert joined([table, table]).num_rows == 2
    assert joined([np.array([1]), np.array([2])]).tolist() == [1, 2]
    assert joined([[1], [2]]) == [1, 2]
    assert joined([[{"n": 0}], table, table.to_batches()[0]]) == [{"n": 0}, {"n": 1}, {"n": 1}]


@pytest.mark.parametrize("size", [1, 100, 3000])
def test_what_does_not_matter_is_not_kept(size: int) -> None:
    """Of ever more records a fold keeps about as many as it will need."""
    fold = pruned_fold(lambda batch: sorted(set(batch)))
    state, most = fold.start(), 0
    for start in range(0, 30_000, size):
        state = fold.add(state, [number % 10 for number in range(start, start + size)])
        most = max(most, fold.size(state))
    assert most <= max(1024, size)
    assert fold.finish(state) == list(range(10))
    wide = pruned_fold(lambda batch: list(Counter(batch)))
    state = wide.start()
    for start in range(0, 30_000, 100):
        state = wide.add(state, list(range(start, start + 100)))
    assert wide.finish(state) == list(range(30_000))


def test_whatever_is_of_arrow_is_one_kind() -> None:
    """Record batches beside tables stay in Arrow, and a structured array beside them has columns too."""
    table = pa.table({"n": [1]})
    array = np.array([(2,)], dtype=[("n", "i8")])
    found = joined([table, table.to_batches()[0], array])
    assert found.equals(pa.table({"n": [1, 1, 2]}))
    assert joined([array, array]).tolist() == [(2,), (2,)]


@pytest.mark.parametrize("size", [4000, 1000, 300])
def test_beyond_what_is_gathered_record_batches_stay_columns(size: int) -> None:
    """However many there are, and beside tables: what passes is the same as of one table, and has columns."""
    rows = pa.table({"id": list(range(4000)), "n": [number * 7919 % 50 for number in range(4000)]})
    parts: list[Any] = [batch for start in range(0, 4000, size) for batch in rows.slice(start, size).to_batches()]
    mixed = [pa.Table.from_batches([part]) if place % 2 else part for place, part in enumerate(parts)]
    for pick in (
        TopK(3, None, Order("n", reverse=True)).pick,
        TopK(2, Keys("n"), Order("id")).pick,
        FirstOfEach(Keys("n"), None).pick,
        distinct_records,
    ):
        expected = pick(rows).sort_by("id").to_pylist()
        for batches in (parts, mixed):
            fold = pruned_fold(pick)
            state = fold.start()
            for batch in batches:
                state = fold.add(state, batch)
            found = fold.finish(state)
            assert is_arrow(found)
            assert joined([found]).sort_by("id").to_pylist() == expected
