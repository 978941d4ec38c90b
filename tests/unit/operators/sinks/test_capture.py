"""The capture operator."""

from typing import Any

import tidewheel as tw
from tests.kit.operators.harness import Case, run, send
from tests.kit.operators.operator_case import OperatorCase, each_epoch

CASES = [
    OperatorCase("capture", lambda stream: stream.capture("case of capture"), each_epoch(list)),
]


def test_captures_are_in_order_of_worker_and_arrival() -> None:
    """What each worker saw comes in the order in which it came there, worker by worker."""
    results = run(lambda stream: stream, Case([(0, [1]), (0, [2]), (1, [3]), (2, [4])], workers=2))
    assert [(result.time, result.batch) for result in results] == [(0, [1]), (1, [3]), (0, [2]), (2, [4])]


def test_capturing_does_not_change_the_stream() -> None:
    """It returns the stream it was called on, so that a chain can go on, and may be used at several places."""
    flow = tw.Dataflow("test")
    stream = flow.input("numbers")
    assert stream.capture("before") is stream
    stream.map(lambda number: number + 1).capture("after")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [1])])
        job.wait()
        assert [job.captured(name)[0].batch for name in ("before", "after")] == [[1], [2]]


def test_captures_can_be_read_while_the_job_runs() -> None:
    """Each reading has all that came so far, and does not take it away."""
    flow = tw.Dataflow("test")
    flow.input("numbers").capture("results").probe("done")
    sizes: list[Any] = []
    with tw.run(flow, engine="local") as job:
        for time in range(3):
            job.input("numbers").send([time])
            job.input("numbers").advance_to(time + 1)
            job.probe("done").wait_until(time + 1)
            sizes.append([result.batch for result in job.captured("results")])
    assert sizes == [[[0]], [[0], [1]], [[0], [1], [2]]]
