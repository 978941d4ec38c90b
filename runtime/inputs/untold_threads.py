"""The threads that have not yet been told that their job has returned to a snapshot.

Each thread that existed at the return may be about to send the next records, so each is told once. A later thread is
told only if no earlier thread was.
"""

import threading
from threading import Thread, current_thread
from weakref import WeakSet


class UntoldThreads:
    """The threads that have not yet been told to send records of a handle again."""

    def __init__(self) -> None:
        self._threads: WeakSet[Thread] = WeakSet()
        self._is_news = False

    def note_return(self) -> None:
        self._threads, self._is_news = WeakSet(threading.enumerate()), True

    @property
    def has_this(self) -> bool:
        return self._is_news or current_thread() in self._threads

    def tell_this(self) -> None:
        self._threads.discard(current_thread())
        self._is_news = False

    def clear(self) -> None:
        self._threads.clear()
        self._is_news = False
