"""Calls of map_async that fail: which are tried again, and what the error of the job says."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.operators.calls import Server, call_threads, failure_of, job_of, refuse, run_to_end, within_deadline
from tests.kit.runtime.one_operator import DEADLINE_S, captured


@pytest.fixture
def server() -> Iterator[Server]:
    """Make a server, and see that nobody of those who call it is left."""
    yield Server()
    assert call_threads() == []


@pytest.mark.parametrize("ordered", [False, True])
def test_a_call_that_fails_fails_the_job(ordered: bool) -> None:
    """The error names operator, worker and time, and has the traceback of the user's own function."""
    failure = failure_of(refuse, [1], [2, 3], ordered=ordered)
    assert (failure.operator, failure.worker, failure.time) == ("map_async", 0, 1)
    assert str(failure).startswith(
        "operator 'map_async' failed on worker 0 at time 1: ConnectionError: no answer for 3"
    )
    assert "in refuse" in failure.traceback_text
    assert "This was attempt" not in failure.traceback_text


def test_a_call_that_takes_too_long_fails_the_job(server: Server) -> None:
    """It is cancelled, and the error says how long it may take."""
    failure = failure_of(server.reply, [5], timeout_s=0.01)
    assert "TimeoutError: the call for 5 took longer than timeout_s=0.01" in str(failure)
    assert server.cancelled == [5]


def test_a_timeout_of_the_functions_own_is_its_own() -> None:
    """It is not taken for that of the operator."""

    async def give_up(number: int) -> int:
        raise TimeoutError("the server is slow")

    assert "TimeoutError: the server is slow" in str(failure_of(give_up, [1], timeout_s=60))


class Flaky:
    """Fails the first times that it is asked for a number, then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.attempts: list[int] = []

    async def reply(self, number: int) -> int:
        self.attempts.append(number)
        if self.attempts.count(number) <= self.failures:
            raise self.error
        return number


def test_a_call_is_tried_again() -> None:
    """So many more times; a result of the last attempt is a result like any other, and others do not wait for it."""
    flaky = Flaky(2, ConnectionError("reset"))
    assert run_to_end(flaky.reply, [1], retry=tw.Retry(attempts=3, first_pause_s=0)) == [(0, [1])]
    assert flaky.attempts == [1, 1, 1]


def test_the_last_attempt_says_so() -> None:
    """The error is that of the last attempt."""
    flaky = Flaky(2, ConnectionError("reset"))
    failure = failure_of(flaky.reply, [1], retry=tw.Retry(attempts=2, first_pause_s=0))
    assert "ConnectionError: reset" in str(failure)
    assert "This was attempt 2, the last, for 1." in failure.traceback_text
    assert flaky.attempts == [1, 1]


def test_a_limit_of_time_ends_the_attempts() -> None:
    """The error has the number of attempts that there were."""
    flaky = Flaky(99, ConnectionError("reset"))
    failure = failure_of(flaky.reply, [1], retry=tw.Retry(within_s=0.01, first_pause_s=0.004, factor=1))
    assert f"This was attempt {len(flaky.attempts)}, the last, for 1." in failure.traceback_text
    assert len(flaky.attempts) >= 2


@pytest.mark.parametrize("on", [ConnectionError, (ConnectionError, TimeoutError)])
def test_other_exceptions_are_final(on: Any) -> None:
    """Only what is named is tried again."""
    retry = tw.Retry(attempts=6, first_pause_s=0, on=on)
    flaky = Flaky(1, ValueError("wrong"))
    assert "ValueError: wrong" in str(failure_of(flaky.reply, [1], retry=retry))
    assert flaky.attempts == [1]
    again = Flaky(1, ConnectionError("reset"))
    assert run_to_end(again.reply, [1], retry=retry) == [(0, [1])]


def test_a_time_out_may_be_tried_again(server: Server) -> None:
    """It is an exception like others, and each attempt has all of its time."""
    with job_of(
        server.reply, [6], timeout_s=0.05, retry=tw.Retry(within_s=60, first_pause_s=0, on=TimeoutError)
    ) as job:
        assert within_deadline(job, lambda: len(server.cancelled) >= 2)
        server.let_go(6)
        job.wait(DEADLINE_S)
        assert captured(job) == [(0, [36])]


def test_what_cannot_be_awaited_is_refused() -> None:
    """A function without async in front of it is the likely mistake, and the error says so."""
    failure = failure_of(lambda number: number + 1, [1])
    assert "TypeError: map_async calls a function whose result is awaited, such as one defined with 'async def'" in str(
        failure
    )
    assert "returned 2" in str(failure)


def test_a_call_that_is_cancelled_from_inside_has_failed() -> None:
    """A library may do that; the job does not wait for ever."""

    async def cancel(number: int) -> int:
        raise asyncio.CancelledError

    assert "RuntimeError: the call for 1 was cancelled by something that it has called" in str(failure_of(cancel, [1]))


def test_a_call_that_exits_fails_the_job() -> None:
    """`sys.exit` in a coroutine ends neither the thread in silence nor the driver."""

    async def leave(number: int) -> int:
        raise SystemExit(3)

    assert "SystemExit: 3" in str(failure_of(leave, [1]))


class Enters:
    """A context manager that fails as it is entered."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def __aenter__(self) -> Any:
        raise self._error

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("it was not entered")

    async def __call__(self, number: int) -> int:
        return number


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            asyncio.CancelledError(),
            "RuntimeError: entering an object of Enters was cancelled by something that it has called",
        ),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_what_cannot_be_entered_fails_the_job(error: BaseException, said: str) -> None:
    """Whatever it raises, the job does not wait for ever."""
    assert re.search(said, str(failure_of(Enters(error), [1])))
