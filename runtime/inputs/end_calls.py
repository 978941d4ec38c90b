"""The callbacks at the end of a job, in a process that feeds the job."""

import logging
from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

_LOGGER = logging.getLogger(__name__)

EndCall: TypeAlias = Callable[[Exception | None], None]
"""Called when a job has ended: with the error if it failed, otherwise with None."""


class EndCalls:
    """Calls each registered callback once, when the job has failed or was stopped; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_over = False
        self._failure: Exception | None = None
        self._calls: list[EndCall] = []

    def add(self, call: EndCall) -> None:
        """Register a callback, which receives the failure of a failed job, or None for a stopped job.

        If the job has ended, the callback is called at once. It must not wait.
        """
        with self._lock:
            if not self._is_over:
                self._calls.append(call)
                return
        _tell(call, self._failure)

    def remove(self, call: EndCall) -> None:
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)

    def tell(self, failure: Exception | None) -> None:
        """Call the callbacks: the job has failed or, with None, was stopped. Thread-safe, idempotent."""
        with self._lock:
            if self._is_over:
                return
            self._is_over, self._failure = True, failure
            calls, self._calls = self._calls, []
        for call in calls:
            _tell(call, failure)

    def take_over(self, before: "EndCalls") -> None:
        with before._lock:
            calls, before._calls = before._calls, []
        for call in calls:
            self.add(call)


def _tell(call: EndCall, failure: Exception | None) -> None:
    try:
        call(failure)
    except Exception:
        _LOGGER.exception("the callback for the end of the job has failed")
