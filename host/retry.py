"""The retries of a failed operation: how many, for how long, and with which pauses.

`Retry.pause_s` returns the next pause, for loops that must not block. `call` and `call_async` try, and pause
themselves.

Source: "Exponential Backoff And Jitter", AWS Architecture Blog.
"""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import TypeVar

T = TypeVar("T")


def _ignore(error: Exception, failures: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The attempts at an operation, and the pauses between them.

    The first attempt begins at once, the second ``first_pause_s`` after its failure; each further pause is ``factor``
    times as long, up to ``longest_pause_s``. Errors other than ``on`` end the attempts.

    Args:
        attempts: the greatest number of attempts; None for any.
        within_s: the last attempt begins at most this many seconds after the first; the pause before it is shortened.
        first_pause_s: in seconds; 0 for no pauses.
        factor: the ratio of successive pauses; 1 for equal pauses.
        longest_pause_s: in seconds.
        jitter: the random share of each pause, from 0 to 1: with 0.5, a pause has between half and all of its length,
            so that many clients of one server do not return at once.
        on: the exceptions after which there is another attempt.

    Raises:
        ValueError: a value is out of its range.

    >>> retry = Retry(attempts=4, first_pause_s=0.1, longest_pause_s=0.3)
    >>> [retry.pause_s(failures) for failures in (1, 2, 3, 4)]
    [0.1, 0.2, 0.3, None]
    >>> answers = iter([OSError("no answer"), OSError("no answer"), "tide"])
    >>> def ask():
    ...     answer = next(answers)
    ...     if isinstance(answer, OSError):
    ...         raise answer
    ...     return answer
    >>> Retry(attempts=3, first_pause_s=0, on=OSError).call(ask)
    'tide'
    """

    attempts: int | None = None
    within_s: float = inf
    first_pause_s: float = 0.1
    factor: float = 2.0
    longest_pause_s: float = inf
    jitter: float = 0.0
    on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        least = {"attempts": 1, "within_s": 0, "first_pause_s": 0, "factor": 1, "longest_pause_s": 0, "jitter": 0}
        for name, at_least in least.items():
            value = getattr(self, name)
            if value is not None and not value >= at_least:
                raise ValueError(f"Retry: {name}={value!r} is less than {at_least}")
        if self.jitter > 1:
            raise ValueError(f"Retry: jitter={self.jitter!r} is the share of a pause that is random, and at most 1")

    def pause_s(self, failures: int, elapsed_s: float = 0.0, draw: Callable[[], float] = random.random) -> float | None:
        """Return the seconds to wait after ``failures`` failed attempts; None if there is no further attempt."""
        if (self.attempts is not None and failures >= self.attempts) or elapsed_s >= self.within_s:
            return None
        try:
            pause_s = self.first_pause_s * self.factor ** (failures - 1)
        except OverflowError:
            pause_s = inf if self.first_pause_s else 0.0
        pause_s = min(pause_s, self.longest_pause_s) * (1 - self.jitter * draw() if self.jitter else 1)
        return min(pause_s, self.within_s - elapsed_s)

    def call(
        self,
        function: Callable[[], T],
        *,
        on_failure: Callable[[Exception, int], None] = _ignore,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> T:
        """Call a function until it returns; return its value.

        Before each further attempt, ``on_failure`` receives the last error and the number of failures. ``clock``,
        ``sleep`` and ``draw`` replace time and chance, for tests, or for a sleep that can be interrupted.

        Raises:
            ValueError: neither ``attempts`` nor ``within_s`` is given.
            Exception: the error of the last attempt.
        """
        self._check_end()
        began_s, failures = clock(), 0
        while True:
            try:
                return function()
            except self.on as error:
                failures += 1
                pause_s = self.pause_s(failures, clock() - began_s, draw)
                if pause_s is None:
                    raise
                on_failure(error, failures)
            if pause_s:
                sleep(pause_s)

    async def call_async(
        self,
        function: Callable[[], Awaitable[T]],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] | None = None,
    ) -> T:
        """Await a function until it returns; return its value.

        Raises:
            ValueError: neither ``attempts`` nor ``within_s`` is given.
            Exception: the error of the last attempt.
        """
        self._check_end()
        import asyncio  # importing asyncio takes long

        began_s, failures = clock(), 0
        while True:
            try:
                return await function()
            except self.on:
                failures += 1
                pause_s = self.pause_s(failures, clock() - began_s)
                if pause_s is None:
                    raise
            if pause_s:
                await (sleep or asyncio.sleep)(pause_s)

    def _check_end(self) -> None:
        if self.attempts is None and self.within_s == inf:
            raise ValueError("Retry: give attempts or within_s, as a call that always fails would be tried for ever")
