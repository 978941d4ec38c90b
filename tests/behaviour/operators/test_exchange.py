"""The exchange operator."""

from collections import Counter

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
    feeds,
    operator_settings,
    run,
    send,
    tag_with_worker,
)

SEVEN = 7


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


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    """The error says what could have been meant."""
    with raises(tw.JobError):
        run(lambda stream: stream.exchange("m"), Case([(0, [1])], TABLES, workers=2))
