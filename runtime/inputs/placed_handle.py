"""The place of a handle: how far it has sent, and where a snapshot has it."""

import threading
from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import Thread, current_thread
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakSet

from tidewheel.progress import Time
from tidewheel.runtime.errors import Rewound
from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.runtime.messages.input_position import InputPosition

H = TypeVar("H", bound="PlacedHandle")
P = ParamSpec("P")
R = TypeVar("R")


def told_of_returns(use: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """Have a method wait while the job goes back to a snapshot; one that finds that out half-way tells it once, too.

    The feed raises Rewound before the handle is at its position in the snapshot. So it reaches the program only then.
    """

    @wraps(use)
    def told(handle: H, /, *args: P.args, **options: P.kwargs) -> R:
        handle._feed.wait_until_usable()
        try:
            return use(handle, *args, **options)
        except Rewound:
            handle._feed.wait_until_usable()
            with handle._feed.lock:
                handle._raise_rewound()
            raise

    return told


class PlacedHandle(FedJob):
    """The part of an `InputHandle` that knows its position.

    If the job goes back to a snapshot, each thread is told once, before it can send from where the handle was.

    Args:
        workers: how many workers take batches in turn.
    """

    number: int
    _is_new: bool

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._untold: WeakSet[Thread] = WeakSet()
        self._is_news = False
        self._user: Thread | None = None
        self.is_reopened = False
        self._left: deque[Time] = deque()

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more: `close` was called, or another process has the handle."""
        return self._ended is not None

    @property
    def position(self) -> InputPosition:
        """How far it has sent, in all. In a job that goes on from a snapshot, send what comes after that."""
        return InputPosition(
            self._time,
            self._batches,
            self._records,
            self.is_closed,
            self._batches_at_time,
            self._is_first,
            self._ends,
        )

    def _begin_at(self, position: InputPosition) -> None:
        self._time: Time = position.time
        self._batches, self._records, self._ends = position.batches, position.records, position.ends
        self._batches_at_time, self._is_first = position.batches_at_time, position.is_first
        self._next_worker = (self.number + self._batches) % self.workers

    def wait_until_saved(self, timeout: float = 300.0) -> None:
        """Wait until a snapshot has all that was sent before this call, so that its origin may forget it.

        A snapshot is taken for this. If the job keeps none, nothing is waited for.

        Raises:
            Rewound: the job has gone back to a snapshot: send again what comes after `position`.
            SnapshotError: the snapshot was not taken; call it again for the next one.
            TimeoutError: it is not complete within ``timeout`` seconds.
            JobError: the job has failed or was stopped, or this is not its driver.
        """
        for step in (self._feed.wait_until_usable, lambda: self._feed.save(timeout)):
            step()
            with self._feed.lock:
                self._raise_rewound()

    @property
    def goes_on(self) -> bool:
        """Whether it goes on from a snapshot."""
        return not self._is_new

    def _note_return(self) -> None:
        """Note that the job has gone back to before something that was sent, so that it has to be sent again.

        All threads that there are may be about to send what came next, so each of them is told. A thread that begins
        later is told only if it is the first of all.
        """
        self._untold, self._is_news = WeakSet(threading.enumerate()), True

    @property
    def _is_untold(self) -> bool:
        """Whether this thread is to be told that the job has gone back."""
        return self._is_news or current_thread() in self._untold

    @property
    def _is_missed(self) -> bool:
        """Whether a wait of this thread is to end, as it is the one to send again what is missing, or there is none."""
        return (self.is_reopened or self._user is current_thread()) and self._is_untold

    def _have_told(self) -> None:
        """Note that this thread knows that the job has gone back."""
        self._untold.discard(current_thread())
        self._is_news = False

    def _raise_rewound(self) -> None:
        if self._is_untold:
            self._have_told()
            raise Rewound(
                f"input {self.name!r}: the job has gone back to a snapshot, as a worker or feeder has died. This "
                f"handle is at time {self._time!r} again, after {self._batches} batches: send what comes after its "
                "position"
            )
