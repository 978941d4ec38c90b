"""The concat operator."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.operators.harness import (
    Bags,
    Feed,
    bags,
    expected,
    feeds,
    operator_settings,
    send,
)


@operator_settings()
@given(st.lists(feeds(), min_size=1, max_size=4), st.integers(1, 3))
def test_concat_has_the_records_of_all(several: list[Feed], workers: int) -> None:
    """Any number of streams become one: every record comes through once, at its time."""
    flow = tw.Dataflow("test")
    streams = [flow.input(str(index)) for index in range(len(several))]
    streams[0].concat(*streams[1:]).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        for index, feed in enumerate(several):
            send(job, str(index), feed)
        job.wait()
        found = bags(job.captured("results"))
    merged: Bags = {}
    for feed in several:
        for time, bag in expected(feed).items():
            merged.setdefault(time, Counter()).update(bag)
    assert found == merged


def test_a_time_completes_when_it_has_in_all_streams() -> None:
    """The frontier of the whole is the lowest of those of its parts."""
    flow = tw.Dataflow("test")
    flow.input("fast").concat(flow.input("slow")).probe("both")
    with tw.run(flow, engine="local") as job:
        job.input("fast").advance_to(5)
        job.input("slow").advance_to(2)
        job.probe("both").wait_until(2)
        assert set(job.probe("both").frontier) == {2}
        job.stop()
