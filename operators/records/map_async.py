"""The map_async operator: it awaits a coroutine for each record, and sends the result at the record's time.

The operator's token keeps a time, and a substream at that time, open until the last call is done. While ``concurrency``
calls are in progress, the operator reads no records. Records then wait at its input, where they count as in flight.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from tidewheel.host.log_lines import about
from tidewheel.host.retry import Retry
from tidewheel.operators.base.division import Division
from tidewheel.operators.base.setting_aside import Caught
from tidewheel.operators.records.call_forms import CallForm, NextCall, SingleRecord, short
from tidewheel.progress import Time
from tidewheel.progress.redaction import called
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.messages.labels import Label, MixedLabel
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort

_LOGGER = logging.getLogger(__name__)
_ENDS_WITHIN_S = 5.0

_Place: TypeAlias = tuple[Time, Label | None]
"""The time of a record, and its substream."""


class Room(NamedTuple):
    """The records that an operator may have in progress: ``records``, or more as long as their batches are small.

    Attributes:
        small: how many those may be.
        bytes: the size that they have together, at most about.
    """

    records: int
    small: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """The limits and retries of calls.

    Attributes:
        concurrency: how many calls may be in progress at a time.
        timeout_s: the time limit for each attempt, and for entering the context manager, in seconds; None for no limit.
        per_second: how many attempts may begin in a second, on all workers together; None for no limit.
        form: how many records a call has.
        fills_within_s: how long a call that is not full waits for more records, in seconds.
        unfull: how many calls may be in progress when one begins that is not full; None for ``concurrency`` - 1.
        limited: the room for records in progress; None for what all calls together may have.
    """

    concurrency: int
    timeout_s: float | None = None
    retry: Retry = Retry(attempts=1)  # noqa: RUF009 - it is frozen
    per_second: float | None = None
    form: CallForm = SingleRecord()  # noqa: RUF009 - it has no state
    fills_within_s: float = 0.0
    unfull: int | None = None
    limited: Room | None = None

    @property
    def room(self) -> Room:
        """The room for records in progress."""
        return self.limited or Room(self.concurrency * self.form.most_records)


class CallPace:
    """The evenly spaced moments at which one worker may begin calls; missed moments are not made up for.

    In any t seconds all workers together begin at most ``per_second * t`` calls, plus one for each worker.

    >>> pace = CallPace(10, workers=2, clock=lambda: 0.0)
    >>> pace.pause_s(), pace.pause_s(), pace.pause_s()
    (0.0, 0.2, 0.4)
    """

    def __init__(self, per_second: float, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = workers / per_second
        self._clock = clock
        self._next_s = clock()

    def pause_s(self) -> float:
        """Return the seconds until the next call may begin, and reserve that moment."""
        now_s = self._clock()
        begins_s = max(self._next_s, now_s)
        self._next_s = begins_s + self._interval_s
        return begins_s - now_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the call with a number; None in place of the number means that no call can be made at all.

    A caught error has its traceback here, since several calls may raise the same object.
    """

    number: int | None
    result: Any = None
    error: BaseException | None = None
    traceback: TracebackType | None = None


