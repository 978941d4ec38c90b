"""A source that reads a queue filled by other threads or processes."""

import logging
import queue as queues
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from tidewheel.host.log_lines import about
from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.contract import Fetched, Partition, Pause
from tidewheel.operators.sources.inline_source import InlineSource
from tidewheel.progress import GraphError
from tidewheel.runtime.errors import JobError, WouldBlock

_LOGGER = logging.getLogger(__name__)

Record = TypeVar("Record")

_CLOSED = "nothing was put in, because this QueueSource was closed: close it when all has been put in"
_LEFT = (
    "nothing was put in, because the job that read this QueueSource has ended: stop filling it, or run another job "
    "that reads it first"
)


class RecordQueue(Protocol):
    """The methods of a queue that a source needs, as in `queue`, `multiprocessing` and `ray.util.queue`."""

    def put(self, item: Any, /, *, timeout: float | None = None) -> None:
        """Add an item; raise `queue.Full` if there was no room in time."""

    def get_nowait(self) -> Any:
        """Return the next item; raise `queue.Empty` if there is none."""


class End:
    """The mark at the end of a queue, after the last record."""


class LocalQueue:
    """A queue within a process. Any number of threads write to it; readers come and go.

    The queue accepts items before the first reader comes and while there is a reader. When the last reader has left, it
    keeps its items but accepts no more until another reader comes. So no thread waits for room forever.

    >>> queue = LocalQueue(capacity=2)
    >>> queue.put("tide")
    >>> queue.close()
    >>> queue.get_nowait(), isinstance(queue.get_nowait(), End)
    ('tide', True)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[Any] = deque()
        self._taken: deque[Any] = deque()
        """The items that were read and are not forgotten yet. ``_forgotten`` counts the items before them."""
        self._forgotten = 0
        self._readers: list[Callable[[], object]] = []
        self._refusal: str | None = None
        """The reason why the queue accepts no items now; None if it does."""
        self._changed = threading.Condition()

    def add_reader(self, wake: Callable[[], object]) -> None:
        """Call ``wake``, on any thread, when there are items to read."""
        with self._changed:
            self._readers.append(wake)
            if self._refusal == _LEFT:
                self._refusal = None

    def remove_reader(self, wake: Callable[[], object]) -> None:
        """Remove a reader; if it was the last, waiting writers get an error."""
        with self._changed:
            self._readers.remove(wake)
            if not self._readers:
                self._refuse(_LEFT)

    def close(self) -> None:
        """Accept no more items; after those in the queue, every read returns `End`. Never waits."""
        with self._changed:
            self._refuse(_CLOSED)
        self._wake()

    def _refuse(self, why: str) -> None:
        if self._refusal != _CLOSED:
            self._refusal = why
        self._changed.notify_all()

    def put(self, item: Any, *, timeout: float | None = None) -> None:
        """Add an item; wait at most ``timeout`` seconds for room.

        Raises:
            queue.Full: there was no room in time.
            JobError: the queue is closed, or its last reader has left, before or during the wait.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._refusal or len(self._items) < self._capacity, timeout):
                raise queues.Full
            if self._refusal is not None:
                raise JobError(self._refusal)
            self._items.append(item)
        self._wake()

    def get_nowait(self) -> Any:
        """Return the next item, or `End`; raise `queue.Empty` if there is no item now."""
        with self._changed:
            if self._items:
                self._changed.notify()
                item = self._items.popleft()
                self._taken.append(item)
                return item
            if self._refusal == _CLOSED:
                return End()
            raise queues.Empty

    def begin_at(self, place: int | None) -> int:
        """Go back to the item with this number, by default to the first that is not forgotten; return its number."""
        with self._changed:
            while self._taken and (place is None or self._forgotten + len(self._taken) > place):
                self._items.appendleft(self._taken.pop())
            return self._forgotten + len(self._taken)

    def forget(self, place: int) -> None:
        """Forget the items before this number, since no reader will go back to them."""
        with self._changed:
            while self._taken and self._forgotten < place:
                self._taken.popleft()
                self._forgotten += 1

    def _wake(self) -> None:
        for wake in self._readers.copy():
            wake()


class _Reading(Iterator[Any]):
    """An iterator that reads a queue. If the queue is the source's own, it is registered as a reader."""

    def __init__(self, fetched: Iterator[Any], queue: LocalQueue | None, wake: Callable[[], object]) -> None:
        self._fetched = fetched
        self._queue = queue
        self._wake = wake
        if queue is not None:
            queue.add_reader(wake)

    def __next__(self) -> Any:
        return next(self._fetched)

    def close(self) -> None:
        if self._queue is not None:
            self._queue.remove_reader(self._wake)
            self._queue = None


