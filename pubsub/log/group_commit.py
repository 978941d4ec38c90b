"""One thread that makes durable what many others hand in, as much at a time as has come together.

While one fdatasync runs, the next group collects; so a disk that takes a hundred syncs a second takes any number of
entries. What is handed in is logged in that order, a group as a whole or not at all.

After an error nothing more is taken until `GroupCommit.resume`: what came behind what failed would leave a gap.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidewheel.pubsub.log.errors import LogError, LogFailed
from tidewheel.pubsub.log.record_format import HEAD_BYTES, Entry
from tidewheel.pubsub.log.segmented_log import Log

_LOG = logging.getLogger(__name__)

Done: TypeAlias = Callable[[int | LogError], None]
"""Told, on the committing thread, the last tick that is durable, or why these entries are not known to be.

Where that is `LogFull` they are not in the log, and may be handed in again.
"""

CAPACITY_BYTES = 16 << 20
"""How much may wait unless a `GroupCommit` is told otherwise."""

_ENTRY_BYTES = HEAD_BYTES + 128
_BATCH_BYTES = 256


@dataclass(frozen=True, slots=True)
class _Batch:
    entries: Sequence[Entry]
    done: Done
    size: int
    snapshot: bytes | None


class GroupCommit:
    """Writes a log from a thread of its own, from the start until `close`. Nobody else may write that log meanwhile.

    Args:
        log: what to write; it is not closed.
        capacity_bytes: how much may wait, with what is just being written.
    """

    def __init__(self, log: Log, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._log = log
        self._capacity_bytes = capacity_bytes
        self._changed = threading.Condition()
        self._waiting: deque[_Batch] = deque()
        self._bytes = 0
        self._awaits_segment = False
        self._error: LogError | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="tidewheel-log", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Entry], done: Done, snapshot: Callable[[], bytes] | None = None) -> bool:
        """Hand in entries, to be logged behind all that were handed in before; waits for nothing.

        Args:
            entries: with ticks that do not go back.
            done: called once, in the order of calls of this, unless this returns False or raises.
            snapshot: called at once, and only if another segment is due, which begins behind these entries: returns
                the state after them.

        Returns:
            False if there is no room; there is once ``done`` has been called for what was handed in before. Entries of
            any size find room where nothing waits.

        Raises:
            LogFull: there was no room on the disk; see `resume`.
            LogFailed: the log has failed.
            LogError: this was closed.
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
            return True

    def resume(self) -> None:
        """Take entries again after `LogFull`; those that failed are to be handed in again first.

        Raises:
            LogFailed: only opening the log anew helps.
        """
        with self._changed:
            if isinstance(self._error, LogFailed):
                self._check_usable()
            self._error = None

    def _check_usable(self) -> None:
        if self._error is not None:
            raise type(self._error)(str(self._error), path=self._error.path)

    def close(self, timeout_s: float) -> None:
        """Log what waits, tell those who wait for it, and end the thread.

        Raises:
            LogError: that took longer than ``timeout_s`` seconds; the thread goes on, and the log cannot be closed.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise LogError(
                f"what was handed in to be logged is not durable after {timeout_s:g} s: the disk is slow, or hangs"
            )

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._log.append([entry for batch in group for entry in batch.entries])
                outcome: int | LogError = self._log.sync()
            except LogError as error:
                outcome = error
            except Exception as error:  # noqa: BLE001 - nobody would be told otherwise
                outcome = LogFailed(f"what was handed in could not be logged: {error!r}")
            snapshot = group[-1].snapshot
            self._tell(group, outcome)
            if snapshot is not None:
                self._begin_segment(snapshot, outcome)

    def _next_group(self) -> list[_Batch]:
        """Wait for what is handed in, and return it as far as it goes to one segment; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            group: list[_Batch] = []
            while self._waiting and (not group or group[-1].snapshot is None):
                group.append(self._waiting.popleft())
            return group

    def _tell(self, group: list[_Batch], outcome: int | LogError) -> None:
        """Tell those who have handed in a group what became of it, and after an error those behind them, too."""
        with self._changed:
            if isinstance(outcome, LogError):
                self._error = outcome
                group = [*group, *self._waiting]
                self._waiting.clear()
                self._awaits_segment = False  # of what will not be logged
            self._bytes -= sum(batch.size for batch in group)
        for batch in group:
            try:
                batch.done(outcome)
            except Exception:  # noqa: BLE001 - the others are told
                _LOG.exception("who is told of the log has failed")

    def _begin_segment(self, snapshot: bytes, outcome: int | LogError) -> None:
        try:
            if not isinstance(outcome, LogError):
                self._log.begin_segment(snapshot)
        except LogError as error:  # what comes next fails as well, or there is merely no room
            _LOG.warning("another segment cannot be begun: %s", error)
        finally:
            self._awaits_segment = False
