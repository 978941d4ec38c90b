"""Attempts and pauses of `Retry`, with a clock of its own."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.host.retry import Retry


class Clock:
    """Seconds that pass only while something sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


def failing(times: int, error: Callable[[], Exception] = OSError) -> Callable[[], str]:
    """Return a function that fails so often, and then returns a word."""
    left = iter(range(times))

    def call() -> str:
        if next(left, None) is not None:
            raise error()
        return "tide"

    return call


def tried(retry: Retry, function: Callable[[], str], clock: Clock) -> str:
    """Return what comes of a function, with this clock."""
    return retry.call(function, clock=clock, sleep=clock.sleep, draw=lambda: 1.0)


def test_pauses_grow_up_to_the_longest() -> None:
    """And there is none behind the last attempt, whose error is raised."""
    clock = Clock()
    retry = Retry(attempts=5, first_pause_s=1.0, factor=3.0, longest_pause_s=10.0)
    assert tried(retry, failing(4), clock) == "tide"
    assert clock.slept == [1.0, 3.0, 9.0, 10.0]
    clock = Clock()
    with pytest.raises(OSError):  # noqa: PT011 - it is the function's own
        tried(retry, failing(5), clock)
    assert len(clock.slept) == 4


def test_the_last_attempt_begins_at_the_deadline() -> None:
    """The pause before it is shortened, and a slow attempt counts, too."""
    clock = Clock()
    with pytest.raises(OSError):  # noqa: PT011
        tried(Retry(within_s=5.0, first_pause_s=2.0, factor=1.0), failing(99), clock)
    assert clock.slept == [2.0, 2.0, 1.0]

    def slow() -> str:
        clock.now_s += 7.0
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        tried(Retry(within_s=5.0), slow, clock)
    assert clock.slept == [2.0, 2.0, 1.0]


def test_without_pauses_there_are_none_however_many_failures_there_were() -> None:
    """The factor of pauses grows beyond all numbers, and nothing times that is still nothing."""
    clock = Clock()
    assert tried(Retry(attempts=5000, first_pause_s=0.0), failing(4999), clock) == "tide"
    assert clock.slept == []


def test_other_errors_are_raised_at_once() -> None:
    """Only those of ``on`` have another attempt."""
    clock = Clock()
    with pytest.raises(KeyError):
        tried(Retry(attempts=9, on=(OSError, ValueError)), failing(1, KeyError), clock)
    assert tried(Retry(attempts=9, on=(OSError, ValueError)), failing(1, ValueError), clock) == "tide"
    assert len(clock.slept) == 1


def test_the_caller_hears_of_each_failure_that_another_attempt_follows() -> None:
    """With the number of failures."""
    heard: list[tuple[type[Exception], int]] = []
    clock = Clock()
    with pytest.raises(OSError):  # noqa: PT011
        Retry(attempts=3, first_pause_s=0.0).call(
            failing(9), on_failure=lambda error, number: heard.append((type(error), number)), sleep=clock.sleep
        )
    assert heard == [(OSError, 1), (OSError, 2)]
    assert clock.slept == []


def test_async_attempts_are_the_same() -> None:
    """The pauses are those of an asyncio loop."""
    clock = Clock()
    call = failing(2)

    async def ask() -> str:
        return call()

    retry = Retry(attempts=3, first_pause_s=1.0)
    assert asyncio.run(retry.call_async(ask, clock=clock, sleep=clock.sleep_async)) == "tide"
    assert clock.slept == [1.0, 2.0]
    call = failing(3)
    with pytest.raises(OSError):  # noqa: PT011
        asyncio.run(retry.call_async(ask, clock=clock, sleep=clock.sleep_async))


@given(st.integers(1, 10_000), st.floats(0, 100), st.floats(1, 10), st.floats(0, 60), st.floats(0, 1), st.floats(0, 1))
def test_a_pause_is_within_its_bounds(
    failures: int, first_s: float, factor: float, longest_s: float, jitter: float, drawn: float
) -> None:
    """However many failures there were: jitter takes at most its share away, and adds nothing."""
    plain = Retry(first_pause_s=first_s, factor=factor, longest_pause_s=longest_s).pause_s(failures)
    pause_s = Retry(first_pause_s=first_s, factor=factor, longest_pause_s=longest_s, jitter=jitter).pause_s(
        failures, draw=lambda: drawn
    )
    assert plain is not None
    assert pause_s is not None
    assert plain <= longest_s
    assert plain * (1 - jitter) - 1e-9 <= pause_s <= plain


def test_pauses_of_two_differ() -> None:
    """With jitter, two that lose one server at the same moment do not come back at the same moment."""
    retry = Retry(first_pause_s=1.0, jitter=1.0)
    assert len({retry.pause_s(1) for _ in range(100)}) > 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"within_s": -1.0},
        {"first_pause_s": -0.1},
        {"factor": 0.5},
        {"longest_pause_s": -1.0},
        {"jitter": -0.1},
        {"jitter": 1.5},
        {"within_s": float("nan")},
    ],
)
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """The message names the field and its value."""
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        Retry(**wrong)  # type: ignore[arg-type]


def test_a_call_needs_an_end() -> None:
    """Before the first attempt: a function that always fails would never return."""
    with pytest.raises(ValueError, match="give attempts or within_s"):
        Retry(on=OSError).call(failing(0))
    with pytest.raises(ValueError, match="give attempts or within_s"):
        asyncio.run(Retry(on=OSError).call_async(lambda: asyncio.sleep(0)))


def test_it_is_a_value() -> None:
    """Frozen and comparable, so that a configuration may have one; pauses alone need no end."""
    assert Retry(attempts=3) == Retry(attempts=3)
    with pytest.raises(FrozenInstanceError):
        Retry().attempts = 3  # type: ignore[misc]
    assert Retry(factor=1.0).pause_s(10**6, elapsed_s=time.monotonic()) == 0.1
    assert Retry().within_s == inf
