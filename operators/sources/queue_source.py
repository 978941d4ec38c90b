"""A source that reads a queue, which other threads or processes fill."""

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
    """The needed methods of a queue, as of `queue.Queue`, `multiprocessing` or `ray.util.queue.Queue`."""

    def put(self, item: Any, /, *, timeout: float | None = None) -> None:
        """Add an item; raise `queue.Full` if there was no room in time."""

    def get_nowait(self) -> Any:
        """Return the next item; raise `queue.Empty` if there is none."""


class End:
    """The end of a queue, after the last record."""


class LocalQueue:
    """A queue within a process, with any number of writing threads, and readers that come and go.

    It accepts items before the first reader and while there is one. After the last reader has left it keeps its items
    but accepts none until another comes, so no thread waits for room in vain.

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
        """Call ``wake``, on any thread, when there are items to read."""
        with self._changed:
            self._readers.append(wake)
            if self._refusal == _LEFT:
                self._refusal = None

    def remove_reader(self, wake: Callable[[], object]) -> None:
        """Remove a reader; after the last, waiting writers get an error."""
        with self._changed:
            self._readers.remove(wake)
            if not self._readers:
                self._refuse(_LEFT)

    def close(self) -> None:
        """Accept no more items; after the present ones, every read returns `End`. It never waits."""
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
    """A source of records that threads, or another process, put into a queue while the job runs.

    Worker 0 reads up to ``batch_size`` waiting records as one batch, an epoch of its own that is complete at once.
    While the dataflow holds back its sources the queue fills up, and `put` waits.

    Jobs may read one source one after the other. Records from before the first job wait for it. After a job, `put`
    raises until another job reads; this needs a queue of the source's own.

    A queue returns each record once. So a restored job misses the records read since its snapshot, and warns of it. A
    queue of the source's own is lost with its process. To miss no record, send them by `Dataflow.input`: its position
    says which records the snapshot has, and the driver sends the rest again.

    Args:
        queue: a queue that processes share, such as `ray.util.queue.Queue`, which is polled every ``poll_s`` seconds.
            By default a queue of this process, for the local engine: each `put` wakes the source.
        capacity: how many records may wait in a queue of the source's own.
        batch_size: the greatest number of records in a batch.
        poll_s: the interval of polls, in seconds.

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
            JobError: the source was closed, or the job that read it has ended, before or during the wait.
        """
        if self._is_closed:
            raise JobError(_CLOSED)
        self._put(record, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """End the source after the records so far; a second call does nothing.

        In a queue that processes share, the end needs room, for which this waits as `put` does.
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
        """Return the schedule function; only worker 0 reads."""
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
