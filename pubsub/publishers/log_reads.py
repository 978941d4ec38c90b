"""The reads of a log that is slow to read, because it is in an object store: on another thread than the loop.

A read that is not ready raises `NotReady`. The caller has it fetched, and tries again when it is ready. A child that
has asked needs no answer until then, as it asks again by itself.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidewheel.pubsub.exactly_once.pubend import NotReady
from tidewheel.pubsub.log.errors import LogCorrupted, LogError
from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.pubsub.log.record_format import Record
from tidewheel.pubsub.log.segmented_log import Log

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4


class LogReads:
    """Reads one log. All calls are on the thread of the loop.

    Args:
        log: the log to read.
        later: has something called soon on the thread of the loop; may be called by any thread.
    """

    def __init__(self, log: AnyLog, later: Callable[[Callable[[], None]], None]) -> None:
        self._log = log
        self._later = later
        self._waiting: dict[tuple[int, int], list[Callable[[], None]]] = {}
        self._ready: dict[tuple[int, int], list[Record] | LogCorrupted] = {}
        self._threads = None if isinstance(log, Log) else ThreadPoolExecutor(_AT_ONCE, "tidewheel-log-reads")

    def read(self, first_tick: int, max_bytes: int) -> list[Record]:
        """Return what `Log.read` returns.

        Raises:
            NotReady: the records have to be fetched first.
            LogCorrupted: the first record is damaged.
        """
        if self._threads is None:
            return self._log.read(first_tick, max_bytes)
        found = self._ready.get((first_tick, max_bytes))
        if found is None:
            raise NotReady(first_tick, max_bytes)
        if isinstance(found, LogCorrupted):
            raise found
        return found

    def fetch(self, missing: NotReady, then: Callable[[], None]) -> None:
        """Fetch records, and call ``then`` while they are ready; never, if the store does not answer."""
        assert self._threads is not None
        waiting = self._waiting.setdefault(missing.wanted, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._threads.submit(self._fetch, missing.wanted)

    def _fetch(self, wanted: tuple[int, int]) -> None:
        found: list[Record] | LogCorrupted | None = None
        try:
            found = self._log.read(*wanted)
        except LogCorrupted as error:
            found = error
        except LogError as error:
            _LOG.warning("%s. Its reader asks again", error)
        except Exception:  # noqa: BLE001 - otherwise the reader would wait for ever
            _LOG.exception("records of a log cannot be read")
        self._later(lambda: self._tell(wanted, found))

    def _tell(self, wanted: tuple[int, int], found: list[Record] | LogCorrupted | None) -> None:
        waiting = self._waiting.pop(wanted)
        if found is None:
            return
        self._ready[wanted] = found
        try:
            for then in waiting:
                then()
        finally:
            del self._ready[wanted]

    def close(self) -> None:
        """Fetch nothing more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
