"""A queue within a process that knows its readers, so that nobody waits for room that no reader will ever make."""

import queue as queues
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tidewheel.runtime.errors import JobError


class End:
    """What is read behind the last record."""


class LocalQueue:
    """A queue of items, in order, for any number of threads, of which readers come and go.

    It takes items before the first reader has come and while there is one. When the last has left it takes none, until
    another comes; what is in it stays there.

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
        self._is_left = False
        self._is_closed = False
        self._changed = threading.Condition()

    def add_reader(self, wake: Callable[[], object]) -> None:
        """Have ``wake`` called, on any thread, when there is something to be read."""
        with self._changed:
            self._readers.append(wake)
            self._is_left = False

    def remove_reader(self, wake: Callable[[], object]) -> None:
        """Take a reader back; if it was the last, those who wait for room get their error."""
        with self._changed:
            self._readers.remove(wake)
            self._is_left = not self._readers
            self._changed.notify_all()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; wait while there is no room, ``timeout`` seconds at most.

        Raises:
            queue.Full: there was no room in time.
            JobError: the queue is closed, or its last reader has left, now or while this waited.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_answer, timeout if block else 0):
                raise queues.Full
            if self._is_closed:
                raise closed_error()
            if self._is_left:
                raise JobError(
                    "nothing was put in, because the job that read this QueueSource has ended: stop filling it, or run "
                    "another job that reads it first"
                )
            self._items.append(item)
        self._wake()

    def close(self) -> None:
        """Take no more items; `End` comes behind those that are there, as often as one asks. Waits for nothing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._wake()

    def get_nowait(self) -> Any:
        """Return the next item, or `End`; raise `queue.Empty` if there is none yet."""
        with self._changed:
            if self._items:
                self._changed.notify()
                return self._items.popleft()
            if self._is_closed:
                return End()
            raise queues.Empty

    def qsize(self) -> int:
        """Return how many items wait."""
        return len(self._items)

    def _has_answer(self) -> bool:
        return self._is_closed or self._is_left or len(self._items) < self._capacity

    def _wake(self) -> None:
        for wake in self._readers.copy():
            wake()


def closed_error() -> JobError:
    """Return the error of who puts something behind the last record."""
    return JobError("nothing was put in, because this QueueSource was closed: close it when all has been put in")
