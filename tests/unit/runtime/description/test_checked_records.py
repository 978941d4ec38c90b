"""The debug mode that finds operators that change what they have received."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises

CHECKED = tw.RuntimeConfig(check_records=True)
Rows = tw.Stream[Any]


def change(row: dict[str, int]) -> dict[str, int]:
    """Change a record in place."""
    row["n"] += 1
    return row


def build_changing(context: tw.OperatorContext) -> Any:
    def schedule(input: Any, output: Any) -> None:
        for token, batch in input:
            batch.append({"n": 7})
            output.send(token, batch)

    return schedule


def run(describe: Callable[[Rows], object], batch: Any, config: tw.RuntimeConfig = CHECKED) -> list[Any]:
    """Run an operator beside a capture of the same stream; return what was captured."""
    flow = tw.Dataflow("shared")
    rows = flow.source("rows", tw.IterableSource([[(0, batch)]]))
    rows.capture("rows")
    describe(rows)
    with tw.run(flow, engine="local", config=config) as job:
        job.wait()
        return [captured.batch for captured in job.captured("rows")]


@pytest.mark.parametrize(
    ("name", "describe"),
    [
        ("bump", lambda rows: rows.filter(bool).map(change, name="bump").map(dict).probe("end")),
        ("flat_map", lambda rows: rows.flat_map(lambda row: [change(row)]).probe("end")),
        ("inspect", lambda rows: rows.inspect(change)),
        ("inspect_batches", lambda rows: rows.inspect_batches(lambda batch, time, worker: change(batch[0]))),
        ("own", lambda rows: rows.unary(build_changing, name="own")),
        ("map", lambda rows: rows.substreams("s", key="n", last=bool).map(change).probe("end")),
    ],
)
def test_the_operator_that_changes_a_record_is_named(name: str, describe: Callable[[Rows], object]) -> None:
    """It alone, also within a chain that runs as one."""
    with pytest.raises(tw.JobError, match=rf"operator '{name}' failed on worker 0.*has changed a record"):
        run(describe, [{"n": 1}])


def test_the_error_shows_both_and_what_to_do() -> None:
    """The first record that differs, as it came and as it is."""
    with raises(tw.JobError):
        run(lambda rows: rows.inspect(lambda row: change(row) if row["n"] == 2 else row), [{"n": 1}, {"n": 2}])


@pytest.mark.parametrize(
    "batch",
    [[{"n": 1}], [lambda: 1], pa.table({"n": [1]}), np.array([1, 2])],
    ids=["dicts", "functions", "table", "array"],
)
def test_what_changes_nothing_runs_as_ever(batch: Any) -> None:
    """Whatever the batches are, also records that cannot be pickled."""
    [found] = run(
        lambda rows: rows.map(lambda row: [row]).aggregate(len, start=list, add=lambda made, row: [*made, row]), batch
    )
    assert found is batch or found == batch


def build_firm(context: tw.OperatorContext) -> Any:
    def schedule(input: Any, output: Any) -> None:
        for token, batch in input:
            output.send(token, batch)
        list(input.ended)

    return schedule


@pytest.mark.parametrize("bound", ["soft", "firm"])
def test_operators_that_wait_for_substreams_run_as_ever(bound: Any) -> None:
    """Ends of substreams wait among the batches."""
    flow = tw.Dataflow("ends")
    split = flow.input("rows").substreams("s", key=lambda row: row[0])
    split.unary(build_firm, bound=bound, name="own").without_substreams().capture("rows")
    with tw.run(flow, engine="local", config=CHECKED) as job:
        with job.input("rows") as rows:
            rows.send([("a", 1), ("b", 2)])
            rows.end_substream("a")
            rows.send([("b", 3)])
        job.wait(timeout_s=30)
        assert sorted(row for got in job.captured("rows") for row in got.batch) == [("a", 1), ("b", 2), ("b", 3)]


def test_without_it_a_change_is_seen_by_others() -> None:
    """That is what `map` warns of."""
    assert run(lambda rows: rows.inspect(change), [{"n": 1}], tw.RuntimeConfig()) == [[{"n": 2}]]
