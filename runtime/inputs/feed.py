"""One process's end of the inputs of a dataflow: what carries commands to the workers, and what holds feeders back."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from tidewheel.progress import Time
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.worker.envelope import InputCommand
from tidewheel.runtime.worker.flow_control import UNTOLD_PARTS

_LOGGER = logging.getLogger(__name__)

WORKER_THREAD = "tidewheel-worker-"
"""How the names of threads begin that run operators; workers wait for them, so they must not wait for workers."""


EndCall: TypeAlias = Callable[[Exception | None], None]
"""Told that a job is over, with why it has failed, if it has."""


class Admission(Enum):
    """How waiting for room ended."""

    ROOM = "there is room"
    LET_IN = "there is none, but the dataflow has nothing left to do and may be waiting for more"
    TIMED_OUT = "there is none, and no time left to wait"


class Feed(ABC):
    """Carries what the handles of one process say to the workers, in order, and says when they have to wait.

    Args:
        workers: how many workers there are.
        lock: what to hold while an input is used.
        bytes_in_flight: how many bytes may be on their way to one worker.
        epochs_ahead: how many times a handle may be ahead of the dataflow's probes.

    Attributes:
        is_carrying: whether a command is being pickled and sent.
    """

    def __init__(self, workers: int, lock: threading.RLock, bytes_in_flight: int, epochs_ahead: int) -> None:
        self.workers = workers
        self.lock = lock
        self.epochs_ahead = epochs_ahead
        self.is_carrying = False
        self._limit = bytes_in_flight
        self._submitted = [0] * workers
        self._ending = threading.Lock()
        self._is_over = False
        self._failure: Exception | None = None
        self._end_calls: list[EndCall] = []

    def when_over(self, call: EndCall) -> None:
        """Have ``call(failure)`` called once the job has failed, or with None if it was stopped; at once if it is over.

        It must not wait.
        """
        with self._ending:
            if not self._is_over:
                self._end_calls.append(call)
                return
        _tell(call, self._failure)

    def forget(self, call: EndCall) -> None:
        """Call ``call`` no more when the job is over. Idempotent."""
        with self._ending:
            if call in self._end_calls:
                self._end_calls.remove(call)

    def tell_end(self, failure: Exception | None) -> None:
        """Say, from any thread, that the job has failed or, if that is None, was stopped. Idempotent."""
        with self._ending:
            if self._is_over:
                return
            self._is_over, self._failure = True, failure
            calls, self._end_calls = self._end_calls, []
        for call in calls:
            _tell(call, failure)

    def submit(self, worker: int, command: InputCommand) -> None:
        """Hand a command to one worker's share of an input.

        Raises:
            JobError: the job has failed or was stopped, or the batch cannot be pickled; nothing was sent.
        """
        self.is_carrying = True
        try:
            self._carry(worker, command)
        finally:
            self.is_carrying = False
        self._submitted[worker] += command.size

    def has_room(self, worker: int, size: int) -> bool:
        """Tell whether so many bytes may be sent to a worker now."""
        on_their_way = self._submitted[worker] - self._taken(worker)
        # Workers need not say at once that they have taken a little; and a batch larger than the limit goes alone.
        return on_their_way + size <= self._limit or on_their_way <= self._limit // UNTOLD_PARTS

    @abstractmethod
    def is_past(self, time: Time) -> bool:
        """Tell whether a time is complete at every outermost probe, as far as is known."""

    @abstractmethod
    def wait(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Wait until ``condition()`` holds, for so many seconds at most; None waits as long as the job lives."""

    @abstractmethod
    def ticket(self, name: str, handle: int, time: Time) -> tuple[Any, ...]:
        """Return what a handle is pickled as, once it was handed over: a function and its arguments.

        Raises:
            TokenError: the job runs in this process alone.
        """

    def abandon(self, name: str, reason: str) -> None:  # noqa: B027 - the driver knows its handles
        """Say that a handle of an input was given up before it was closed, where nobody else would notice."""

    @abstractmethod
    def fail(self, name: str, error: JobError) -> None:
        """Fail the job with an error, since an input cannot be fed any more; from any thread."""

    def flush(self) -> None:  # noqa: B027 - the job ends with the process of its driver
        """Wait until the workers have what was submitted, if this process may end before they do."""

    @abstractmethod
    def _carry(self, worker: int, command: InputCommand) -> None:
        """Send a command to a worker."""

    @abstractmethod
    def _taken(self, worker: int) -> int:
        """Return how many of the bytes that were submitted to a worker its inputs have taken, as far as is known."""


def _tell(call: EndCall, failure: Exception | None) -> None:
    """Tell one who asked that the job is over; what goes wrong there keeps nobody from ending it in good order."""
    try:
        call(failure)
    except Exception:
        _LOGGER.exception("who feeds the job was to be told that it is over, and failed")
