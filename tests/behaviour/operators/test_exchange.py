"""The exchange operator."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import (
    LISTS,
    RECORD_BATCHES,
    TABLES,
    Case,
    Feed,
    Kind,
    bags,
    cases,
    expected,
    feeds,
    operator_settings,
    run,
    send,
    tag_with_worker,
)
from tests.kit.operators.operator_case import ONLY_ARROW, OperatorCase, each_epoch, number_of

CASES = [
    OperatorCase("exchange", lambda stream: stream.exchange(number_of), each_epoch(list)),
    OperatorCase("exchange", lambda stream: stream.exchange("n"), each_epoch(list), ONLY_ARROW, name="by column"),
]

SEVEN = 7


@operator_settings()
@given(cases())
def test_exchange_loses_and_repeats_nothing(case: Case) -> None:
    """Records only change workers: each comes once, at its time, in a batch of the kind that was sent."""
    results = run(lambda stream: stream.exchange(case.kind.number), case)
    assert bags(results, case.kind) == expected(case.feed)
    assert {isinstance(result.batch, list) for result in results} <= {case.kind is LISTS}


@operator_settings()
@given(feeds(), feeds(), st.sampled_from((LISTS, TABLES)), st.sampled_from((TABLES, RECORD_BATCHES)), st.integers(1, 3))
def test_equal_keys_of_different_streams_meet(left: Feed, right: Feed, one: Kind, other: Kind, workers: int) -> None:
    """A key has one owner, whichever stream, kind of batch, epoch and worker it comes from, by name or by function."""
    flow = tw.Dataflow("test")
    by_name = flow.input("right").exchange("n")
    flow.input("left").exchange(one.number).concat(by_name).unary(tag_with_worker, name="tag").capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        send(job, "left", left, one)
        send(job, "right", right, other)
        job.wait()
        owners = {pair for result in job.captured("results") for pair in result.batch}
    assert len(owners) == len({number for number, _ in owners})
    assert {number for number, _ in owners} == {
        number for feed in (left, right) for _, batch in feed for number in batch
    }


def test_all_workers_get_their_share() -> None:
    """Many keys are spread over all workers, about evenly, also if they are regular."""
    flow = tw.Dataflow("test")
    flow.input("numbers").exchange(lambda number: number).unary(tag_with_worker, name="tag").capture("results")
    with tw.run(flow, workers=3, engine="local") as job:
        send(job, "numbers", [(0, list(range(0, 3000 * SEVEN, SEVEN)))])
        job.wait()
        shares = Counter(worker for result in job.captured("results") for _, worker in result.batch)
    assert sorted(shares) == [0, 1, 2]
    assert min(shares.values()) > 800


@pytest.mark.parametrize("key", [3, (), ("a", 1), ["n"], None])
def test_a_key_that_cannot_be_one_is_refused(key: Any) -> None:
    """A key is a function, a name or some names; nothing else is taken, when the dataflow is described."""
    stream = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.exchange(key)


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    """The error says what could have been meant."""
    with raises(tw.JobError):
        run(lambda stream: stream.exchange("m"), Case([(0, [1])], TABLES, workers=2))
