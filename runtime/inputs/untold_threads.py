"""The threads that have yet to be told that their job has gone back to a snapshot.

All threads that there are then may be about to send what came next, so each of them is told, once. A thread that begins
later is told only if it is the first of all.
"""

import threading
from threading import Thread, current_thread
from weakref import WeakSet


class UntoldThreads:
    """The threads that have yet to be told that what a handle had sent is to be sent again."""

    def __init__(self) -> None:
        self._threads: WeakSet[Thread] = WeakSet()
        self._is_news = False

    def note_return(self) -> None:
        """Note that the job has gone back to before something that was sent."""
        self._threads, self._is_news = WeakSet(threading.enumerate()), True

    @property
    def has_this(self) -> bool:
        """Whether this thread is to be told."""
        return self._is_news or current_thread() in self._threads

    def tell_this(self) -> None:
        """Note that this thread knows."""
        self._threads.discard(current_thread())
        self._is_news = False

    def clear(self) -> None:
        """Tell no thread any more."""
        self._threads.clear()
        self._is_news = False
