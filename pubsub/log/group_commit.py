"""Makes the entries of many callers durable, in groups, on one thread (for a log in memory, without a thread).

While one group is in fdatasync, the next group collects entries. Entries are logged in the order of submission, and
each group completely or not at all. After an error no entries are accepted until `GroupCommit.resume`, since they would
leave a gap.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidewheel.pubsub.log.errors import LogError, LogFailed
from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.storage.log_records import HEAD_BYTES, Entry

_LOG = logging.getLogger(__name__)

Done: TypeAlias = Callable[[int | LogError], None]
"""A callback, called on the committing thread or within `submit`, with the last durable tick, or the error of the
entries.

After `LogFull` the entries are not in the log, and the caller may submit them again.
"""

CAPACITY_BYTES = 16 << 20
"""The default limit of the size of waiting entries."""

_ENTRY_BYTES = HEAD_BYTES + 128
_BATCH_BYTES = 256


@dataclass(frozen=True, slots=True)
class _Batch:
    entries: Sequence[Entry]
    done: Done
    size: int
    snapshot: bytes | None


class GroupCommit:
    """The only writer of a log until `close`.

    Args:
        has_thread: whether a separate thread writes; otherwise `submit` writes.
    """

    def __init__(self, log: AnyLog, capacity_bytes: int = CAPACITY_BYTES, *, has_thread: bool = True) -> None:
        self._log = log
        self._capacity_bytes = capacity_bytes
        self._changed = threading.Condition()
        self._waiting: deque[_Batch] = deque()
        self._bytes = 0
        self._awaits_segment = False
        self._error: LogError | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None
        if has_thread:
            self._thread = threading.Thread(target=self._run, name="tidewheel-log", daemon=True)
            self._thread.start()

    def submit(self, entries: Sequence[Entry], done: Done, snapshot: Callable[[], bytes] | None = None) -> bool:
        """Submit entries, to be logged after all earlier ones; never wait.

        Args:
            entries: their ticks do not decrease.
            done: called once, in the order of submission, unless `submit` returns False or raises.
            snapshot: returns the state after these entries. It is called within `submit`, if a new segment is due.

        Returns:
            False if there is no room until ``done`` is called for earlier entries. If no entries wait, there is always
            room.

        Raises:
            LogFull: the disk was full; see `resume`.
            LogFailed: the log has failed.
            LogError: the group commit is closed.
        """
        size = _BATCH_BYTES + sum(_ENTRY_BYTES + sum(map(len, entry.parts)) for entry in entries)
        with self._changed:
            self._check_usable()
            if self._is_closed:
                raise LogError("nothing more can be logged: the log is being closed")
            if self._bytes and self._bytes + size > self._capacity_bytes:
                return False
            state = None
            if snapshot is not None and not self._awaits_segment and self._log.is_segment_due:
                state = snapshot()
                self._awaits_segment = True
            self._waiting.append(_Batch(entries, done, size, state))
            self._bytes += size
            self._changed.notify()
        if self._thread is None:
            self._run()
        return True

    def resume(self) -> None:
        """Accept entries again after `LogFull`; the caller then submits the failed entries before new ones.

        Raises:
            LogFailed: the log must be opened again.
        """
        with self._changed:
            if isinstance(self._error, LogFailed):
                self._check_usable()
            self._error = None

    def _check_usable(self) -> None:
        if self._error is not None:
            raise type(self._error)(str(self._error), path=self._error.path)

    def close(self, timeout_s: float) -> None:
        """Log all waiting entries, call their callbacks, and end the thread.

        Raises:
            LogError: logging takes longer than ``timeout_s`` seconds. The thread continues, so the log cannot be closed
                yet.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self._thread is not None and self._thread.is_alive():
            raise LogError(f"entries of the log are not durable after {timeout_s:g} s: the disk is slow, or hangs")

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._log.append([entry for batch in group for entry in batch.entries])
                outcome: int | LogError = self._log.sync()
            except LogError as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - otherwise no caller would learn of it
                outcome = LogFailed(f"the entries could not be logged: {error!r}")
            snapshot = group[-1].snapshot
            self._tell(group, outcome)
            if snapshot is not None:
                self._begin_segment(snapshot, outcome)

    def _next_group(self) -> list[_Batch]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed or self._thread is None)
            group: list[_Batch] = []
            while self._waiting and (not group or group[-1].snapshot is None):
                group.append(self._waiting.popleft())
            return group

    def _tell(self, group: list[_Batch], outcome: int | LogError) -> None:
        """Call the callbacks of a group and, after an error, also those of all later entries."""
        with self._changed:
            if isinstance(outcome, LogError):
                self._error = outcome
                group = [*group, *self._waiting]
                self._waiting.clear()
                self._awaits_segment = False  # the entries will not be logged; their callbacks run below
            self._bytes -= sum(batch.size for batch in group)
        for batch in group:
            try:
                batch.done(outcome)
            except Exception:  # noqa: BLE001 - the other callbacks must run
                _LOG.exception("a callback of the log has failed")

    def _begin_segment(self, snapshot: bytes, outcome: int | LogError) -> None:
        try:
            if not isinstance(outcome, LogError):
                self._log.begin_segment(snapshot)
        except LogError as error:  # later writes fail as well, unless only the disk is full
            _LOG.warning("another segment cannot be begun: %s", error)
        finally:
            self._awaits_segment = False
