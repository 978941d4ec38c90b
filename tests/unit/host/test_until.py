"""Waiting with `until`, with a clock of its own."""

import pytest

from tests.unit.host.test_retry import Clock
from tidewheel.host.until import until


def test_it_looks_at_once_and_a_last_time_at_the_deadline() -> None:
    """Pauses have one length, but for the last one."""
    clock = Clock()
    looks: list[float] = []
    assert not until(
        lambda: looks.append(clock.now_s),
        within_s=2.5,
        every_s=1.0,
        clock=clock,
        sleep=clock.sleep,
    )
    assert looks == [100.0, 101.0, 102.0, 102.5]


def test_what_is_true_is_returned_at_once() -> None:
    """Nothing sleeps where there is nothing to wait for, also without any time."""
    clock = Clock()
    assert until(lambda: "tide", within_s=0.0, clock=clock, sleep=clock.sleep) == "tide"
    assert clock.slept == []


def test_the_deadline_raises_the_error_of_the_caller() -> None:
    """Which is made then, so that it can say what was missing last."""
    clock = Clock()
    with pytest.raises(TimeoutError, match=r"at 103.0 s"):
        until(
            lambda: False,
            within_s=3.0,
            every_s=2.0,
            error=lambda: TimeoutError(f"at {clock.now_s} s"),
            clock=clock,
            sleep=clock.sleep,
        )


def test_a_condition_that_takes_long_is_called_a_last_time_behind_the_deadline() -> None:
    """What became true while it looked before is found."""
    clock = Clock()

    def slow() -> bool:
        clock.now_s += 10.0
        return clock.now_s > 115.0

    assert until(slow, within_s=5.0, clock=clock, sleep=clock.sleep)
