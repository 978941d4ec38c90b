"""Calls of a coroutine function, on an event loop that has a thread of its own.

The thread starts with the first call and ends with `AsyncCalls.close`, which cancels what is under way. Outcomes wait
for the operator, which is told that there are some.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

_LOGGER = logging.getLogger(__name__)
_ENDS_WITHIN_S = 5.0
_LONGEST_RECORD = 200


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How calls are made.

    Attributes:
        concurrency: how many are under way at a time, at most.
        timeout_s: how long each attempt, and what is entered before, may take, in seconds; None for any time.
        retries: how many more attempts there are after one that fails.
        retry_on: the exceptions after which there is another attempt.
    """

    concurrency: int
    timeout_s: float | None = None
    retries: int = 0
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call, by the number it was given; None as the number says that no call can be made at all."""

    number: int | None
    result: Any = None
    error: BaseException | None = None


class AsyncCalls:
    """Calls of one operator on one worker.

    Args:
        name: what the thread is called.
        function: is called with each record; what it returns is awaited. If it is an asynchronous context manager, it
            is entered before the first call, and what that gives is called.
        policy: how many at a time, and how often.
        activate: called on the thread when there are outcomes to be taken.
    """

    def __init__(
        self, name: str, function: Callable[[Any], Awaitable[Any]], policy: CallPolicy, activate: Callable[[], None]
    ) -> None:
        self._name = name
        self._function = function
        self._policy = policy
        self._activate = activate
        self._waiting: deque[tuple[int, Any]] = deque()
        self._outcomes: deque[Outcome] = deque()
        self._is_told = False
        self._closed = threading.Event()
        self._is_open = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._serving: asyncio.Task[Any] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ on the worker's thread

    def submit(self, calls: Iterable[tuple[int, Any]]) -> None:
        """Have the function called for each (number, record), in this order, as soon as there is room."""
        self._waiting.extend(calls)
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        else:
            with suppress(RuntimeError):  # the loop has ended because it failed, and has told so
                self._loop.call_soon_threadsafe(self._fill)

    def take(self) -> list[Outcome]:
        """Return the outcomes that have come since the last time, in the order in which they came."""
        self._is_told = False  # before looking, so that what comes meanwhile is told again
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]

    def close(self) -> None:
        """Cancel what is under way, and end the thread."""
        if self._thread is None:
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_ENDS_WITHIN_S)
        if self._thread.is_alive():
            _LOGGER.warning("%s: a coroutine does not end though it was cancelled; its thread goes on", self._name)

    # ------------------------------------------------------------------ on the event loop's thread

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        if self._closed.is_set():
            return
        self._serving = asyncio.current_task()
        try:
            async with self._entered() as self._function:
                self._is_open = True
                self._fill()
                await self._loop.create_future()
        except Exception as error:
            if self._closed.is_set():
                _LOGGER.exception("%s: what it calls did not end in good order", self._name)
            else:
                self._finish(Outcome(None, error=error))

    @asynccontextmanager
    async def _entered(self) -> AsyncIterator[Callable[[Any], Awaitable[Any]]]:
        """Enter the function if it is a context manager; cancel the calls before it is left."""
        async with AsyncExitStack() as stack:
            function = self._function
            if hasattr(function, "__aenter__"):
                manager: Any = function
                function = await self._in_time(stack.enter_async_context(manager), f"entering {_short(manager)}")
                if not callable(function):
                    raise TypeError(f"entering {self._function!r} has to give what is called, it gave {function!r}")
            try:
                yield function
            finally:
                self._is_open = False
                under_way = list(self._under_way)
                for task in under_way:
                    task.cancel()
                await asyncio.gather(*under_way, return_exceptions=True)

    def _cancel(self) -> None:
        self._closed.set()
        if self._serving is not None:
            self._serving.cancel()

    def _fill(self) -> None:
        while self._is_open and self._waiting and len(self._under_way) < self._policy.concurrency:
            task = self._loop.create_task(self._call(*self._waiting.popleft()))
            self._under_way.add(task)
            task.add_done_callback(self._make_room)

    def _make_room(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._fill()

    async def _call(self, number: int, record: Any) -> None:
        try:
            outcome = Outcome(number, await self._result(record))
        except asyncio.CancelledError as error:
            if self._closed.is_set():
                raise
            cancelled = RuntimeError(f"the call for {_short(record)} was cancelled by something that it has called")
            cancelled.__cause__ = error
            outcome = Outcome(number, error=cancelled)
        except BaseException as error:  # noqa: BLE001 - the operator raises it
            outcome = Outcome(number, error=error)
        self._finish(outcome)

    async def _result(self, record: Any) -> Any:
        policy = self._policy
        for attempt in range(1, policy.retries + 2):
            try:
                return await self._attempt(record)
            except policy.retry_on as error:
                if attempt > policy.retries:
                    if policy.retries:
                        error.add_note(f"This was attempt {attempt}, the last, for {_short(record)}.")
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, record: Any) -> Any:
        coming = self._function(record)
        if not inspect.isawaitable(coming):
            raise TypeError(
                f"map_async calls a function whose result is awaited, such as one defined with 'async def'; "
                f"{self._function!r} returned {_short(coming)}"
            )
        return await self._in_time(coming, f"the call for {_short(record)}")

    async def _in_time(self, coming: Awaitable[Any], what: str) -> Any:
        """Return what ``coming`` gives; after timeout_s cancel it and raise TimeoutError, which says ``what`` it is."""
        if self._policy.timeout_s is None:
            return await coming
        limit = asyncio.timeout(self._policy.timeout_s)
        try:
            async with limit:
                return await coming
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"{what} took longer than timeout_s={self._policy.timeout_s:g}") from error

    def _finish(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if not self._is_told:
            self._is_told = True
            self._activate()


def _short(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= _LONGEST_RECORD else f"{text[:_LONGEST_RECORD]}..."
