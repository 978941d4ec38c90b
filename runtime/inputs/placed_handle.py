"""The place of a handle: how far it has sent, and where a snapshot has it."""

from collections import deque

from tidewheel.progress import Time
from tidewheel.runtime.errors import Rewound
from tidewheel.runtime.inputs.fed_job import FedJob
from tidewheel.runtime.inputs.input_position import InputPosition


class PlacedHandle(FedJob):
    """The part of an `InputHandle` that knows its position.

    Args:
        workers: how many workers take batches in turn.
    """

    number: int
    _is_new: bool

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._rewound: Rewound | None = None
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

    def _raise_rewound(self) -> None:
        if self._rewound is not None:
            error, self._rewound = self._rewound, None
            raise error
