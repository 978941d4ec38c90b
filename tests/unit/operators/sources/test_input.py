"""The input operator, and how the driver's batches come into a dataflow."""

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import LISTS, Case, bags, cases, expected, operator_settings, run, tag_with_worker


@operator_settings()
@given(cases())
def test_what_is_sent_arrives(case: Case) -> None:
    """Every record of every batch arrives once, at the time at which it was sent, in a batch of the same kind."""
    results = run(lambda stream: stream, case)
    assert bags(results, case.kind) == expected(case.feed)
    assert {isinstance(result.batch, list) for result in results} <= {case.kind is LISTS}


def test_batches_go_whole_to_each_worker_in_turn() -> None:
    """No batch is taken apart; empty ones do not take a worker's turn."""
    feed = [(0, [1, 2]), (0, []), (0, [3]), (1, [4]), (1, [5, 6])]
    results = run(lambda stream: stream.unary(tag_with_worker, name="tag"), Case(feed, workers=3))
    assert [(result.time, result.batch) for result in results] == [
        (0, [(1, 0), (2, 0)]),
        (1, [(5, 0), (6, 0)]),
        (0, [(3, 1)]),
        (1, [(4, 2)]),
    ]


def test_inputs_are_independent() -> None:
    """Each input has its own time: one may be far ahead, or closed, while another has not begun."""
    flow = tw.Dataflow("test")
    for name in ("one", "other"):
        flow.input(name).probe(name).capture(name)
    with tw.run(flow, workers=2, engine="local") as job:
        job.input("one").advance_to(5)
        job.input("one").send([1])
        job.input("one").close()
        job.input("other").send([2])
        job.probe("one").wait_until(6)
        assert [len(job.probe(name).frontier) for name in ("one", "other")] == [0, 1]
        assert [(result.time, result.batch) for result in job.captured("one")] == [(5, [1])]
        job.stop()