class QueueSource(InlineSource[Record]):
    """A source of records that threads, or another process, put into a queue while the job runs.

    Worker 0 reads up to ``batch_size`` waiting records as one batch. Each batch is an epoch, which is complete at once.
    While the dataflow holds back its sources, the queue fills up and `put` waits.

    Several jobs may read a source with its own queue, one after the other. Records wait for the first job. After a job,
    `put` raises until another job reads.

    The source's own queue keeps the records that no snapshot has, and a job that continues in the same process reads
    them again. The queue is lost with its process. A queue that you pass returns each record once, so a restored job
    misses the records read since its snapshot, and logs a warning. To miss no record, use `Dataflow.input`: its
    position tells which records the snapshot has, and the driver sends the others again.

    Args:
        queue: a queue that processes share, such as `ray.util.queue.Queue`; it is polled every ``poll_s`` seconds. By
            default the source has its own queue in this process, for the local engine: each `put` wakes the source.
        capacity: how many records may wait in the source's own queue.
        batch_size: the greatest number of records in a batch.
        poll_s: the seconds between polls.

    Raises:
        GraphError: an argument is wrong.

    >>> import threading
    >>> import tidewheel as tw
    >>> clicks = QueueSource()
    >>> def listen():
    ...     for number in range(3):
    ...         clicks.put(number)
    ...     clicks.close()
    >>> flow = tw.Dataflow("clicks")
    >>> _ = flow.source("clicks", clicks).capture("clicks")
    >>> with tw.run(flow, engine="local") as job:
    ...     threading.Thread(target=listen).start()
    ...     job.wait()
    ...     [number for captured in job.captured("clicks") for number in captured.batch]
    [0, 1, 2]
    """

    waits_for = "records in its queue, or for its close()"

    def __init__(
        self,
        queue: RecordQueue | None = None,
        *,
        capacity: int = 10_000,
        batch_size: int = 1000,
        poll_s: float = 0.05,
    ) -> None:
        check_positive("QueueSource", "capacity", capacity)
        check_positive("QueueSource", "batch_size", batch_size)
        if not isinstance(poll_s, int | float) or not poll_s > 0:
            raise GraphError(f"QueueSource: poll_s is a number of seconds above 0, not {poll_s!r}")
        if queue is not None and not (hasattr(queue, "put") and hasattr(queue, "get_nowait")):
            raise GraphError(f"QueueSource: a queue has put() and get_nowait(), unlike {queue!r}")
        self._queue: RecordQueue = LocalQueue(capacity) if queue is None else queue
        self._batch_size = batch_size
        self._poll_s = poll_s
        self._own = self._queue if isinstance(self._queue, LocalQueue) else None
        self._is_closed = False

    def put(self, record: Record, timeout_s: float | None = None) -> None:
        """Add a record; wait at most ``timeout_s`` seconds for room.

        On the local engine, another thread must run the job meanwhile.

        Raises:
            WouldBlock: there was no room in time.
            JobError: the source was closed, or the job that read it has ended, before or during the wait.
        """
        if self._is_closed:
            raise JobError(_CLOSED)
        self._put(record, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """End the source after the records sent so far; a second call does nothing.

        In a queue that processes share, the end mark needs room. This call waits for room as `put` does.
        """
        if self._own is not None:
            self._own.close()
        elif not self._is_closed:
            self._put(End(), timeout_s)
        self._is_closed = True

    def _put(self, item: object, timeout_s: float | None) -> None:
        try:
            self._queue.put(item, timeout=timeout_s)
        except queues.Full:
            raise WouldBlock(
                "the queue of a QueueSource is full: the job that reads it does not run, or takes no more now"
            ) from None

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition, the queue, which worker 0 reads."""
        return ["queue"]

    @property
    def is_woken(self) -> bool:
        """True if threads of this process fill the queue."""
        return self._own is not None

    def read(self, partition: Partition, position: Any, wake: Callable[[], object]) -> "_Reading":
        """Read the queue; call ``wake`` when a thread has put records."""
        return _Reading(self.open(partition, position), self._own, wake)

    def open(self, partition: Partition, position: tuple[int, int] | None) -> Iterator[Fetched[Record] | Pause]:
        """Read the queue; the position is (number of records read, number of epochs read)."""
        place, epoch = position or (None, 0)
        if self._own is not None:
            place = self._own.begin_at(place)
        elif place is not None:
            said = "a QueueSource goes on from a snapshot: the records that it had read since are missing"
            _LOGGER.warning(said, extra=about())
        return self._batches(place or 0, epoch)

    def _batches(self, place: int, epoch: int) -> Iterator[Fetched[Record] | Pause]:
        while True:
            batch, has_ended = self._take()
            if batch:
                place, epoch = place + len(batch), epoch + 1
                yield Fetched(batch, (place, epoch), epoch - 1)
                yield Fetched([], (place, epoch), epoch)
            if has_ended:
                return
            if not batch:
                yield Pause(self._poll_s)

    def saved(self, partition: Partition, position: tuple[int, int]) -> None:
        """Forget records in the source's own queue that no run will read again."""
        if self._own is not None:
            self._own.forget(position[0])

    def _take(self) -> tuple[list[Any], bool]:
        batch: list[Any] = []
        with suppress(queues.Empty):
            while len(batch) < self._batch_size:
                item = self._queue.get_nowait()
                if isinstance(item, End):
                    return batch, True
                batch.append(item)
        return batch, False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._own is not None:
            raise TypeError(
                "a QueueSource with a queue of its own is filled by threads of this process, so it cannot be sent to "
                "another. Give it one that processes share, such as ray.util.queue.Queue(), or use flow.input()"
            )
        return partial(QueueSource, batch_size=self._batch_size, poll_s=self._poll_s), (self._queue,)
