"""Iterate: sending a stream round a loop until nothing comes back."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import LISTS, TABLES, Case, bags, cases, expected, operator_settings, run


def halve(numbers: tw.Stream[int]) -> tw.Stream[int]:
    """Send each number to the worker that owns it, and halve it."""
    return numbers.exchange(lambda number: number).map(lambda number: number // 2)


class Walk(NamedTuple):
    """A number on its way to 1."""

    start: int
    now: int
    steps: int


def halve_or_triple(number: int) -> int:
    """Take one step of Collatz' sequence."""
    return number // 2 if number % 2 == 0 else 3 * number + 1


def steps_to_one(number: int) -> int:
    """Return how many steps of Collatz' sequence lead to 1, in plain Python."""
    steps = 0
    while number != 1:
        number, steps = halve_or_triple(number), steps + 1
    return steps


def walked(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return (number, steps) of the numbers for which the sequence ends."""
    return [(number, steps_to_one(number)) for number in numbers if number > 0]


def collatz(walks: tw.Stream[Walk]) -> tuple[tw.Stream[Walk], tw.Stream[Walk]]:
    """Take one step with each walk that is not at 1, on the worker that owns where it is; let the others leave."""
    here = walks.exchange(lambda walk: walk.now)
    again = here.filter(lambda walk: walk.now != 1).map(
        lambda walk: Walk(walk.start, halve_or_triple(walk.now), walk.steps + 1)
    )
    return again, here.filter(lambda walk: walk.now == 1)


@operator_settings()
@given(cases())
def test_collatz_steps_with_all_epochs_in_flight(case: Case) -> None:
    """Records of many epochs, each with its own number of rounds, end as plain Python says, at their time."""

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        numbers = stream.map(case.kind.number).filter(lambda number: number > 0)
        walks = numbers.map(lambda number: Walk(number, number, 0)).iterate(collatz, name="collatz")
        return walks.map(lambda walk: (walk.start, walk.steps))

    assert bags(run(describe, case)) == expected(case.feed, walked)


def start_walks(table: Any) -> Any:
    kept = table["n"].to_numpy()[table["n"].to_numpy() > 0]
    return pa.table({"start": kept, "now": kept, "steps": np.zeros(len(kept), np.int64)})


def columnar_step(table: Any) -> Any:
    now = table["now"].to_numpy()
    moved = np.where(now % 2 == 0, now // 2, 3 * now + 1)
    return pa.table({"start": table["start"], "now": moved, "steps": table["steps"].to_numpy() + 1})


def columnar_collatz(walks: tw.Stream[Any]) -> tuple[tw.Stream[Any], tw.Stream[Any]]:
    """Do the same as `collatz` on columns."""
    here = walks.exchange("start")
    moving = here.map_batches(lambda table: table.filter(pc.field("now") != 1))
    return moving.map_batches(columnar_step), here.map_batches(lambda table: table.filter(pc.field("now") == 1))


@operator_settings(20)
@given(cases(TABLES))
def test_a_loop_of_arrow_tables(case: Case) -> None:
    """A loop can be columnar all the way round: what is fed back stays Arrow, and ends where plain Python does."""
    results = run(lambda stream: stream.map_batches(start_walks).iterate(columnar_collatz), case)
    assert all(isinstance(result.batch, pa.Table) for result in results)
    pairs = [
        tw.types.Captured(result.time, [(row["start"], row["steps"]) for row in result.batch.to_pylist()])
        for result in results
    ]
    assert bags(pairs) == expected(case.feed, walked)


@operator_settings(30)
@given(cases(LISTS))
def test_loops_one_after_the_other(case: Case) -> None:
    """The result of a loop is a stream like any other, that can go into the next."""

    def down(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        return numbers.filter(lambda n: n > 9).map(lambda n: n - 10), numbers.filter(lambda n: n <= 9)

    def up(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        return numbers.filter(lambda n: n < 0).map(lambda n: n + 10), numbers.filter(lambda n: n >= 0)

    results = run(lambda stream: stream.iterate(down).iterate(up), case)
    assert bags(results) == expected(case.feed, lambda numbers: [n % 10 for n in numbers])


def test_a_loop_that_nothing_goes_round_is_just_passed() -> None:
    """Records that leave at once are not held up by the loop, and times complete."""
    results = run(
        lambda stream: stream.iterate(lambda inner: (inner.filter(lambda _: False), inner)), Case([(0, [1]), (1, [2])])
    )
    assert [(result.time, result.batch) for result in results] == [(0, [1]), (1, [2])]


def test_a_body_that_raises_leaves_nothing_behind() -> None:
    """A notebook's cell that failed half-way can be corrected and run again."""
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers")

    def broken(inner: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        inner.map(lambda n: n - 1).probe("inside")
        raise LookupError("not yet")

    with pytest.raises(LookupError, match="not yet"):
        numbers.iterate(broken)
    numbers.iterate(lambda inner: (inner.filter(lambda _: False), inner)).probe("inside").capture("results")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait()
        assert [entry.batch for entry in job.captured("results")] == [[1]]


def test_a_number_of_rounds_counts_for_each_loop_by_itself() -> None:
    """An inner loop of three rounds goes round three times in each of the two rounds of the outer one."""

    def inner(numbers: tw.Stream[int]) -> tw.Stream[int]:
        return numbers.map(lambda number: number + 1)

    def outer(numbers: tw.Stream[int]) -> tw.Stream[int]:
        return numbers.iterate(inner, name="inner", max_rounds=3).map(lambda number: number * 100)

    results = run(lambda stream: stream.iterate(outer, name="outer", max_rounds=2), Case([(0, [0]), (4, [1])]))
    assert [(result.time, result.batch) for result in results] == [(0, [30300]), (4, [40300])]


def test_records_see_as_many_rounds_as_were_asked_for() -> None:
    """With max_rounds=n the body is passed in rounds 0 to n - 1, and nothing is under way at a later time."""
    rounds: list[Any] = []

    def body(numbers: tw.Stream[int]) -> tw.Stream[int]:
        return numbers.inspect_batches(lambda batch, time, worker: rounds.append(time))

    results = run(lambda stream: stream.iterate(body, max_rounds=3), Case([(7, [1])]))
    assert [(result.time, result.batch) for result in results] == [(7, [1])]
    assert rounds == [(7, 0), (7, 1), (7, 2)]


@pytest.mark.parametrize("rounds", [0, -1, 2.0, True, "3"])
def test_rounds_are_a_number_from_one_on(rounds: Any) -> None:
    """Anything else is refused when the dataflow is described."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.iterate(halve, name="sums", max_rounds=rounds)


@pytest.mark.parametrize(
    ("rounds", "said"), [(None, "leaves\\), not"), (3, "leaves\\), or only what goes round again, not")]
)
def test_a_body_that_returns_something_else_is_refused(rounds: Any, said: str) -> None:
    """The error says what a body returns: one stream will do only where a number of rounds ends the loop."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    body: Any = (lambda inner: inner) if rounds is None else (lambda inner: (inner, inner, inner))
    with pytest.raises(tw.GraphError, match=rf"the body of 'iterate' must return two streams, .*{said}"):
        stream.iterate(body, max_rounds=rounds)
