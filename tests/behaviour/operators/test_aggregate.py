"""Aggregate: a state for each key and epoch, made at once or from partial states."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, bags, run
from tests.kit.operators.operator_case import ONLY_ARROW, OperatorCase, each_epoch, number_of
from tidewheel.runtime.worker.operator_instance import OperatorInstance


def remainder(record: Any) -> int:
    return number_of(record) % 3


def sums(numbers: list[int]) -> dict[int, tuple[int, int]]:
    """Return (sum, how many) of the numbers of each remainder."""
    found: dict[int, tuple[int, int]] = {}
    for number in numbers:
        total, many = found.get(number % 3, (0, 0))
        found[number % 3] = (total + number, many + 1)
    return found


def add(state: tuple[int, int], record: Any) -> tuple[int, int]:
    return state[0] + number_of(record), state[1] + 1


def combine(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def mean(key: int, state: tuple[int, int]) -> tuple[int, float]:
    return key, state[0] / state[1]


CASES = [
    OperatorCase(
        "aggregate",
        lambda stream: stream.aggregate(remainder, start=lambda: (0, 0), add=add),
        each_epoch(lambda numbers: sums(numbers).items()),
    ),
    OperatorCase(
        "aggregate",
        lambda stream: stream.aggregate(remainder, start=lambda: (0, 0), add=add, finish=mean, combine=combine),
        each_epoch(lambda numbers: [(key, total / many) for key, (total, many) in sums(numbers).items()]),
        name="combined",
    ),
    OperatorCase(
        "aggregate",
        lambda stream: stream.aggregate("n", start=int, add=lambda total, row: total + row["n"], combine=int.__add__),
        each_epoch(lambda numbers: [(number, number * numbers.count(number)) for number in set(numbers)]),
        kinds=ONLY_ARROW,
        name="column",
    ),
]


def test_what_is_combined_travels_as_partial_states() -> None:
    """With `combine`, as many records leave a worker as it has keys, however many batches and records there are."""
    batches = [(0, list(range(100))) for _ in range(20)]
    flow = tw.Dataflow("test")
    stream = flow.source("numbers", tw.IterableSource([batches, batches]))
    stream.aggregate(remainder, start=int, add=lambda total, n: total + n, combine=int.__add__).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        results = [tuple(record) for result in job.captured("results") for record in result.batch]
        edges = [edge for edge in job.statistics().edges if edge.target.endswith("'aggregate'")]
    assert sorted(results) == [(key, 40 * sum(n for n in range(100) if n % 3 == key)) for key in range(3)]
    assert sum(edge.records for edge in edges) == 2 * 3


def test_states_may_be_changed_in_place() -> None:
    """Both functions may return the state that they were given, changed."""

    def put(state: list[int], number: int) -> list[int]:
        state.append(number)
        return state

    def both(one: list[int], other: list[int]) -> list[int]:
        one.extend(other)
        return one

    for joined in (None, both):
        results = run(
            lambda stream, joined=joined: stream.aggregate(  # type: ignore[misc]
                lambda n: n % 2,
                start=list,
                add=put,
                finish=lambda key, state: (key, tuple(sorted(state))),
                combine=joined,
            ),
            Case([(0, [1, 2, 3]), (0, [4, 5]), (1, [6])], workers=2),
        )
        assert bags(results) == {0: {(0, (2, 4)): 1, (1, (1, 3, 5)): 1}, 1: {(0, (6,)): 1}}


@pytest.mark.parametrize("combined", [False, True])
def test_several_names_make_a_tuple_and_nan_is_one_key(combined: bool) -> None:
    """Missing numbers of a column are one group, also as a part of a key, from whichever batch and worker."""
    table = pa.table({"a": [math.nan, math.nan, 1.0], "b": ["x", "x", "x"]})
    flow = tw.Dataflow("test")
    rows = flow.source("rows", tw.IterableSource([[(0, table), (0, table)], [(0, table)]]))
    add_one = lambda total, row: total + 1  # noqa: E731
    rows.aggregate(("a", "b"), start=int, add=add_one, combine=int.__add__ if combined else None).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        found = [record for result in job.captured("results") for record in result.batch]
    assert sorted((str(key), total) for key, total in found) == [("(1.0, 'x')", 3), ("(nan, 'x')", 6)]


def test_a_field_of_a_structured_array_is_a_key() -> None:
    """NumPy's records are tuples; the key is read from the field."""
    array = np.array([(1, 2.5), (1, 0.5), (2, 4.0)], dtype=[("k", "i8"), ("v", "f8")])
    flow = tw.Dataflow("test")
    rows = flow.source("rows", tw.IterableSource([[(0, array)]]))
    rows.aggregate("k", start=float, add=lambda total, row: total + row[1]).capture("results")
    with tw.run(flow, engine="local") as job:
        job.wait()
        assert job.captured("results") == [tw.types.Captured(0, [(1, 3.0), (2, 4.0)])]


