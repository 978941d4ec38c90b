"""Inputs that say what their records are: what passes, and what the error says of what does not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, Protocol, TypedDict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import ARRAYS, LISTS, TABLES, Case, bags, cases, expected, operator_settings, send
from tidewheel.runtime.description.dataflow_description import description_of

UserId = NewType("UserId", int)
SCHEMA = pa.schema({"n": pa.int64()})


class Row(TypedDict):
    """A row of a table."""

    n: int


class Sized(Protocol):
    """Not to be looked for at run time."""

    def __len__(self) -> int: ...


@dataclass
class Event:
    """A record of a user's own."""

    at: int


def run_with(records: Any, batch: Any, time: int = 0) -> list[Any]:
    """Return what came of one batch, sent at ``time`` to an input of ``records``."""
    flow = tw.Dataflow("typed")
    flow.input("in", records).capture("out")
    with tw.run(flow, engine="local") as job:
        with job.input("in") as handle:
            handle.advance_to(time)
            handle.send(batch)
        job.wait()
        return [(entry.time, entry.batch) for entry in job.captured("out")]


@operator_settings()
@given(cases(LISTS, ARRAYS))
def test_records_of_the_type_arrive(case: Case) -> None:
    """A type changes nothing for those that are of it: ints, in lists and in arrays."""
    flow = tw.Dataflow("typed")
    flow.input("in", int).capture("out")
    with tw.run(flow, workers=case.workers, engine="local") as job:
        send(job, "in", case.feed, case.kind)
        job.wait()
        assert bags(job.captured("out"), case.kind) == expected(case.feed)


@operator_settings()
@given(cases(TABLES))
def test_tables_of_the_schema_arrive(case: Case) -> None:
    """And so it is with a schema, which stays that of the tables."""
    flow = tw.Dataflow("typed")
    flow.input("in", SCHEMA).capture("out")
    with tw.run(flow, workers=case.workers, engine="local") as job:
        send(job, "in", case.feed, case.kind)
        job.wait()
        assert bags(job.captured("out"), case.kind) == expected(case.feed)
        assert all(entry.batch.schema == SCHEMA for entry in job.captured("out"))


@pytest.mark.parametrize(
    ("records", "batch"),
    [
        (int, [True]),
        (float, [1]),
        (complex, [1.5]),
        (object, [None]),
        (Any, [None]),
        (tuple[str, int], [("a", 1)]),
        (list[int], [[1]]),
        (dict, pa.table({"n": [1]})),
        (Row, pa.table({"n": [1]})),
        (Row, [{"n": 1}]),
        (int | None, [None]),
        (int | tuple[str, int], [("a", 1)]),
        (UserId, [7]),
        (Literal["a", "b"], ["a"]),
        (Annotated[int, "a number"], [7]),
        (Callable[[int], int], [abs]),
        (Sized, [[]]),
        (Event, [Event(1)]),
        (int, np.array([1, 2])),
        (tuple, np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])),
        (int, [1, "only the first is looked at"]),
        (int, []),
    ],
    ids=str,
)
def test_what_is_of_a_type(records: Any, batch: Any) -> None:
    """Types mean what they mean for type checkers: an int is a float, a row is a typed dict, a new type its old one."""
    results = run_with(records, batch)
    assert len(results) == bool(len(batch))


@pytest.mark.parametrize(
    ("records", "batch", "message"),
    [
        (int, ["1"], "input 'in' has records of int, not str: '1'"),
        (int, pa.table({"n": [1]}), r"has records of int, not dict: {'n': 1}"),
        (str, np.array([1.5]), "has records of str, not float: 1.5"),
        (int, [1.0], "has records of int, not float: 1.0"),
        (tuple[str, int], [["a", 1]], r"has records of tuple\[str, int\], not list: \['a', 1\]"),
        (int | None, ["1"], r"has records of int \| None, not str: '1'"),
        (Row, [("n", 1)], r"not tuple: \('n', 1\)"),
        (Event, [None], "has records of Event, not NoneType: None"),
        (int, ["x" * 1000], "not str: 'x{199}(?!x)"),
        (SCHEMA, [1], r"a list came, where an Arrow table is expected with \(n: int64\)"),
        (SCHEMA, pa.table({"n": ["a"]}), "column 'n' is string, not int64"),
        (SCHEMA, pa.table({"n": [1], "m": [1]}), "column 'm' is one too many"),
    ],
    ids=str,
)
def test_what_is_not_fails_the_job(records: Any, batch: Any, message: str) -> None:
    """The error names the input, its time, what was promised and what came."""
    with pytest.raises(tw.JobError, match=rf"at time 3.*TypeError: .*{message}") as caught:
        run_with(records, batch, time=3)
    assert (caught.value.operator, caught.value.worker) == ("input in", 0)


@pytest.mark.parametrize("records", [3, "int", [int], ...], ids=str)
def test_what_is_no_type_is_refused(records: Any) -> None:
    """When the dataflow is described, and the dataflow stays as it was."""
    flow = tw.Dataflow("typed")
    with pytest.raises(tw.GraphError, match="input 'in': what its records are is said by a class, such as int"):
        flow.input("in", records)
    assert description_of(flow).size == 0
    flow.input("in")


def test_a_schema_is_known_from_the_input_on() -> None:
    """A column that is not in it is an error before anything runs, and a structured array becomes a table of it."""
    with pytest.raises(tw.GraphError, match="operator 'select': there is no column 'm'"):
        tw.Dataflow("typed").input("in", SCHEMA).select("m")
    ((_, batch),) = run_with(SCHEMA, np.array([(1,), (2,)], dtype=[("n", np.int64)]))
    assert batch.to_pydict() == {"n": [1, 2]}
