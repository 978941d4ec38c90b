"""A source that reads from a queue, which other threads or processes fill."""

import logging
import queue as queues
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from tidewheel.host.log_lines import about
from tidewheel.operators.base.stream_base import check_positive
from tidewheel.operators.sources.partitioned_source import OperatorSource
from tidewheel.operators.sources.share import tokens_at_first
from tidewheel.progress import GraphError
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.errors import JobError, WouldBlock
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import OutputPort

_LOGGER = logging.getLogger(__name__)

Record = TypeVar("Record")

_CLOSED = "nothing was put in, because this QueueSource was closed: close it when all has been put in"
_LEFT = (
    "nothing was put in, because the job that read this QueueSource has ended: stop filling it, or run another job "
    "that reads it first"
)


class RecordQueue(Protocol):
    """What a queue has to have: `queue.Queue`, those of `multiprocessing`, and `ray.util.queue.Queue` do."""

    def put(self, item: Any, /, *, timeout: float | None = None) -> None:
        """Add an item; raise `queue.Full` if there was no room in time."""

    def get_nowait(self) -> Any:
        """Return the next item; raise `queue.Empty` if there is none."""


class End:
    """What is read behind the last record."""


class LocalQueue:
    """A queue within a process, which any number of threads fill, and of which readers come and go.

    It takes items before the first reader has come and while there is one. When the last has left it takes none, until
    another comes; what is in it stays there. So no thread waits for room that no reader will ever make.

    Args:
        capacity: how many items wait in it, at most.

    >>> queue = LocalQueue(capacity=2)
    >>> queue.put("tide")
    >>> queue.close()
    >>> queue.get_nowait(), isinstance(queue.get_nowait(), End)
    ('tide', True)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[Any] = deque()
        self._readers: list[Callable[[], object]] = []
        self._refusal: str | None = None
        """Why it takes nothing now."""
        self._changed = threading.Condition()

    def add_reader(self, wake: Callable[[], object]) -> None:
        """Have ``wake`` called, on any thread, when there is something to be read."""
        with self._changed:
            self._readers.append(wake)
            if self._refusal == _LEFT:
                self._refusal = None

    def remove_reader(self, wake: Callable[[], object]) -> None:
        """Take a reader back; if it was the last, those who wait for room get their error."""
        with self._changed:
            self._readers.remove(wake)
            if not self._readers:
                self._refuse(_LEFT)

    def close(self) -> None:
        """Take no more items; `End` comes behind those that are there, as often as one asks. Waits for nothing."""
        with self._changed:
            self._refuse(_CLOSED)
        self._wake()

    def _refuse(self, why: str) -> None:
        if self._refusal != _CLOSED:
            self._refusal = why
        self._changed.notify_all()

    def put(self, item: Any, *, timeout: float | None = None) -> None:
        """Add an item; wait while there is no room, ``timeout`` seconds at most.

        Raises:
            queue.Full: there was no room in time.
            JobError: the queue is closed, or its last reader has left, now or while this waited.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._refusal or len(self._items) < self._capacity, timeout):
                raise queues.Full
            if self._refusal is not None:
                raise JobError(self._refusal)
            self._items.append(item)
        self._wake()

    def get_nowait(self) -> Any:
        """Return the next item, or `End`; raise `queue.Empty` if there is none yet."""
        with self._changed:
            if self._items:
                self._changed.notify()
                return self._items.popleft()
            if self._refusal == _CLOSED:
                return End()
            raise queues.Empty

    def _wake(self) -> None:
        for wake in self._readers.copy():
            wake()


class QueueSource(OperatorSource[Record], Generic[Record]):
    """A source of records that any thread, or another process, puts into a queue while the job runs.

    Worker 0 reads up to ``batch_size`` waiting records as one batch. The batch is an epoch of its own, and complete at
    once. While the dataflow holds its sources back the queue fills up, and `put` waits.

    Jobs may read one source one after the other. Records that are put in before the first job runs wait for it. When a
    job has ended, `put` raises until another job reads, so that no queue fills up that no job empties. Only a queue of
    the source's own knows this.

    A queue gives each record once. So a job that goes on from a snapshot misses the records that were read since, and
    receives those that are still in the queue; a warning says so. A queue of the source's own is lost with its process.
    Where no record may be missed, send them by `Dataflow.input`, whose position says which the snapshot has. The driver
    can then read the queue, and send again what the snapshot lacks.

    Args:
        queue: one that processes share, such as `ray.util.queue.Queue`, which is asked every ``poll_s`` seconds. None
            makes one of this process, for the local engine: each `put` wakes the source up.
        capacity: how many records may wait in a queue of the source's own.
        batch_size: how many records a batch has, at most.
        poll_s: in seconds.

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
        """Add a record; wait while there is no room, ``timeout_s`` seconds at most.

        On the local engine another thread has to run the job meanwhile.

        Raises:
            WouldBlock: there was no room in time.
            JobError: the source was closed, here, or the job that read it has ended, now or while this waited.
        """
        if self._is_closed:
            raise JobError(_CLOSED)
        self._put(record, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Say that this was the last record: the source ends once it has read so far. Does nothing the second time.

        Only in a queue that processes share the end needs room; then it waits for that as `put` does.
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

    def build(self, context: OperatorContext) -> Schedule:
        """Return the schedule function of worker 0, which reads; the others have nothing to do."""
        tokens = tokens_at_first(context)
        if context.worker:
            return lambda output: None
        if instance_of(context).kept.is_restored:
            said = "%s goes on from a snapshot: the records that it had read since are missing"
            _LOGGER.warning(said, context.name, extra=about(operator=context.name))
        instance_of(context).waits_for = "records in its queue, or for its close()"
        own = self._own
        if own is not None:
            own.add_reader(context.activator)
            context.on_close(lambda: own.remove_reader(context.activator))

        def schedule(output: OutputPort) -> None:
            if not tokens:
                return
            (token,) = tokens
            batch, has_ended = self._take()
            output.send(token, batch)
            if has_ended:
                tokens.discard()
                return
            if batch:
                token.downgrade(token.time + 1)
            if len(batch) == self._batch_size:
                context.activate()
            elif own is not None:
                context.expect_activation()
            else:
                context.activator.after(self._poll_s)

        return schedule

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
