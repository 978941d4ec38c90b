"""Feeding an input from the driver."""

import threading
import time as clock
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.batches import Batch, check_batch, length, size_in_bytes
from tidewheel.runtime.envelope import InputCommand
from tidewheel.runtime.errors import TokenError, WouldBlock
from tidewheel.runtime.flow_control import OVERHEAD_BYTES
from tidewheel.runtime.input_gate import Admission, InputGate
from tidewheel.runtime.statistics import InputStatistics


class InputHandle:
    """The driver's end of an input: it holds a token, which starts at the minimum time.

    Each batch that is sent goes whole to one worker, to each in turn; use ``exchange`` where records must meet. May be
    used from several threads. An input that is faster than the dataflow waits for it: `RuntimeConfig` has the limits,
    `Job.statistics` how long it waited.
    """

    def __init__(
        self,
        name: str,
        domain: TimeDomain,
        workers: int,
        submit: Callable[[int, InputCommand], None],
        lock: threading.RLock,
        gate: InputGate | None = None,
    ) -> None:
        self.name = name
        self._domain = domain
        self._workers = workers
        self._submit = submit
        self._time: Time = domain.minimum()
        self._next_worker = 0
        self._closed = False
        self._lock = lock
        self._gate = gate if gate is not None else InputGate()
        self._epochs_ahead = self._gate.epochs_ahead
        self._left: deque[Time] = deque()
        self._batches = 0
        self._records = 0
        self._bytes = 0
        self._waited_s = 0.0

    @property
    def time(self) -> Time:
        """The time at which `send` sends."""
        return self._time

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def statistics(self) -> InputStatistics:
        """What was sent, and how long it waited for the dataflow."""
        return InputStatistics(self._batches, self._records, self._bytes, self._waited_s)

    def send(self, batch: Batch, *, timeout: float | None = None) -> None:
        """Send a batch of records at the current time; wait while too much is in flight.

        Args:
            batch: a list, Arrow table, record batch or NumPy array.
            timeout: for how many seconds to wait, 0 for not at all; None waits as long as the job lives.

        Raises:
            WouldBlock: there was too much in flight all the time; nothing was sent.
            TokenError: the input is closed.
            TypeError: ``batch`` is none of these.
            JobError: the job has failed or was stopped.
        """
        self._check_open("send to")
        check_batch(batch)
        count = length(batch)
        if not count:
            return
        size = size_in_bytes(batch) + OVERHEAD_BYTES
        self._wait(lambda: self._gate.has_room(self._next_worker, size), timeout, "too much is in flight")
        with self._lock:
            self._check_open("send to")
            self._submit(self._next_worker, InputCommand(self.name, "send", self._time, batch, size))
            self._next_worker = (self._next_worker + 1) % self._workers
            self._batches += 1
            self._records += count
            self._bytes += size - OVERHEAD_BYTES

    def advance_to(self, time: Time, *, timeout: float | None = None) -> None:
        """Promise to send nothing before ``time`` any more, so that earlier times can complete.

        Waits while the input is too many times ahead of the job's probes; ``timeout`` is as for `send`.

        Raises:
            WouldBlock: it was too far ahead all the time; it stays where it is.
            TokenError: the input is closed, or ``time`` is not a time, or not at or after the current one.
            JobError: the job has failed or was stopped.
        """
        if len(self._left) >= self._epochs_ahead and time != self._time:
            ahead = f"it is {len(self._left)} times ahead of the probes"
            if self._wait(self._has_caught_up, timeout, ahead) is Admission.LET_IN:
                self._epochs_ahead *= 2  # the dataflow needs to see more times than that before it can complete one
        with self._lock:
            self._check_open("advance")
            if not self._domain.contains(time):
                raise TokenError(
                    f"input {self.name!r} cannot advance to {time!r}: that is not a time of this dataflow, which are "
                    f"like {self._domain.minimum()!r}"
                )
            if not self._domain.less_equal(self._time, time):
                raise TokenError(
                    f"input {self.name!r} is at time {self._time!r} and cannot go back to {time!r}: times already "
                    "passed may be complete; send such records at a later time"
                )
            if time != self._time:
                self._left.append(self._time)
                self._time = time
                self._tell_all(InputCommand(self.name, "advance", time))

    def close(self) -> None:
        """Promise to send nothing any more. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._tell_all(InputCommand(self.name, "close"))

    def _has_caught_up(self) -> bool:
        """Tell whether fewer times than the limit are still to be completed."""
        with self._lock:
            while self._left and self._gate.is_past(self._left[0]):
                self._left.popleft()
            return len(self._left) < self._epochs_ahead

    def _wait(self, condition: Callable[[], bool], timeout: float | None, why: str) -> Admission:
        if condition():
            return Admission.ROOM
        started = clock.monotonic()
        admission = self._gate.wait(condition, timeout)
        self._waited_s += clock.monotonic() - started
        if admission is Admission.TIMED_OUT:
            raise WouldBlock(
                f"input {self.name!r} at time {self._time!r} would have to wait: {why}, and was for {timeout:g} s. "
                "Nothing was sent: try again later, or with a longer timeout"
            )
        return admission

    def _tell_all(self, command: InputCommand) -> None:
        for worker in range(self._workers):
            self._submit(worker, command)

    def _check_open(self, action: str) -> None:
        if self._closed:
            raise TokenError(
                f"cannot {action} input {self.name!r}, which was closed at time {self._time!r}: "
                "close it after the last batch"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        return f"InputHandle({self.name!r}, {'closed' if self._closed else f'at {self._time!r}'})"