@dataclass(slots=True, eq=False)
class AsyncCalls:
    """The calls of one operator on one worker, on an event loop in a thread of their own.

    Attributes:
        function: called with the argument of a `CallForm`; the result is awaited. An asynchronous context manager is
            entered before the first call, and the object that this returns is called instead.
        activate: called, on that thread, when there are outcomes.
        caught: the errors that fail a record and not the job.
    """

    name: str
    function: Callable[[Any], Awaitable[Any]]
    policy: CallPolicy
    activate: Callable[[], None]
    pace: CallPace | None = None
    caught: Caught = ()
    _waiting: deque[tuple[int, Any]] = field(default_factory=deque)
    _arrivals: deque[tuple[int, float]] = field(default_factory=deque)
    """The last number of each submission, and its moment, as far as items of it wait; kept only to fill calls."""
    _look_again: "asyncio.TimerHandle | None" = None
    _under_way: set["asyncio.Task[None]"] = field(default_factory=set)
    _outcomes: deque[Outcome] = field(default_factory=deque)
    _is_open: bool = False
    _is_pausing: bool = False
    """Whether a call waits for its moment. Meanwhile no other call reserves a moment, so that each moment is used."""
    _is_told: bool = False
    _closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _serving: "asyncio.Task[Any] | None" = None

    # ------------------------------------------------------------------ on the worker's thread

    def submit(self, calls: list[tuple[int, Any]]) -> None:
        """Call the function for each (number, item), in this order, as soon as ``concurrency`` allows."""
        if self.policy.fills_within_s:
            self._arrivals.append((calls[-1][0], time.monotonic()))  # before the items, which the loop may take at once
        self._waiting.extend(calls)
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        with suppress(RuntimeError):  # the loop has ended because it failed, and has told so
            self._loop.call_soon_threadsafe(self._fill)

    def take(self) -> list[Outcome]:
        self._is_told = False  # before the check, so that later outcomes wake the worker again
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]

    def close(self) -> None:
        """Cancel the calls in progress, and end the thread."""
        if self._thread is None:
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_ENDS_WITHIN_S)
        if self._thread.is_alive():
            said = "%s: a coroutine does not end though it was cancelled; its thread goes on"
            _LOGGER.warning(said, self.name, extra=about(operator=self.name))

    # ------------------------------------------------------------------ on the event loop's thread

    def _run(self) -> None:
        with suppress(asyncio.CancelledError), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        if self._closed.is_set():
            return
        self._serving = asyncio.current_task()
        try:
            async with AsyncExitStack() as stack:
                self.function = await self._entered(stack)
                stack.push_async_callback(self._end_calls)
                self._is_open = True
                self._fill()
                await self._loop.create_future()
        except BaseException as error:
            if not self._closed.is_set():
                self._finish(Outcome(None, error=_raisable(error, f"entering {called(self.function)}")))
            elif isinstance(error, Exception):
                said = "%s: what it calls did not end in good order"
                _LOGGER.exception(said, self.name, extra=about(operator=self.name))
            else:
                raise

    async def _entered(self, stack: AsyncExitStack) -> Callable[[Any], Awaitable[Any]]:
        manager: Any = self.function
        if not hasattr(manager, "__aenter__"):
            return self.function
        function = await self._in_time(stack.enter_async_context(manager), lambda: f"entering {called(manager)}")
        if not callable(function):
            raise TypeError(f"entering {called(manager)} has to give what is called, it gave {called(function)}")
        return function  # type: ignore[no-any-return]

    def _fill(self) -> None:
        while (
            self._is_open
            and self._waiting
            and not self._is_pausing
            and len(self._under_way) < self.policy.concurrency
            and not self._fills()
        ):
            self._is_pausing = self.pace is not None
            task = self._loop.create_task(self._call(self._some()) if self.pace is None else self._call_at_its_moment())
            self._under_way.add(task)
            task.add_done_callback(self._make_room)

    def _fills(self) -> bool:
        """Tell whether the next call waits for more records; if so, it is looked at again when that has to end."""
        unfull = self.policy.unfull
        is_crowded = unfull is not None and len(self._under_way) >= unfull
        if not (self.policy.fills_within_s or is_crowded) or self._next_call().is_full:
            return False
        if is_crowded:
            return True  # the end of a call looks again
        while self._arrivals[0][0] < self._waiting[0][0]:
            self._arrivals.popleft()
        ends_s = self._arrivals[0][1] + self.policy.fills_within_s
        if time.monotonic() >= ends_s:
            return False
        if self._look_again is not None:
            self._look_again.cancel()
        self._look_again = self._loop.call_later(max(0.0, ends_s - time.monotonic()), self._fill)
        return True

    def _next_call(self) -> NextCall:
        # The worker's thread appends meanwhile, which ends an iteration over a deque with an error.
        count = min(len(self._waiting), self.policy.form.most_records)
        return self.policy.form.next_call((self._waiting[place][1] for place in range(count)), count)

    def _some(self) -> list[tuple[int, Any]]:
        return [self._waiting.popleft() for _ in range(self._next_call().items)]

    async def _call_at_its_moment(self) -> None:
        """Take the records after the pause, so that a list has all records that arrived meanwhile."""
        await self._pause()
        self._is_pausing = False
        calls = self._some()
        self._fill()
        await self._call(calls)

    async def _pause(self) -> None:
        if self.pace is not None and (pause_s := self.pace.pause_s()):
            await asyncio.sleep(pause_s)

    def _make_room(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._fill()

    async def _end_calls(self) -> None:
        self._is_open = False
        under_way = list(self._under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _cancel(self) -> None:
        self._closed.set()
        if self._serving is not None:
            self._serving.cancel()

    async def _call(self, calls: list[tuple[int, Any]]) -> None:
        numbers, found = [number for number, _ in calls], [item for _, item in calls]
        form = self.policy.form
        try:
            results = form.results(found, await self._result(found), self.function)
            outcomes = [Outcome(number, one) for number, one in zip(numbers, results, strict=True)]
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self._closed.is_set():
                raise
            failure = _raisable(error, f"the call for {form.shown(found)}")
            traceback = failure.__traceback__
            if isinstance(failure, self.caught):
                failure.__traceback__ = None  # otherwise the next call that raises it adds to it
            outcomes = [Outcome(number, error=failure, traceback=traceback) for number in numbers]
        self._finish(*outcomes)

    async def _result(self, found: list[Any]) -> Any:
        retry, made, paused_s = self.policy.retry, 0, 0.0

        async def attempt() -> Any:
            nonlocal made, paused_s
            if made:
                began_s = time.monotonic()
                await self._pause()
                paused_s += time.monotonic() - began_s
            made += 1
            return await self._attempt(found)

        try:
            return await retry.call_async(attempt, clock=lambda: time.monotonic() - paused_s)
        except retry.on as error:
            if retry.attempts != 1 and not isinstance(error, self.caught):
                error.add_note(f"This was attempt {made}, the last, for {self.policy.form.shown(found)}.")
            raise

    async def _attempt(self, found: list[Any]) -> Any:
        coming = self.function(self.policy.form.argument(found))
        if not inspect.isawaitable(coming):
            raise TypeError(
                f"map_async calls a function whose result is awaited, such as one defined with 'async def'; "
                f"{called(self.function)} returned {short(coming)}"
            )
        return await self._in_time(coming, lambda: f"the call for {self.policy.form.shown(found)}")

    async def _in_time(self, coming: Awaitable[Any], what: Callable[[], str]) -> Any:
        if self.policy.timeout_s is None:
            return await coming
        limit = asyncio.timeout(self.policy.timeout_s)
        try:
            async with limit:
                return await coming
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"{what()} took longer than timeout_s={self.policy.timeout_s:g}") from error

    def _finish(self, *outcomes: Outcome) -> None:
        self._outcomes.extend(outcomes)
        if not self._is_told:
            self._is_told = True
            self.activate()


def _raisable(error: BaseException, what: str) -> BaseException:
    """Return the error that the operator raises; a bare CancelledError would cancel the task that waits for the job."""
    if not isinstance(error, asyncio.CancelledError):
        return error
    cancelled = RuntimeError(f"{what} was cancelled by something that it has called")
    cancelled.__cause__ = error
    return cancelled


def build_map_async(
    function: Callable[[Any], Awaitable[Any]], policy: CallPolicy, *, ordered: bool, caught: Caught = ()
) -> Build:
    """Build an operator that calls ``function`` for each record, and sets aside records with a ``caught`` error."""

    def build(context: OperatorContext) -> Schedule:
        own = copy(function) if hasattr(function, "__aenter__") else function
        return MapAsync(context, own, policy, ordered=ordered, caught=caught).schedule

    return build


def _deal(pending: dict[int, Any], workers: int) -> list[dict[int, Any]]:
    items = list(pending.values())
    return [dict(enumerate(items[worker::workers])) for worker in range(workers)]


def _numbered(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    return dict(enumerate([*one.values(), *other.values()]))


_DIVISION = Division(_deal, _numbered)


class MapAsync:
    """The operator on one worker.

    Its state is the items, records or pieces of batches, whose results are not sent yet, numbered in order of arrival.
    A job that continues from a snapshot calls the function again for these items.

    Args:
        function: the worker's own, as for `AsyncCalls`.
    """

    def __init__(
        self,
        context: OperatorContext,
        function: Callable[[Any], Awaitable[Any]],
        policy: CallPolicy,
        *,
        ordered: bool,
        caught: Caught,
    ) -> None:
        name = f"tidewheel-async-{context.name}-{context.worker}"
        pace = None if policy.per_second is None else CallPace(policy.per_second, context.workers)
        self._calls = AsyncCalls(name, function, policy, context.activate, pace, caught)
        context.on_close(self._calls.close)
        instance_of(context).waits_for = "results of calls that are under way"
        self._context = context
        self._form = policy.form
        self._room = policy.room
        self._ordered = ordered
        self._caught = caught
        self._tokens = context.notificator()
        self._pending: dict[int, tuple[_Place, Any]] = _DIVISION.state(context, "pending", dict)
        self._tokens._drop_others({place for place, _ in self._pending.values()})
        self._left = Counter(place for place, _ in self._pending.values())
        self._arrived: dict[int, Any] = {}
        self._next = max(self._pending, default=-1) + 1
        self._next_to_send = min(self._pending, default=self._next)
        self._new = [(number, item) for number, (_, item) in self._pending.items()]
        self._sizes: dict[int, int] = {}
        """The bytes of items in progress by number, where the room depends on them."""
        self._records, self._bytes = 0, 0
        self._add(self._new)

    def schedule(self, input: InputPort, output: OutputPort) -> None:
        self._send(self._results(self._calls.take()), output)
        self._read(input)
        if self._new:
            self._calls.submit(self._new)
            self._new = []
        if self._pending:
            self._context.expect_activation()

    def _read(self, input: InputPort) -> None:
        while self._has_room and (message := next(iter(input), None)) is not None:
            lent, batch = message
            assert not isinstance(lent.label, MixedLabel), "messages are divided"
            place = lent.time, lent.label
            self._tokens.notify_at(lent)
            fresh = list(enumerate(self._form.items(batch), start=self._next))
            self._next += len(fresh)
            self._left[place] += len(fresh)
            self._pending.update((number, (place, item)) for number, item in fresh)
            self._add(fresh)
            self._new += fresh

    @property
    def _has_room(self) -> bool:
        room = self._room
        return self._records < room.records or (self._records < room.small and self._bytes < room.bytes)

    def _add(self, items: list[tuple[int, Any]]) -> None:
        self._records += sum(self._form.size(item) for _, item in items)
        if self._room.small:
            for number, item in items:
                self._sizes[number] = self._form.bytes(item)
                self._bytes += self._sizes[number]

    def _results(self, outcomes: list[Outcome]) -> Iterator[tuple[_Place, Any]]:
        for outcome in outcomes:
            number, error, result = outcome.number, outcome.error, outcome.result
            if number is not None and isinstance(error, self._caught):
                result = self._form.aside(self._pending[number][1], error, outcome.traceback)
                error = None
            if error is not None:
                if number is not None:
                    instance_of(self._context).work_at(self._pending[number][0][0])
                raise error
            assert number is not None, "an outcome without a number has an error"
            if self._ordered:
                self._arrived[number] = result
            else:
                yield self._place_of(number), result
        while self._next_to_send in self._arrived:
            yield self._place_of(self._next_to_send), self._arrived.pop(self._next_to_send)
            self._next_to_send += 1

    def _place_of(self, number: int) -> _Place:
        place, item = self._pending.pop(number)
        self._records -= self._form.size(item)
        self._bytes -= self._sizes.pop(number, 0)
        return place

    def _send(self, results: Iterable[tuple[_Place, Any]], output: OutputPort) -> None:
        for place, found in self._by_place(results):
            token = self._tokens.take(*place)
            for batch in self._form.batches(found):
                output.send(token, batch)
            self._left[place] -= len(found)
            if self._left[place]:
                self._tokens.notify_at(token)
            else:
                del self._left[place]
                token.discard()

    def _by_place(self, results: Iterable[tuple[_Place, Any]]) -> Iterable[tuple[_Place, list[Any]]]:
        if self._ordered:
            return [(place, [result for _, result in run]) for place, run in groupby(results, itemgetter(0))]
        found: dict[_Place, list[Any]] = {}
        for place, result in results:
            found.setdefault(place, []).append(result)
        return found.items()
