"""The end of a job's ``with`` block on Ray, and captures after it: as on the local engine."""

import signal
import threading
from collections.abc import Callable

import pytest
import ray

import tidewheel as tw

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


def slow(number: int) -> int:
    threading.Event().wait(0.3)
    return number


def capturing(function: Callable[[int], int] = abs) -> tw.Dataflow:
    flow = tw.Dataflow("left")
    flow.input("numbers", int).map(function).probe("done").capture("numbers")
    return flow


def feed_one(numbers: tw.types.InputHandle, number: int) -> None:
    """Send a record from another process, a while after it has begun, and close."""
    threading.Event().wait(1.0)
    with numbers:
        numbers.send([number])


def test_a_block_waits_for_work_and_captures_stay_readable() -> None:
    """A program that forgets wait() loses nothing; captures can be read behind the block, once or again."""
    with tw.run(capturing(slow)) as job:
        with job.input("numbers") as numbers:
            numbers.send([1, 2, 3])
        with pytest.raises(tw.JobError, match="nothing was waited for, so capture 'numbers' may have nothing yet"):
            job.captured("numbers")
    assert job.captured("numbers") == [tw.types.Captured(0, [1, 2, 3])] == job.captured("numbers")


def test_a_block_waits_for_handles_in_other_processes() -> None:
    """These close their handles, and the driver need not know when."""
    feeder = ray.remote(feed_one)
    with tw.run(capturing(), workers=2) as job:
        numbers = job.input("numbers")
        feeding = feeder.remote(numbers.clone(), 7)
        numbers.close()
    ray.get(feeding, timeout=DEADLINE_S)
    assert job.captured("numbers") == [tw.types.Captured(0, [7])]


def test_an_open_input_raises_and_leaves_nothing_behind() -> None:
    """The error names the input, and comes at once."""

    def leave() -> None:
        with tw.run(capturing()) as job:
            job.input("numbers").send([1])

    with pytest.raises(tw.JobError, match=r"inputs are open: input 'numbers'\. close\(\) .* job\.stop\(\)"):
        leave()


def test_a_source_without_end_raises() -> None:
    """`TickSource` has none, unless it is told how many ticks there are."""
    flow = tw.Dataflow("ticking")
    flow.source("ticks", tw.TickSource(0.1)).capture("ticks")
    with pytest.raises(tw.JobError, match="source 'ticks' has no end"), tw.run(flow):
        pass
    with tw.run(flow) as job:
        job.stop()


def test_ctrl_c_ends_the_wait_of_a_block() -> None:
    """The program gets its KeyboardInterrupt, and the job is gone."""

    def leave() -> None:
        with tw.run(capturing(very_slow)) as job:
            jobs.append(job)
            with job.input("numbers") as numbers:
                numbers.send([1])
            signal.setitimer(signal.ITIMER_REAL, 0.5)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    jobs: list[tw.types.Job] = []
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            leave()
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(tw.JobError, match="was stopped"):
        jobs[0].captured("numbers")


def very_slow(number: int) -> int:
    threading.Event().wait(DEADLINE_S)
    return number
