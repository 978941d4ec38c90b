"""Feeding an input from the driver."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.batches import Batch, check_batch, length
from tidewheel.runtime.envelope import InputCommand
from tidewheel.runtime.errors import TokenError


class InputHandle:
    """The driver's end of an input: it holds a token, which starts at the minimum time.

    Each batch that is sent goes whole to one worker, to each in turn; use ``exchange`` where records must meet. May be
    used from several threads.
    """

    def __init__(
        self,
        name: str,
        domain: TimeDomain,
        workers: int,
        submit: Callable[[int, InputCommand], None],
        lock: threading.RLock,
    ) -> None:
        self.name = name
        self._domain = domain
        self._workers = workers
        self._submit = submit
        self._time: Time = domain.minimum()
        self._next_worker = 0
        self._closed = False
        self._lock = lock

    @property
    def time(self) -> Time:
        """The time at which `send` sends."""
        return self._time

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def send(self, batch: Batch) -> None:
        """Send a batch of records at the current time.

        Raises:
            TokenError: the input is closed.
            TypeError: ``batch`` is not a list, Arrow table, record batch or NumPy array.
            JobError: the job has failed or was stopped.
        """
        with self._lock:
            self._check_open("send to")
            check_batch(batch)
            if length(batch):
                self._submit(self._next_worker, InputCommand(self.name, "send", self._time, batch))
                self._next_worker = (self._next_worker + 1) % self._workers

    def advance_to(self, time: Time) -> None:
        """Promise to send nothing before ``time`` any more, so that earlier times can complete.

        Raises:
            TokenError: the input is closed, or ``time`` is not a time, or not at or after the current one.
            JobError: the job has failed or was stopped.
        """
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
                self._time = time
                self._tell_all(InputCommand(self.name, "advance", time))

    def close(self) -> None:
        """Promise to send nothing any more. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._tell_all(InputCommand(self.name, "close"))

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
