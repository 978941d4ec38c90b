"""The writer of one partition's log, which keeps the order of entries even if memory or disk are full.

A log in memory needs no thread: entries are durable when `PartitionWriter.write` returns. If the disk has no room for
entries, they wait here, before later entries, until `PartitionWriter.resume` finds room. So nothing is lost, and no
message overtakes another.

Notes, which are entries without messages, may become durable before earlier messages. So even with a full disk the log
can record which files are not needed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from tidewheel.pubsub.log.errors import LogError, LogFull
from tidewheel.pubsub.log.group_commit import GroupCommit
from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.storage.log_records import Entry


class _Write(NamedTuple):
    """The entries of one call, and the callback for when they are durable."""

    entries: list[Entry]
    durable: Callable[[], None] | None
    is_note: bool


@dataclass(eq=False)
class PartitionWriter:
    """The only writer of a log, on one thread.

    Args:
        snapshot: returns the state after all entries written so far, for a new segment.
        durable: called with the tick up to which everything is durable, after the callbacks of `write`.

    Attributes:
        durable_tick: everything up to this tick is durable.
        full: the error of a full disk, while entries wait for room; otherwise None.
    """

    log: AnyLog
    snapshot: Callable[[], bytes]
    durable: Callable[[int], None]
    later: Callable[[Callable[[], None]], None]
    full: LogFull | None = None
    error: LogError | None = None
    _waiting: list[_Write] = field(default_factory=list)
    _returned: list[_Write] = field(default_factory=list)
    _handed: deque[list[_Write]] = field(default_factory=deque)
    _outcomes: deque[int | LogError] = field(default_factory=deque)
    _tried_notes: bool = False

    def __post_init__(self) -> None:
        self.last_tick = self.durable_tick = self.log.last_tick
        self._commit = GroupCommit(self.log, has_thread=not self.log.is_in_memory)

    @property
    def has_room(self) -> bool:
        return not self._waiting and self.full is None

    @property
    def is_durable(self) -> bool:
        return not (self._waiting or self._handed or self._returned)

    @property
    def is_stuck(self) -> bool:
        """True if all refused entries have come back, so that `resume` may try again."""
        return self.full is not None and not self._handed

    @property
    def has_notes(self) -> bool:
        return any(write.is_note for write in self._waiting)

    # ------------------------------------------------------------------ writing

    def write(
        self, entries: Iterable[Entry], durable: Callable[[], None] | None = None, *, is_note: bool = False
    ) -> None:
        """Log entries, after all others.

        Args:
            entries: their ticks do not decrease; no note has the tick of a later message.
            durable: called once they are durable.
            is_note: whether they may become durable before earlier messages.
        """
        write = _Write(list(entries), durable, is_note)
        if write.entries:
            self.last_tick = write.entries[-1].tick
            self._waiting.append(write)
        if self.full is None:
            self._hand_in()

    def _hand_in(self) -> None:
        writes, self._waiting = self._waiting, []
        if writes and not self._submit(writes, self.snapshot):
            self._waiting = writes
        elif self._outcomes and self._is_at_once(self._outcomes[0]):
            self._take_outcome()

    def _submit(self, writes: list[_Write], snapshot: Callable[[], bytes] | None) -> bool:
        entries = [entry for write in writes for entry in write.entries]
        with suppress(LogError):  # the outcome of an earlier write will tell why, and is on its way back
            if self._commit.submit(entries, self._bring_back, snapshot):
                self._handed.append(writes)
                return True
        return False

    def _bring_back(self, outcome: int | LogError) -> None:
        self._outcomes.append(outcome)
        if not self._is_at_once(outcome):
            self.later(self._take_outcome)

    def _is_at_once(self, outcome: int | LogError) -> bool:
        return self.log.is_in_memory and self.full is None and isinstance(outcome, int)

    def _take_outcome(self) -> None:
        if not self._outcomes:
            return  # it was closed since
        outcome, writes = self._outcomes.popleft(), self._handed.popleft()
        if isinstance(outcome, LogFull):
            self.full = outcome
            self._returned += writes
            if not self._handed:  # all entries behind those that found no room have come back, too
                self._waiting[:0], self._returned = self._returned, []
        elif isinstance(outcome, LogError):
            self.error = self.error or outcome
        else:
            self._go_on(writes)

    def _go_on(self, writes: list[_Write]) -> None:
        self.durable_tick = max(self.durable_tick, writes[-1].entries[-1].tick)
        if not self._waiting:
            self.full = None
        for write in writes:
            if write.durable is not None:
                write.durable()
        self.durable(self.durable_tick)
        if self.full is None:
            self._hand_in()

    # ------------------------------------------------------------------ a disk that is full

    def resume(self) -> None:
        """If `is_stuck`, try again: first with notes alone, the next time with all entries."""
        if self.error is not None or not (self.is_stuck and self._waiting):
            return
        self._commit.resume()
        notes = [write for write in self._waiting if write.is_note and self.durable_tick >= 0]
        self._tried_notes = bool(notes) and not self._tried_notes
        if not self._tried_notes:
            self._hand_in()
            return
        # Notes are written before the waiting messages, so they get the durable tick in place of their own. The
        # snapshot has the waiting messages, so it is not given.
        tick = self.durable_tick
        early = [write._replace(entries=[replace(entry, tick=tick) for entry in write.entries]) for write in notes]
        if self._submit(early, None):
            self._waiting = [write for write in self._waiting if write not in notes]

    # ------------------------------------------------------------------ the end

    def close(self, timeout_s: float) -> None:
        """Make entries durable if the disk has room, and release the log, without callbacks.

        Raises:
            LogError: the log has failed.
        """
        try:
            self._commit.close(timeout_s)
            returned = self._returned
            while self._outcomes:
                outcome, writes = self._outcomes.popleft(), self._handed.popleft()
                if isinstance(outcome, LogFull):
                    returned += writes
                elif isinstance(outcome, LogError):
                    self.error = self.error or outcome
            if self.error is None:
                self.log.append(chain.from_iterable(write.entries for write in [*returned, *self._waiting]))
        finally:
            self.log.close()
