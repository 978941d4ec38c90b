"""The feedback operator: what goes in comes out later."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Bags, Case, bags, cases, gather, operator_settings, run, send


@operator_settings()
@given(cases(), st.integers(1, 3))
def test_feedback_advances_the_round(case: Case, advance: int) -> None:
    """What is fed back comes round at (t, r + advance), so a record that goes round n times is seen at n rounds."""
    flow = tw.Dataflow("test")
    with flow.scope("loop") as loop:
        back = loop.feedback(advance)
        numbers = flow.input("numbers").map(case.kind.number).enter(loop).concat(back)
        numbers.capture("rounds")
        back.connect(numbers.filter(lambda number: number > 0).map(lambda number: number - 1))
    with tw.run(flow, workers=case.workers, engine="local") as job:
        send(job, "numbers", case.feed, case.kind)
        job.wait()
        found = bags(job.captured("rounds"))
    rounds: Bags = {}
    for time, number in ((time, number) for time, numbers in case.feed for number in numbers):
        for count in range(max(number, 0) + 1):
            rounds.setdefault((time, count * advance), Counter())[number - count] += 1
    assert found == rounds


def test_feedback_in_the_outermost_scope_goes_to_later_epochs() -> None:
    """A cycle outside all loops carries records to the epochs that follow: here, a running sum of all before."""
    flow = tw.Dataflow("test")
    back: tw.types.Feedback[int] = flow.feedback()

    sums = (
        flow.input("numbers")
        .concat(back)
        .unary(gather, exchange=lambda _: 0, name="gather")
        .map_batches(lambda batch: [sum(batch)])
    )
    sums.capture("sums")
    back.connect(sums.filter(lambda total: total < 100))
    for workers in (1, 2):
        with tw.run(flow, workers=workers, engine="local") as job:
            send(job, "numbers", [(0, [1, 2]), (1, [3]), (3, [10]), (3, [84])])
            job.wait()
            assert [(result.time, result.batch) for result in job.captured("sums")] == [
                (0, [3]),
                (1, [6]),
                (2, [6]),
                (3, [100]),
            ]


def test_a_feedback_may_be_read_before_it_is_connected() -> None:
    """The loop's head is described before its tail; nothing that reads it early misses anything."""

    def describe(stream: tw.Stream[int]) -> tw.Stream[int]:
        with stream.flow.scope("loop") as loop:
            back = loop.feedback()
            tens = back.map(lambda number: number * 10)
            back.connect(stream.enter(loop))
            return tens.leave()

    results = run(describe, Case([(0, [1]), (2, [3])]))
    assert [(result.time, result.batch) for result in results] == [(0, [10]), (2, [30])]


def test_what_passes_the_greatest_time_is_an_error() -> None:
    """Records are never dropped in silence: the error names the feedback and the time."""
    flow = tw.Dataflow("test", tw.progress.IntegerDomain(maximum=3))
    back: tw.types.Feedback[int] = flow.feedback()
    numbers = flow.input("numbers").concat(back)
    back.connect(numbers)
    job = tw.run(flow, engine="local")
    send(job, "numbers", [(2, [1])])
    with raises(tw.JobError):
        job.wait()
    job.stop()
