"""Inputs that say what their records are: what passes, and what the error says of what does not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, Protocol, TypedDict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import ARRAYS, LISTS, TABLES, Case, bags, cases, expected, operator_settings, send
from tidewheel.operators.sources.input import check_for
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
        (int, [0, 1, *["of 65, the driver looks at every third, a worker at those after them"], *range(62)]),
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
def test_what_is_not_is_an_error_where_it_is_sent(records: Any, batch: Any, message: str) -> None:
    """The error names the input, what was promised and what came; nothing was sent, and the job goes on."""
    flow = tw.Dataflow("typed")
    flow.input("in", records).capture("out")
    with tw.run(flow, engine="local") as job:
        with pytest.raises(TypeError, match=message):
            job.input("in").send(batch)
        assert job.input("in").statistics.batches == 0
        job.input("in").close()
        job.wait()
        assert list(job.captured("out")) == []


@pytest.mark.parametrize(("records", "batch"), [(int, ["1"]), (SCHEMA, [1])], ids=str)
def test_what_another_process_sends_is_checked_on_the_worker(records: Any, batch: Any) -> None:
    """There, a feeder does not know the type: the job fails, and the error names the input and its time."""
    flow = tw.Dataflow("typed")
    flow.input("in", records).capture("out")

    def run() -> None:
        with tw.run(flow, engine="local") as job, job.input("in") as handle:
            handle._fed.check = None
            handle.advance_to(3)
            handle.send(batch)
            handle.close()
            job.wait()

    with raises(tw.JobError) as caught:
        run()
    assert (caught.value.operator, caught.value.worker) == ("input in", 0)


@pytest.mark.parametrize("place", [0, 13, 31])
def test_a_mistake_anywhere_in_a_batch_of_a_few(place: int) -> None:
    """Of up to 32 records, `send` looks at all."""
    batch: list[Any] = list(range(32))
    batch[place] = "wrong"
    with raises(TypeError):
        run_with(int, batch)


@pytest.mark.parametrize("kind", [list, np.array], ids=["list", "array"])
@pytest.mark.parametrize("place", [0, 13, 99])
def test_a_mistake_that_each_batch_has_is_found(place: int, kind: Callable[[Any], Any]) -> None:
    """Of larger batches, other records are looked at each time."""
    batch = np.array(range(100), dtype=object)
    batch[place] = "wrong"
    check = check_for("in", int)
    assert check is not None
    sent = batch if kind is np.array else batch.tolist()
    with raises(TypeError):
        [check(sent, turn) for turn in range(4)]


def test_the_driver_looks_at_others_each_time() -> None:
    """What it has sent goes on."""
    flow = tw.Dataflow("typed")
    flow.input("in", int)
    with tw.run(flow, engine="local") as job, job.input("in") as handle:
        handle.send([1])
        with raises(TypeError):
            handle.send([1, "wrong"] * 32)


def test_a_worker_looks_at_other_records_than_the_driver() -> None:
    """So it may find at once what the driver has missed."""
    flow = tw.Dataflow("typed")
    flow.input("in", int).capture("out")
    with raises(tw.JobError):
        run_with(int, [1, "wrong"] * 32)


WRONG = "input 'in' has records of int, not "


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("records", "batch", "results", "failures"),
    [
        (int, [1, "a", 2, None], [1, 2], [("a", WRONG + "str: 'a'"), (None, WRONG + "NoneType: None")]),
        (int, [*range(100), "a"], [*range(100)], [("a", WRONG + "str: 'a'")]),
        (int, ["a"], [], [("a", WRONG + "str: 'a'")]),
        (int, [1], [1], []),
        (int, np.array([1, 2]), [1, 2], []),
        (int, np.array([1.5]), [], [(1.5, WRONG + "float: 1.5")]),
        (int, np.array([1, "a"], dtype=object), [1], [("a", WRONG + "str: 'a'")]),
        (int, pa.table({"n": [1]}), [], [({"n": 1}, WRONG + "dict: {'n': 1}")]),
        (dict, pa.table({"n": [1]}), [{"n": 1}], []),
        (SCHEMA, pa.table({"n": [1]}), [{"n": 1}], []),
        (SCHEMA, [1], [], [(1, "a list came, where an Arrow table is expected with (n: int64)")]),
    ],
    ids=str,
)
def test_bad_records_go_to_a_stream_of_their_own(
    records: Any, batch: Any, results: list[Any], failures: list[Any], workers: int
) -> None:
    """Each as a `FailedRecord` that says why, at its time; the others go on, and the job does not fail."""
    flow = tw.Dataflow("typed")
    bad = flow.dead_letters()
    good = flow.input("in", records, dead_letters=bad)
    good.map(lambda record: record).capture("good")
    bad.capture("bad")
    with tw.run(flow, engine="local", workers=workers) as job:
        with job.input("in") as handle:
            handle.advance_to(3)
            handle.send(batch)
        job.wait()
        assert [(entry.time, record) for entry in job.captured("good") for record in entry.batch] == [
            (3, record) for record in results
        ]
        found = [(entry.time, failed) for entry in job.captured("bad") for failed in entry.batch]
    assert [(time, failed[:4]) for time, failed in found] == [
        (3, (record, "TypeError", reason, "check in")) for record, reason in failures
    ]


def test_bad_records_of_a_divided_input() -> None:
    """The good ones can be divided into substreams, whose ends come though records were diverted."""
    flow = tw.Dataflow("typed")
    bad = flow.dead_letters()
    good = flow.input("in", tuple, dead_letters=bad)
    parts = good.substreams("part", key=lambda pair: pair[0], last=lambda pair: pair[1] == 2)
    parts.collect_substream(lambda key, pairs: (key, len(pairs))).capture("good")
    bad.capture("bad")
    with tw.run(flow, engine="local", workers=2) as job:
        with job.input("in") as handle:
            handle.send([("a", 1), "wrong", ("a", 2)])
        job.wait()
        assert [record for entry in job.captured("good") for record in entry.batch] == [("a", 2)]
        assert [failed.record for entry in job.captured("bad") for failed in entry.batch] == ["wrong"]


def test_letters_of_what_has_no_type_are_refused() -> None:
    """There would be none, and so are those that are no letters; the dataflow stays as it was."""
    flow = tw.Dataflow("typed")
    letters = flow.dead_letters()
    with raises(tw.GraphError):
        flow.input("in", None, dead_letters=letters)  # type: ignore[call-overload]
    with raises(tw.GraphError):
        flow.input("in", int, dead_letters="divert")  # type: ignore[call-overload]
    assert description_of(flow).size == 1
    flow.input("in")


@pytest.mark.parametrize("records", [3, "int", [int], ...], ids=str)
def test_what_is_no_type_is_refused(records: Any) -> None:
    """When the dataflow is described, and the dataflow stays as it was."""
    flow = tw.Dataflow("typed")
    with raises(tw.GraphError):
        flow.input("in", records)
    assert description_of(flow).size == 0
    flow.input("in")


def test_a_schema_is_known_from_the_input_on() -> None:
    """A column that is not in it is an error before anything runs, and a structured array becomes a table of it."""
    with raises(tw.GraphError):
        tw.Dataflow("typed").input("in", SCHEMA).select("m")
    ((_, batch),) = run_with(SCHEMA, np.array([(1,), (2,)], dtype=[("n", np.int64)]))
    assert batch.to_pydict() == {"n": [1, 2]}


def test_what_is_left_has_the_schema_of_the_input() -> None:
    """So a column that there is not is found when the dataflow is described, and a join knows the columns."""
    flow = tw.Dataflow("typed")
    good = flow.input("in", SCHEMA, dead_letters=flow.dead_letters())
    assert good.schema == SCHEMA
    with raises(tw.GraphError):
        good.select("m")