def test_in_a_loop_each_round_is_an_epoch() -> None:
    """Records of a round are folded together; the next round begins anew."""

    def body(stream: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[tuple[int, int]]]:
        totals = stream.aggregate(lambda n: n % 2, start=int, add=lambda total, n: total + n, combine=int.__add__)
        return stream.map(lambda n: n - 2).filter(lambda n: n > 0), totals

    results = run(lambda stream: stream.iterate(body), Case([(0, [1, 3, 4]), (1, [5])], workers=2))
    assert bags(results) == {0: {(1, 4): 1, (0, 4): 1, (1, 1): 1, (0, 2): 1}, 1: {(1, 5): 1, (1, 3): 1, (1, 1): 1}}


def test_states_of_finished_epochs_are_dropped() -> None:
    """Whatever has been sent is not kept."""
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(time, [time]) for time in range(50)]]))
    totals = numbers.aggregate(lambda n: n % 3, start=int, add=int.__add__, combine=int.__add__)
    totals.unary(watch_states, name="watch").capture("results")
    most.clear()
    with tw.run(flow, engine="local") as job:
        for core in job._cores:  # type: ignore[attr-defined]
            instances.extend(core._instances)
        job.wait()
        assert len(job.captured("results")) == 50
        kept = [instance.kept.states for instance in instances if instance.kept.states]
    assert kept[1:] == [{"partial": {}}, {"epochs": {}}]
    assert max(most.values()) <= 3, "an epoch is dropped when it is complete, and not only in the end"
    instances.clear()


most: defaultdict[str, int] = defaultdict(int)
instances: list[OperatorInstance] = []


def watch_states(context: tw.OperatorContext) -> Any:
    """Build an operator that passes all on, and notes how many epochs the operators keep meanwhile."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for seen in instances:
            for name, state in seen.kept.states.items():
                most[name] = max(most[name], len(state) if isinstance(state, dict) else 0)
        for token, batch in input:
            output.send(token, batch)

    return schedule


@pytest.mark.parametrize("key", [None, 3, (), ["n"], ("n", 1)])
def test_a_key_that_is_none_is_refused(key: Any) -> None:
    """The error says what a key is, when the dataflow is described."""
    stream = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.aggregate(key, start=int, add=int.__add__)


@pytest.mark.parametrize("which", ["start", "add", "finish", "combine"])
def test_what_is_no_function_is_refused(which: str) -> None:
    """The error says which argument it was."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    functions: dict[str, Any] = {"start": int, "add": int.__add__, "finish": divmod, "combine": int.__add__, which: 0}
    with pytest.raises(tw.GraphError, match=f"aggregate, for {which}, takes a function, not 0"):
        stream.aggregate(lambda n: n, **functions)


def test_an_add_that_returns_nothing_is_an_error() -> None:
    """A state that was changed in place and not returned is found at once, and the error names operator and time."""
    message = r"(?s)operator 'aggregate' failed on worker 0 at time 3: TypeError: 5 was added to \[5\], and .* None"
    with pytest.raises(tw.JobError, match=message):
        run(lambda stream: stream.aggregate(lambda n: n, start=list, add=list.append), Case([(3, [5])]))


def test_a_combine_that_returns_nothing_is_an_error() -> None:
    """So are partial states that were not returned."""
    message = r"operator 'aggregate' failed on worker \d at time 3: TypeError: combine returned None for the key 1"
    flow = tw.Dataflow("test")
    numbers = flow.source("numbers", tw.IterableSource([[(3, [5])], [(3, [7])]]))
    numbers.aggregate(lambda n: 1, start=list, add=lambda state, n: [*state, n], combine=list.extend)  # type: ignore[misc]
    with pytest.raises(tw.JobError, match=message), tw.run(flow, workers=2, engine="local") as job:
        job.wait()


@pytest.mark.parametrize("combined", [False, True])
def test_a_key_that_cannot_be_hashed_is_named(combined: bool) -> None:
    """The error names the operator, the key or its type, and what a key can be."""
    message = r"(?s)operator 'aggregate.*\[5\] of type list cannot be a key"
    with pytest.raises(tw.JobError, match=message):
        run(
            lambda stream: stream.aggregate(
                lambda n: [n],
                start=int,
                add=int.__add__,
                combine=int.__add__ if combined else None,
            ),
            Case([(0, [5])]),
        )


def test_what_a_function_raises_is_told_with_operator_and_time() -> None:
    """A failing `finish` is reported at the time whose result it makes."""
    with raises(tw.JobError):
        run(
            lambda stream: stream.aggregate(
                lambda n: n, start=int, add=int.__add__, finish=lambda key, total: total // 0
            ),
            Case([(2, [5]), (4, [])]),
        )
