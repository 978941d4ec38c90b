"""Reads of a slow log, in an object store, on another thread than the loop's.

A read that is not ready raises `NotReady`. The caller then fetches it, and tries again.
"""

import logging
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from tidewheel.pubsub.exactly_once.pubend import NotReady
from tidewheel.pubsub.log.errors import LogError, StoreFailed
from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.storage.log_records import Record

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4
_MOST_RESTS = 4

R = TypeVar("R")


class LogReads:
    """Reads one log; all calls are on the loop's thread."""

    def __init__(self, log: AnyLog, later: Callable[[Callable[[], None]], None]) -> None:
        self._log = log
        self._later = later
        self._waiting: dict[object, list[Callable[[], None]]] = {}
        self._ready: dict[object, Any] = {}
        self._rests: deque[tuple[int, list[Record]]] = deque(maxlen=_MOST_RESTS)
        self._threads = None if isinstance(log, Log) else ThreadPoolExecutor(_AT_ONCE, "tidewheel-log-reads")

    def read(self, first_tick: int, max_bytes: int, most: int = sys.maxsize) -> list[Record]:
        """Return records as `Log.read` does; keep surplus fetched records for the next reads; raise as `get` does."""
        if self._threads is None:
            return self._log.read(first_tick, max_bytes, most)
        found = next((rest for tick, rest in self._rests if tick == first_tick), None)
        if found is None:
            found = self.get((first_tick, max_bytes), partial(self._log.read, first_tick, max_bytes))
        if len(found) <= most:
            return found
        next_tick = found[most - 1].tick + 1
        end = bisect_left(found, next_tick, most, key=attrgetter("tick"))
        if end < len(found) and all(tick != next_tick for tick, _ in self._rests):
            self._rests.append((next_tick, found[end:]))
        return found[:end]

    def get(self, key: object, read: Callable[[], R]) -> R:
        """Return the result of ``read()``, which ``key`` identifies.

        Raises:
            NotReady: the result must be fetched first.
            StoreFailed: the store did not answer; the caller may try again.
            LogCorrupted: the log is damaged.
        """
        if self._threads is None:
            return read()
        if key not in self._ready:
            raise NotReady(key, read)
        found: R | LogError = self._ready[key]
        if isinstance(found, LogError):
            raise found
        return found

    def fetch(self, missing: NotReady, then: Callable[[], None]) -> None:
        """Fetch a part of the log, and call ``then``. The part, or the error, is available only during that call."""
        assert self._threads is not None
        waiting = self._waiting.setdefault(missing.key, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._threads.submit(self._fetch, missing)

    def _fetch(self, missing: NotReady) -> None:
        try:
            found = missing.fetch()
        except LogError as error:
            _LOG.warning("%s", error)
            found = error
        except Exception as error:  # noqa: BLE001 - otherwise the reader would wait for ever
            found = StoreFailed(f"the log cannot be read: {error!r}")
        self._later(partial(self._tell, missing.key, found))

    def _tell(self, key: object, found: object) -> None:
        self._ready[key] = found
        with ExitStack() as calls:  # the stack makes all calls, last ones first, even if one raises
            calls.callback(self._ready.pop, key)
            for then in reversed(self._waiting.pop(key)):
                calls.callback(then)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
