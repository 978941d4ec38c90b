"""The for_each_epoch operator."""

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import DEADLINE_S, Case, run, settle


@pytest.mark.parametrize("workers", [1, 3])
def test_epochs_come_one_after_the_other(workers: int) -> None:
    """Each once, whole and complete, on worker 0, in order of time; those without records do not come."""
    calls: list[tuple[int, list[int]]] = []
    flow = tw.Dataflow("test")
    stream = flow.input("numbers").exchange(lambda n: n)
    stream.for_each_epoch(lambda time, records: calls.append((time, sorted(records)))).probe("done")
    with tw.run(flow, workers=workers, engine="local") as job:
        numbers = job.input("numbers")
        late = numbers.delayed(5)
        late.send([50, 51])
        numbers.send([1, 2, 3])
        settle(job)
        assert calls == []
        numbers.advance_to(3)
        numbers.send([30])
        settle(job)
        assert calls == [(0, [1, 2, 3])]
        numbers.close()
        late.close()
        job.wait(DEADLINE_S)
    assert calls == [(0, [1, 2, 3]), (3, [30]), (5, [50, 51])]


def test_a_probe_tells_what_was_done() -> None:
    """It does not pass a time before the function has returned for that, and stays where that fails."""
    calls: list[int] = []

    def fail(time: int, records: list[int]) -> None:
        if time == 1:
            raise OSError("disk full")
        calls.append(time)

    flow = tw.Dataflow("test")
    flow.input("numbers").for_each_epoch(fail).probe("done")
    job = tw.run(flow, engine="local")
    for time in range(3):
        job.input("numbers").send([time])
        job.input("numbers").advance_to(time + 1)
    with raises(tw.JobError):
        job.probe("done").wait_until(3, DEADLINE_S)
    assert calls == [0]


def test_what_it_returns_goes_on() -> None:
    """One record for each epoch, at its time; None is one too."""
    results = run(lambda stream: stream.for_each_epoch(lambda time, records: None), Case([(0, [1, 2]), (2, [3])]))
    assert [(result.time, result.batch) for result in results] == [(0, [None]), (2, [None])]
