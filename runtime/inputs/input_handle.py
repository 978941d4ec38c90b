"""The handle of an input, by which a program feeds a dataflow."""

import secrets
import time as clock
from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import Thread, current_thread
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from tidewheel.batches.batches import Batch, check_batch, length, size_in_bytes
from tidewheel.progress import Time
from tidewheel.runtime.errors import JobRolledBack, TokenError, WouldBlock
from tidewheel.runtime.inputs.fed_inputs import FedInput
from tidewheel.runtime.inputs.feed import Admission, Feed
from tidewheel.runtime.inputs.untold_threads import UntoldThreads
from tidewheel.runtime.messages.credit import OVERHEAD_BYTES
from tidewheel.runtime.messages.envelope import FIRST_HANDLE, InputAction, InputCommand
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.statistics import InputStatistics

H = TypeVar("H", bound="InputHandle")
P = ParamSpec("P")
R = TypeVar("R")

_HANDLE_BITS = 62
_AFTER_SNAPSHOT = ". The job goes on from a snapshot: send what comes after the handle's position"


def told_of_returns(use: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """Let a method wait while the job returns to a snapshot.

    A call that is interrupted by the return raises JobRolledBack.

    The feed raises JobRolledBack before the handle is back at its position in the snapshot. The program receives the
    error only afterwards.
    """

    @wraps(use)
    def told(handle: H, /, *args: P.args, **options: P.kwargs) -> R:
        handle._feed.wait_until_usable()
        try:
            return use(handle, *args, **options)
        except JobRolledBack:
            handle._feed.wait_until_usable()
            with handle._feed.lock:
                handle._raise_rewound()
            raise

    return told


class InputHandle:
    """A handle of an input. It holds a token and sends at the token's time, which begins at the minimum.

    Each batch goes whole to the next worker in turn; use ``exchange`` where records with equal keys must meet. Handles
    are thread-safe. A handle that is faster than the dataflow waits for it: `RuntimeConfig` has the limits,
    `Job.statistics` shows how long handles waited.

    An input may have any number of handles. A time is complete once every handle has passed it or is closed. So records
    may arrive in any order of times, from one process with several handles or from many processes. Pickling a handle,
    for instance as an argument of a Ray call, passes the handle to the other process; in this process it no longer
    works then.

    Attributes:
        name: the input's name.
        domain: the times of the input.
        workers: the number of workers that receive batches in turn.
        number: identifies the handle among all handles of the input.
        is_reopened: whether a return to a snapshot has reopened the handle, which has not been used since.

    >>> from tidewheel import Dataflow, run
    >>> flow = Dataflow("late")
    >>> _ = flow.input("numbers").capture("numbers")
    >>> with run(flow, engine="local") as job:
    ...     first = job.input("numbers")
    ...     later = first.delayed(7)
    ...     later.send([70])
    ...     first.send([1])
    ...     first.close()
    ...     later.close()
    ...     job.wait()
    ...     [(entry.time, entry.batch) for entry in job.captured("numbers")]
    [(7, [70]), (0, [1])]
    """

    def __init__(
        self,
        fed: FedInput,
        time: Time,
        number: int = FIRST_HANDLE,
        *,
        useless_because: str | None = None,
        goes_on_from: InputPosition | None = None,
    ) -> None:
        self.name = fed.name
        self.domain = fed.domain
        self.workers = fed.feed.workers
        self.number = number
        self.is_reopened = False
        self._fed = fed
        self._feed: Feed = fed.feed
        self._is_new = goes_on_from is None
        self._begin_at(goes_on_from or InputPosition(time))
        self._ended = useless_because
        self._user: Thread | None = None
        self._untold = UntoldThreads()
        self._left: deque[Time] = deque()
        self._epochs_ahead = fed.feed.epochs_ahead
        if useless_because is None:
            fed.open[number] = self

    def _begin_at(self, position: InputPosition) -> None:
        self._time: Time = position.time
        self._batches: int = position.batches
        self._records: int = position.records
        self._ends: int = position.ends
        self._batches_at_time: int = position.batches_at_time
        self._is_first: bool = position.is_first
        self._next_worker: int = (self.number + self._batches) % self.workers

    @property
    def time(self) -> Time:
        """The time at which `send` sends."""
        return self._time

    @property
    def is_closed(self) -> bool:
        """True if the handle was closed, or passed to another process."""
        return self._ended is not None

    @property
    def position(self) -> InputPosition:
        """The counts of all batches sent. After a return to a snapshot, send the batches after these counts again."""
        return InputPosition(
            self._time,
            self._batches,
            self._records,
            self.is_closed,
            self._batches_at_time,
            self._is_first,
            self._ends,
        )

    @property
    def statistics(self) -> InputStatistics:
        """The counts of all batches that this process has sent to the input, and how long its handles waited."""
        return self._fed.statistics

    @told_of_returns
    def send(self, batch: Batch, *, timeout_s: float | None = None, worker: int | None = None) -> None:
        """Send a batch of records at the current time; wait while too much is in flight.

        Args:
            batch: a list, Arrow table, record batch or NumPy array.
            timeout_s: how many seconds to wait; 0 for not at all, None for as long as the job lives.
            worker: the number of the worker that receives the batch; by default the next in turn. Pass it in a program
                that continues from a snapshot, so that each batch goes to the same worker as before.

        Raises:
            WouldBlock: too much was in flight until the timeout; nothing was sent.
            TokenError: the handle is closed or was passed to another process, or there is no such worker.
            TypeError: ``batch`` has another type. In the driver also: a record has a wrong type.
            JobRolledBack: the job has returned to a snapshot: send the batches after `position` again. Each method may
                raise it, once in each thread.
            JobError: the job has failed or was stopped.
        """
        self._check_open("send to")
        check_batch(batch)
        count = length(batch)
        self._fed.check_worker(worker)
        if not count:
            return
        if self._fed.check is not None:
            self._fed.check(batch, self._fed.batches)
        size = size_in_bytes(batch, self._fed.sizes) + OVERHEAD_BYTES
        self._wait(
            lambda: self._feed.has_room(self._next_worker if worker is None else worker, size),
            timeout_s,
            "too much is in flight",
        )
        with self._feed.lock:
            self._check_open("send to")
            chosen = self._next_worker if worker is None else worker
            self._feed.submit(chosen, self._command("send", self._time, batch, size))
            if worker is None:
                self._next_worker = (self._next_worker + 1) % self.workers
            self._batches += 1
            self._batches_at_time += 1
            self._records += count
            self._fed.batches += 1
            self._fed.records += count
            self._fed.bytes += size - OVERHEAD_BYTES

    @told_of_returns
    def advance_to(self, time: Time, *, timeout_s: float | None = None) -> None:
        """Promise to send nothing before ``time``, so that earlier times can complete.

        Waits while the handle is too many epochs ahead of the job's probes; ``timeout_s`` is as for `send`.

        Raises:
            WouldBlock: the handle was too far ahead until the timeout, and has not advanced.
            TokenError: the handle is closed or was passed to another process, or ``time`` is not a time at or after the
                current one.
            JobError: the job has failed or was stopped.
        """
        if len(self._left) >= self._epochs_ahead and time != self._time:
            ahead = f"it is {len(self._left)} times ahead of the probes"
            if self._wait(self._has_caught_up, timeout_s, ahead) is Admission.LET_IN:
                self._epochs_ahead *= 2  # the dataflow must receive later times before it can complete a time
        with self._feed.lock:
            self._check_open("advance")
            time = self._checked_time(time, "advance to")
            if time != self._time:
                self._left.append(self._time)
                self._time, self._batches_at_time = time, 0
                self._tell_all(self._command("advance", time))

    @told_of_returns
    def end_substream(self, *keys: Any) -> None:
        """Promise that no handle sends further records of these keys' substreams at this time.

        The input's stream must be divided: ``flow.input(...).substreams(name, key=...)``. A key may be used again at a
        later time, for a new substream. For a key without an open substream, an empty substream begins and ends. One
        call with several keys is cheaper than several calls.

        Raises:
            TokenError: the handle is closed or was passed to another process.
            TypeError: a key cannot be hashed.
            JobError: the job has failed or was stopped. The job fails if the input has no substreams, if a substream of
                the key has already ended at this time or later, or if a record arrives after the end.
        """
        for key in keys:
            try:
                hash(key)
            except TypeError as error:
                several = "; several keys are given as end_substream(1, 2)" if isinstance(key, list | set) else ""
                raise TypeError(f"end_substream: {key!r} is the key of no substream: {error}{several}") from None
        with self._feed.lock:
            self._check_open("end a substream of")
            if keys:
                self._tell_all(self._command("end", self._time, list(keys)))
                self._ends += 1

    def clone(self) -> Self:
        """Return one more handle of the input, at the same time. Close both handles.

        Raises:
            TokenError: the handle is closed or was passed to another process.
            JobError: the job has failed or was stopped.
        """
        return self.delayed(self._time)

    @told_of_returns
    def delayed(self, time: Time) -> Self:
        """Return one more handle of the input, at ``time``. This handle stays at its time.

        Raises:
            TokenError: the handle is closed or was passed to another process, or ``time`` is not a time at or after the
                current one.
            JobError: the job has failed or was stopped.
        """
        with self._feed.lock:
            self._check_open("clone a handle of")
            time = self._checked_time(time, "make a handle at")
            number = secrets.randbits(_HANDLE_BITS)
            self._tell_all(InputCommand(self.name, "clone", time, handle=number, origin=self.number))
            return type(self)(self._fed, time, number)

    @told_of_returns
    def close(self) -> None:
        """Promise to send nothing more; idempotent.

        Raises:
            JobRolledBack: the job has returned to a snapshot: first send the batches after `position` again.
        """
        with self._feed.lock:
            if self._ended is not None:
                return
            self._check_open("close")
            self._end(f"was closed at time {self._time!r}: close it after the last batch")
        self._feed.flush()

    def wait_until_saved(self, timeout_s: float = 300.0) -> None:
        """Wait until a snapshot has all batches sent before this call, so that you never need to send them again.

        This takes a snapshot. In a job without snapshots it does nothing.

        Raises:
            JobRolledBack: the job has returned to a snapshot: send the batches after `position` again.
            SnapshotError: the snapshot failed. Call again to take another one.
            TimeoutError: the snapshot is not complete within ``timeout_s`` seconds.
            JobError: the job has failed or was stopped, or this process is not its driver.
        """
        for step in (self._feed.wait_until_usable, lambda: self._feed.save(timeout_s)):
            step()
            with self._feed.lock:
                self._raise_rewound()

    @told_of_returns
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the handle, which moves to the process that unpickles it."""
        with self._feed.lock:
            if self.is_reopened:
                self._untold.tell_this()  # the position is pickled too, so no thread may send with the handle now
            self._check_open("hand over")
            if self._feed.is_carrying:
                raise TokenError(
                    f"a handle of input {self.name!r} cannot be a record of the dataflow that it feeds: hand it over "
                    "as an argument of a call"
                )
            number = secrets.randbits(_HANDLE_BITS)
            position = msgspec.structs.replace(self.position, is_first=self._is_first or self.number == FIRST_HANDLE)
            ticket = self._feed.ticket(self.name, number, position)
            self._tell_all(InputCommand(self.name, "clone", self._time, position, handle=number, origin=self.number))
            self._fed.handed_over += 1
            self._fed.ended[number] = self
            self._end(
                "was pickled, so another process has it now: pickle a clone() of it to go on using it here as well"
            )
        self._feed.flush()
        return ticket

    def _command(self, action: InputAction, time: Time = None, batch: Any = None, size: int = 0) -> InputCommand:
        return InputCommand(self.name, action, time, batch, size, self.number)

    def _end(self, why: str) -> None:
        self._ended = why
        if self.number == FIRST_HANDLE:
            self._fed.closed_at = self.position
        self._fed.ended[self.number] = self
        del self._fed.open[self.number]
        self._tell_all(self._command("close", batch=self.position if self._is_first else None))

    def _tell_all(self, command: InputCommand) -> None:
        for worker in range(self.workers):
            self._feed.submit(worker, command)

    def _has_caught_up(self) -> bool:
        with self._feed.lock:
            while self._left and self._feed.is_past(self._left[0]):
                self._left.popleft()
            return len(self._left) < self._epochs_ahead

    def _wait(self, condition: Callable[[], bool], timeout_s: float | None, why: str) -> Admission:
        if condition():
            return Admission.ROOM
        started = clock.monotonic()
        admission = self._feed.wait(condition, timeout_s)
        self._fed.waited_s += clock.monotonic() - started
        if admission is Admission.TIMED_OUT:
            raise WouldBlock(
                f"input {self.name!r} at time {self._time!r} would have to wait: {why}, and was for {timeout_s:g} s. "
                "Nothing was sent: try again later, or with a longer timeout_s"
            )
        return admission

    def _go_back(self, feed: Feed, number: int, position: InputPosition | None) -> None:
        """Continue from a snapshot, with another feed. A handle that is not in the snapshot is closed.

        If the handle has sent batches since the snapshot, or was closed, the next call of each thread raises
        JobRolledBack, and so does `Job.wait`.
        """
        before, self._feed = self.position, feed
        if position is None:
            self._untold.clear()
            self._ended = self._ended or "was closed when the job went back to a snapshot, in which it is not open"
            return
        self.number, self._ended, self._is_new = number, None, False
        self.is_reopened = self.is_reopened or before.is_closed
        self._begin_at(position)
        self._left.clear()
        self._fed.open[number] = self
        if position != before:
            self._untold.note_return()

    @property
    def _is_missed(self) -> bool:
        return (self.is_reopened or self._user is current_thread()) and self._untold.has_this

    def _raise_rewound(self) -> None:
        if self._untold.has_this:
            self._untold.tell_this()
            raise JobRolledBack(
                f"input {self.name!r}: the job has gone back to a snapshot, as a worker or feeder has died. This "
                f"handle is at time {self._time!r} again, after {self._batches} batches: send what comes after its "
                "position"
            )

    def _check_open(self, action: str) -> None:
        self._raise_rewound()
        self.is_reopened, self._user = False, current_thread()
        if self._ended is not None:
            raise TokenError(f"cannot {action} input {self.name!r}, which {self._ended}")

    def _checked_time(self, time: Time, action: str) -> Time:
        domain = self.domain
        if not domain.contains(time):
            raise TokenError(
                f"input {self.name!r} cannot {action} {time!r}: that is no time of this dataflow, where times are "
                f"{domain.describe()}"
            )
        if not domain.less_equal(self._time, time):
            raise TokenError(
                f"input {self.name!r} is at time {self._time!r} and cannot go back to {time!r}: times already "
                f"passed may be complete; send such records at a later time{'' if self._is_new else _AFTER_SNAPSHOT}"
            )
        return domain.plain(time)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._ended is None:
            self._feed.abandon(self.name, f"{kind.__name__}: {error}")

    def __del__(self) -> None:
        if getattr(self, "_ended", "") is None:
            self._feed.abandon(self.name, f"it was dropped at time {self._time!r} without close()")

    def __repr__(self) -> str:
        state = f"at {self._time!r}" if self._ended is None else self._ended.partition(":")[0].removeprefix("was ")
        return f"InputHandle({self.name!r}, {state})"
