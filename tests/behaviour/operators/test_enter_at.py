"""The enter_at operator."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run


def note(seen: list[tuple[Any, Any]], batch: list[Any], time: Any, worker: int) -> None:
    """Note each record of a batch with its time."""
    seen.extend((time, record) for record in batch)


def test_records_join_a_loop_that_is_under_way() -> None:
    """A record that enters at a later round meets those that have gone round until then; outside it has its time."""
    times: list[tuple[Any, Any]] = []

    def describe(stream: tw.Stream[int]) -> tw.Stream[int]:
        with stream.flow.scope("loop") as loop:
            back: tw.types.Feedback[int] = loop.feedback()
            inside = stream.enter_at(loop, lambda number: number).concat(back)
            again, done = inside.branch_when(lambda time: time[1] < 3)
            back.connect(again.inspect_batches(partial(note, times)))
            return done.leave()

    results = run(describe, Case([(5, [3, 1, 0])]))
    assert Counter(number for result in results for number in result.batch) == Counter([0, 1, 3])
    assert {result.time for result in results} == {5}
    assert sorted(times) == [((5, 0), 0), ((5, 1), 0), ((5, 1), 1), ((5, 2), 0), ((5, 2), 1)]


@pytest.mark.parametrize("at", [-1, 0.5, None, (0, 1)])
def test_what_is_no_round_is_an_error(at: Any) -> None:
    """The error shows the record and the time that it would have had."""

    def describe(stream: tw.Stream[int]) -> tw.Stream[int]:
        return stream.enter_at(stream.flow.scope("loop"), lambda _: at)

    with raises(tw.JobError):
        run(describe, Case([(5, [7])]))


def test_only_a_loop_is_entered() -> None:
    """What is no loop, or one that lies elsewhere, is refused as `enter` refuses it."""
    flow = tw.Dataflow("test")
    stream: tw.Stream[int] = flow.input("numbers")
    with raises(tw.GraphError):
        stream.enter_at("loop", abs)  # type: ignore[arg-type]
    with raises(tw.GraphError):
        stream.enter_at(flow.scope("outer").inner("inner"), abs)
