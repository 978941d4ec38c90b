"""The enter operator."""

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, send, settle


@operator_settings()
@given(cases())
def test_entering_appends_round_zero(case: Case) -> None:
    """Time t becomes (t, 0) inside, and ((t, 0), 0) one loop further in; records do not change."""
    flow = tw.Dataflow("test")
    loop = flow.scope("loop")
    stream = flow.input("numbers").enter(loop)
    stream.capture("inside")
    stream.enter(loop.inner("inner")).capture("further in")
    with tw.run(flow, workers=case.workers, engine="local") as job:
        send(job, "numbers", case.feed, case.kind)
        job.wait()
        found = [bags(job.captured(name), case.kind) for name in ("inside", "further in")]
    epochs = expected(case.feed)
    assert found == [
        {(time, 0): bag for time, bag in epochs.items()},
        {((time, 0), 0): bag for time, bag in epochs.items()},
    ]


def test_the_frontier_enters_too() -> None:
    """Inside, nothing before (t, 0) can come once the outside has reached t."""
    flow = tw.Dataflow("test")
    flow.input("numbers").enter(flow.scope("loop")).probe("inside")
    with tw.run(flow, engine="local") as job:
        job.input("numbers").advance_to(3)
        settle(job)
        assert set(job.probe("inside").frontier) == {(3, 0)}
        job.input("numbers").close()
        job.wait()
        assert set(job.probe("inside").frontier) == set()
