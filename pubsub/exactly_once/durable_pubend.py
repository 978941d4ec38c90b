"""A pubend with its log: what a worker sends goes in, and is told once it is durable.

All of it is called on one thread. The log is written by a thread of its own, of which ``later`` brings back what it has
to say. Whatever has to be known after a restart is in that log: messages, reservations of silence, and how far each
durable subscription is. So one fdatasync is for everything that has come together.

Source: seed "Gryphon exactly-once", section 2.2.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tidewheel.progress import ProtocolError, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.encoded_message import EncodedMessage, decode, encode, place_of
from tidewheel.pubsub.exactly_once.fanout import Filter, Outgoing
from tidewheel.pubsub.exactly_once.journal import Journal, WorkerPosition, checksum_of
from tidewheel.pubsub.exactly_once.messages import Ack, Nack, Ranges, Rejected
from tidewheel.pubsub.exactly_once.partition_log import (
    Cursor,
    PartitionLog,
    cursor_entry,
    message_entry,
    recover,
    replay_message,
    reservation_entry,
    snapshot,
)
from tidewheel.pubsub.exactly_once.pubend import CACHE_BYTES, Pubend, Start
from tidewheel.pubsub.exactly_once.tick_set import FOREVER
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.log.files import FILES, Files
from tidewheel.pubsub.log.group_commit import GroupCommit
from tidewheel.pubsub.log.record_format import Entry, LogIdentity
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES, Log
from tidewheel.pubsub.wire import InitialFrontierSnapshot, LowerFrontierUpdate, PartitionEnded

TICKS_A_SECOND = 1_000_000
_RESERVED_AHEAD = 10 * TICKS_A_SECOND
_CLOSE_WITHIN_S = 10.0


class DurablePubend:
    """One partition of a topic.

    Args:
        directory: of its log alone; made, if there is none.
        identity: whose log it is.
        domain: the times of the topic.
        tell: sends messages to children.
        later: has something called soon on the thread of all calls; may be called by any thread.
        clock: seconds since 1970; it may go back.
        wait_s: for how long another may still have the log open, in seconds.
        cache_bytes: how much of what was published last is kept in memory.
        segment_bytes: how long the files of the log become.
        files: what changes files.

    Raises:
        LogError: the log cannot be opened.
    """

    def __init__(  # noqa: PLR0913 - what a shell decides, one by one
        self,
        directory: Path,
        identity: LogIdentity,
        domain: TimeDomain,
        *,
        tell: Callable[[list[Outgoing]], None],
        later: Callable[[Callable[[], None]], None],
        clock: Callable[[], float] = time.time,
        wait_s: float = 0.0,
        cache_bytes: int = CACHE_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        files: Files = FILES,
    ) -> None:
        self._domain = domain
        self._tell = tell
        self._later = later
        self._clock = clock
        self._waiting: list[Entry] = []
        self._on_their_way = 0
        self._error: LogError | None = None
        first = snapshot(Journal(domain), 0, {})
        with ExitStack() as opened:
            self._log = Log.open(
                directory, identity, snapshot=first, segment_bytes=segment_bytes, wait_s=wait_s, files=files
            )
            opened.callback(self._log.close)
            recovered = recover(self._log, domain)
            self._journal = recovered.journal
            self._told = Journal.restore(domain, self._journal.snapshot())
            self._written_tick = self._log_tick = self._durable_tick = self._log.last_tick
            self._reserved = max(recovered.reserved, self._log.last_tick + 1)
            self._pubend = Pubend(
                identity.partition,
                identity.partitions,
                PartitionLog(self._log),
                size_of,
                cache_bytes=cache_bytes,
                next_tick=self._reserved,
                first_tick=self._log.first_tick,
            )
            self._cursors = recovered.cursors
            self._moved: set[str] = set()
            self._trim_to = 0
            self._trim_later: tuple[int, int] | None = None
            for name, ranges in self._cursors.items():
                self._pubend.subscriptions.restore(name, ranges)
            self._commit = GroupCommit(self._log)
            opened.pop_all()

    # ------------------------------------------------------------------ what is published

    def begin(self, position: WorkerPosition | None = None) -> None:
        """Take note that a worker begins to send: from its start on, or from where it has to send again.

        Raises:
            ProtocolError: the log does not have all that came before that.
        """
        self._journal.begin(position)

    def feed(self, sent: Iterable[EncodedMessage]) -> None:
        """Take what the worker sends, in order; what is logged already is left out.

        Raises:
            ProtocolError: it makes no sense, or is not what was sent before; nothing of it is taken after that.
            LogError: the log takes nothing more.
        """
        self._check()
        messages: list[EncodedMessage] = []
        try:
            for message in sent:
                messages += self._new(message)
        finally:
            assigned = self._pubend.assign(messages, self._now())
            if assigned:
                self._written_tick = assigned[-1][0]
            self._write(message_entry(tick, message) for tick, message in assigned)

    def _new(self, message: EncodedMessage) -> list[EncodedMessage]:
        """Return what is to be logged of a message."""
        place = place_of(message)
        if place is not None:
            is_new = self._journal.data(place.time, place.number, checksum_of(message.payload))
            return [message] if is_new else []
        event = decode(message)
        if not isinstance(event, LowerFrontierUpdate):
            raise ProtocolError(f"a worker does not send {event!r}")
        changes = self._journal.frontier(event.updates)
        if not changes:
            return []
        moved = message if changes == event.updates else encode(LowerFrontierUpdate(changes))
        return [moved] if self._journal.lower else [moved, encode(PartitionEnded())]

    @property
    def has_room(self) -> bool:
        """Whether what was fed is on its way to the disk; if not, nothing more should be."""
        return not self._waiting

    @property
    def is_durable(self) -> bool:
        """Whether all that was fed is durable."""
        return not self._waiting and not self._on_their_way

    @property
    def written_tick(self) -> int:
        """The tick of the last message that was taken; all that was fed is durable once `durable_tick` is as late."""
        return self._written_tick

    @property
    def log_tick(self) -> int:
        """The tick of the last thing that went to the log, message or not."""
        return self._log_tick

    @property
    def durable_tick(self) -> int:
        """The tick of the last thing in the log that is durable."""
        return self._durable_tick

    @property
    def has_ended(self) -> bool:
        """Whether the last message is durable, and will be told to everybody who asks."""
        return not self._told.lower

    @property
    def error(self) -> LogError | None:
        """Why nothing more is published, if that is so: what was not durable then may be lost."""
        return self._error

    def look(self) -> None:
        """Do what is due: tell silence, and note how far subscriptions are. To be called again and again.

        Raises:
            LogError: the log takes nothing more.
        """
        self._check()
        now = self._now()
        until = self._pubend.reserve(now, _RESERVED_AHEAD)
        if until is not None:
            self._reserved = until
            self._write([reservation_entry(self._pubend.pass_over(now), until)])
        moved = [name for name in self._moved if self._has_moved(name)]
        self._moved.clear()
        for name in moved:
            self._cursors[name] = self._pubend.subscriptions.acknowledged(name)
        tick = self._pubend.pass_over(now)
        self._write(cursor_entry(tick, Cursor(name, self._cursors[name])) for name in moved)
        self._tell(self._pubend.be_silent(now))
        self._pubend.forget()
        if self._trim_later is None:
            noted = (_prefix_end(ranges) for ranges in self._cursors.values())
            self._trim_later = (self._log_tick, min(self._pubend.first_tick, *noted, FOREVER))
        self._settle_trim()

    def _settle_trim(self) -> None:
        """Let go of what nobody needs once that is durable: after a restart cursors say what is needed."""
        if self._trim_later is not None and self._trim_later[0] <= self._durable_tick:
            self._trim_to, self._trim_later = self._trim_later[1], None

    def _has_moved(self, name: str) -> bool:
        """Tell whether a subscription may have acknowledged more messages than was noted: silence alone is not."""
        return name in self._cursors and _prefix_end(self._cursors[name]) <= self._written_tick

    def trim(self) -> int:
        """Remove files that nobody needs; returns how many bytes they had. It waits for the disk; any thread may."""
        return self._log.trim(self._trim_to)

    # ------------------------------------------------------------------ the log

    def _write(self, entries: Iterable[Entry]) -> None:
        self._waiting += entries
        if self._waiting:
            self._log_tick = self._waiting[-1].tick
        self._hand_in()

    def _hand_in(self) -> None:
        """Give the log what waits, if it has room."""
        if not self._waiting:
            return
        done = partial(self._bring_back, len(self._waiting), self._waiting[-1].tick, self._reserved)
        if self._commit.submit(self._waiting, done, self._snapshot):
            self._on_their_way += len(self._waiting)
            self._waiting = []

    def _snapshot(self) -> bytes:
        return snapshot(self._journal, self._reserved, self._cursors)

    def _bring_back(self, entries: int, tick: int, reserved: int, outcome: int | LogError) -> None:
        """Have `_done` called on the right thread; on that of the log."""
        self._later(partial(self._done, entries, tick, reserved, outcome))

    def _done(self, entries: int, tick: int, reserved: int, outcome: int | LogError) -> None:
        self._on_their_way -= entries
        if isinstance(outcome, LogError):
            self._error = self._error or outcome
            return
        self._durable_tick = max(self._durable_tick, tick)
        self._settle_trim()
        self._pubend.reserved(reserved)
        for message in self._pubend.pending_up_to(tick):
            replay_message(self._told, message)
        self._tell(self._pubend.logged(tick))
        self._hand_in()

    def _now(self) -> int:
        return max(0, int(self._clock() * TICKS_A_SECOND))

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    # ------------------------------------------------------------------ who is downstream

    def join(self, child: str, where: Filter | None = None) -> None:
        """Take on a subend or relay; what is told from now on is told to it."""
        self._pubend.join(child, where)

    def leave(self, child: str) -> None:
        """Forget a child; does nothing if it is none."""
        self._pubend.leave(child)

    def nack(self, child: str, nack: Nack) -> None:
        """Answer a child that is curious, as far as its room goes; if what it asks for is damaged, with that."""
        try:
            self._tell(self._pubend.nack(child, nack))
        except DeliveryError as error:
            self._pubend.leave(child)
            self._tell([Outgoing(child, Rejected(nack.pubend, str(error)))])

    def subscribe(self, name: str, start: int | None = None, *, durable: bool) -> tuple[Start, InitialFrontierSnapshot]:
        """Take on a subscription, or go on with the one of that name.

        Args:
            name: of the subscription.
            start: the first tick that a new one wants; by default what is told next.
            durable: whether it is remembered over restarts: once `durable_tick` has come to `log_tick`.

        Returns:
            Where it begins, and both frontiers there.

        Raises:
            LogError: what was before ``start`` is not in the log.
        """
        begun = self._pubend.subscribe(name, start)
        if durable and name not in self._cursors:
            self._cursors[name] = begun.acknowledged
            self._write([cursor_entry(self._pubend.pass_over(self._now()), Cursor(name, begun.acknowledged))])
        return begun, self._frontiers_at(_prefix_end(begun.acknowledged))

    def _frontiers_at(self, tick: int) -> InitialFrontierSnapshot:
        """Return both frontiers as they were before what is at ``tick``."""
        journal = self._told
        if tick < self._pubend.told_end:
            journal = recover(self._log, self._domain, tick - 1).journal
        return InitialFrontierSnapshot(journal.lower, journal.upper)

    def unsubscribe(self, name: str) -> None:
        """Forget a subscription, durable or not."""
        self._pubend.subscriptions.end(name)
        self._moved.discard(name)
        if self._cursors.pop(name, None) is not None:
            self._write([cursor_entry(self._pubend.pass_over(self._now()), Cursor(name, None))])

    def ack(self, ack: Ack) -> None:
        """Take acknowledgements of subscriptions."""
        moved = self._pubend.ack(ack)
        self._moved.update(name for name in moved if name in self._cursors)

    def cursors(self) -> dict[str, Ranges]:
        """Return what each durable subscription has acknowledged, as far as it was noted."""
        return dict(self._cursors)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Make durable what was fed, as far as the disk takes it, and let go of the log.

        Raises:
            LogError: that did not work.
        """
        try:
            self._commit.close(_CLOSE_WITHIN_S)
        finally:
            self._log.close()


def size_of(message: EncodedMessage) -> int:
    """Return how many bytes a message has."""
    return message.size_bytes


def _prefix_end(ranges: Ranges) -> int:
    return ranges[0][1] if ranges and ranges[0][0] == 0 else 0
