"""Sources that tick."""

import time
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S
from tests.kit.operators.sources import flow_of, read


@pytest.mark.parametrize("workers", [1, 2])
def test_each_tick_is_an_epoch(workers: int) -> None:
    """There is one of each number, whatever the number of workers."""
    results = read(tw.TickSource(0.001, count=4), workers)
    assert [(result.time, result.batch) for result in results] == [(n, [n]) for n in range(4)]


def test_ticks_come_when_it_is_time() -> None:
    """The first at once, and none early; waiting for one waits for the clock."""
    with tw.run(flow_of(tw.TickSource(0.05, count=3)), engine="local") as job:
        began = time.monotonic()
        for tick in range(3):
            job.probe("read").wait_until(tick + 1, DEADLINE_S)
            assert time.monotonic() - began >= tick * 0.05
            assert [result.batch for result in job.captured("results")] == [[n] for n in range(tick + 1)]
        job.wait(DEADLINE_S)


def test_an_epoch_is_complete_once_its_tick_was_sent() -> None:
    """And not when the next one comes, which here is in an hour."""
    with tw.run(flow_of(tw.TickSource(3600)), engine="local") as job:
        job.probe("read").wait_until(1, DEADLINE_S)
        with pytest.raises(TimeoutError):
            job.probe("read").wait_until(2, 0.05)


def test_no_tick_is_left_out() -> None:
    """Those that are late, since the job was not run, come one after the other."""
    with tw.run(flow_of(tw.TickSource(1e-9, count=100)), engine="local") as job:
        job.wait(DEADLINE_S)
        assert [result.time for result in job.captured("results")] == list(range(100))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "TickSource: every_s is a number of seconds above 0, not 0"),
        (("1",), "TickSource: every_s is a number of seconds above 0, not '1'"),
        ((float("nan"),), "TickSource: every_s is a number of seconds above 0, not nan"),
    ],
)
def test_wrong_times_are_refused(arguments: Any, message: str) -> None:
    """When the source is made."""
    with pytest.raises(tw.GraphError, match=message):
        tw.TickSource(*arguments)
    with pytest.raises(tw.GraphError, match="TickSource: count is a whole number, 1 or more, not 0"):
        tw.TickSource(1, count=0)
