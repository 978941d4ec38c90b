"""The calls by which the end of a job is told in a process that feeds it."""

import logging
from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

_LOGGER = logging.getLogger(__name__)

EndCall: TypeAlias = Callable[[Exception | None], None]
"""Told that a job is over, with why it has failed, if it has."""


class EndCalls:
    """Calls each that wants to know, once, when the job has failed or was stopped. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_over = False
        self._failure: Exception | None = None
        self._calls: list[EndCall] = []

    def add(self, call: EndCall) -> None:
        """Have ``call(failure)`` called once the job has failed, or with None if it was stopped; at once if it is over.

        It must not wait.
        """
        with self._lock:
            if not self._is_over:
                self._calls.append(call)
                return
        _tell(call, self._failure)

    def remove(self, call: EndCall) -> None:
        """Call ``call`` no more when the job is over. Idempotent."""
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)

    def tell(self, failure: Exception | None) -> None:
        """Say, from any thread, that the job has failed or, if that is None, was stopped. Idempotent."""
        with self._lock:
            if self._is_over:
                return
            self._is_over, self._failure = True, failure
            calls, self._calls = self._calls, []
        for call in calls:
            _tell(call, failure)

    def take_over(self, before: "EndCalls") -> None:
        """Make the calls of a feed whose workers have died, in its place."""
        with before._lock:
            calls, before._calls = before._calls, []
        for call in calls:
            self.add(call)


def _tell(call: EndCall, failure: Exception | None) -> None:
    """Tell a program that asked that the job is over; what goes wrong there is logged, and the job ends as usual."""
    try:
        call(failure)
    except Exception:
        _LOGGER.exception("the callback for the end of the job has failed")
