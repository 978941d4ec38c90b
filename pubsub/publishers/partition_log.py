"""The records in the log of one partition: messages with their ticks, and the state that a restart needs."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from tidewheel.progress import ProtocolError, Time, TimeDomain
from tidewheel.pubsub.exactly_once.journal import Journal, checksum_of
from tidewheel.pubsub.exactly_once.pubend import NotReady
from tidewheel.pubsub.exactly_once.standing import Cursor, Standing
from tidewheel.pubsub.log.object_segment import ObjectSegment
from tidewheel.pubsub.log.opening import AnyLog
from tidewheel.pubsub.log.segment import Segment
from tidewheel.pubsub.messages.delivery_messages import MOST_ANSWERED
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, Place, encode, place_or_event
from tidewheel.pubsub.messages.wire import LowerFrontierUpdate, PartitionEnded, WentBack
from tidewheel.pubsub.protocol.epochs import EpochStates
from tidewheel.pubsub.publishers.log_reads import LogReads
from tidewheel.storage.log_records import Entry, Record

_MESSAGE: Final = 1
_RESERVATION: Final = 2
_CURSOR: Final = 3

_TICK = struct.Struct("<q")


class _Snapshot(msgspec.Struct, frozen=True):
    """The state before a segment."""

    reserved: int
    message_end: int
    standings: dict[str, Standing]
    journal: bytes


class Recovered(NamedTuple):
    """The state that was recovered from a log.

    Attributes:
        reserved: the end of the ticks that may have been announced as silent.
        message_end: the tick after the last message; 0 if there is none.
        lacks_end: whether the log has the last move of the frontier but, after a crash, not the end of the partition.
    """

    journal: Journal
    reserved: int
    message_end: int
    standings: dict[str, Standing]
    lacks_end: bool


def message_entry(tick: int, step: "Step") -> Entry:
    return Entry(tick, _MESSAGE, step.message.parts, step.checksum)


def reservation_entry(tick: int, reserved: int) -> Entry:
    """Return the log entry that reserves silence up to ``reserved``."""
    return Entry(tick, _RESERVATION, (_TICK.pack(reserved),))


def cursor_entry(tick: int, cursor: Cursor) -> Entry:
    """Return the log entry of a durable subscription.

    The entry is logged even on a full disk, so that messages can be forgotten.
    """
    return Entry(tick, _CURSOR, (msgspec.msgpack.encode(cursor),), is_urgent=True)


def snapshot(journal: Journal, reserved: int, message_end: int, standings: dict[str, Standing]) -> bytes:
    """Return the snapshot for the beginning of a segment, from which the state before the segment can be recovered."""
    return msgspec.msgpack.encode(_Snapshot(reserved, message_end, standings, journal.snapshot()))


def recover(log: AnyLog, domain: TimeDomain, tick: int | None = None) -> Recovered:
    """Return the state after the records up to ``tick``, by default after all records.

    Raises:
        LogError: the log begins later, or is damaged.
    """
    replay = log.snapshot_at(log.last_tick if tick is None else tick)
    before = msgspec.msgpack.decode(replay.snapshot, type=_Snapshot)
    journal, reserved, message_end = Journal.restore(domain, before.journal), before.reserved, before.message_end
    standings, lacks_end = before.standings, False
    for record in replay.records:
        if record.kind == _MESSAGE:
            message = EncodedMessage.of(record.payload)
            event = place_or_event(message)
            if isinstance(event, Place):
                journal.record(event.time, checksum_of(message.payload, is_in_memory=log.is_in_memory))
                journal.logged(event.time, record.tick)
            elif isinstance(event, LowerFrontierUpdate):
                if event.updates:
                    journal.advance(list(event.updates))
                else:
                    journal.complete()
                journal.moved(record.tick)
            elif isinstance(event, WentBack):
                journal.go_back(event)
                journal.moved(record.tick)
            lacks_end = journal.has_ended and not isinstance(event, PartitionEnded)
            message_end = record.tick + 1
        elif record.kind == _RESERVATION:
            reserved = max(reserved, _TICK.unpack(record.payload)[0])
        else:
            cursor = msgspec.msgpack.decode(record.payload, type=Cursor)
            if cursor.standing is None:
                standings.pop(cursor.name, None)
            else:
                standings[cursor.name] = cursor.standing
    return Recovered(journal, reserved, message_end, standings, lacks_end)


def removed_messages_end(log: AnyLog) -> int:
    """Return the tick after the last removed message; 0 if none was removed."""
    if not log.removed_end:
        return 0
    oldest = log.snapshot_at(log.removed_end - 1)
    return msgspec.msgpack.decode(oldest.snapshot, type=_Snapshot).message_end


class Step(NamedTuple):
    """The effect of one message on the epochs of a partition, for `EpochStates`.

    Attributes:
        time: the time of a batch; None for other messages.
        changes: the changes of the frontier, or a return; None for the end.
        checksum: the checksum of the whole payload of a batch, if known.
    """

    message: EncodedMessage
    time: Time
    changes: Sequence[tuple[Time, int]] | WentBack | None = None
    checksum: int | None = None

    def take(self, epochs: EpochStates) -> None:
        """Apply this step to the states of epochs."""
        if self.changes is None:
            epochs.observe(self.time)
        elif isinstance(self.changes, WentBack):
            epochs.go_back(self.changes)
        elif self.changes:
            epochs.advance(self.changes)
        else:
            epochs.has_all = True

    def note(self, journal: Journal, tick: int) -> None:
        """Record in a journal the tick at which the message was logged."""
        if self.changes is None:
            journal.logged(self.time, tick)
        else:
            journal.moved(tick)


END: Final = Step(encode(PartitionEnded()), None, ())
"""The end of a partition, which follows the last move of its frontier."""


def new_messages(journal: Journal, message: EncodedMessage, *, is_in_memory: bool = False) -> list[Step]:
    """Receive a message of the worker; return the messages to log, without those that are logged already.

    Raises:
        ProtocolError: the message is impossible, or differs from the logged one.
    """
    event = place_or_event(message)
    if isinstance(event, Place):
        checksum = checksum_of(message.payload, is_in_memory=is_in_memory)
        is_new = journal.data(event.time, event.number, checksum)
        is_known = not is_in_memory and len(message.payload) > 0
        return [Step(message, event.time, None, checksum if is_known else None)] if is_new else []
    if not isinstance(event, LowerFrontierUpdate):
        raise ProtocolError(f"a worker does not send {event!r}")
    changes = journal.frontier(event.updates)
    if not (changes or journal.is_completed):
        return []
    if not changes:
        journal.complete()
    moved = message if changes == event.updates else encode(LowerFrontierUpdate(changes))
    return [Step(moved, None, changes)]


def last_messages(journal: Journal) -> list[Step]:
    """Return the messages to log when all partitions have received everything; none if the partition has ended."""
    changes = journal.conclude()
    moved = Step(encode(LowerFrontierUpdate(changes)), None, changes)
    return [moved, END] if changes else []


class PartitionLog:
    """Reads messages from a log, for a `Pubend`.

    Args:
        reads: the reads of a log that other threads write, or, on a thread that may wait, the log itself.
    """

    def __init__(self, reads: LogReads | AnyLog) -> None:
        self._reads = reads

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, EncodedMessage]], int]:
        """Return the durable messages from ``first`` up to ``end``, in order, and the end of the range read.

        This reads at most about `MOST_ANSWERED` records.

        Raises:
            LogCorrupted: the first message is damaged.
            NotReady: the records must be fetched first.
        """
        found: list[tuple[int, EncodedMessage]] = []
        position, most = first, MOST_ANSWERED
        while position < end and max_bytes > 0 and most > 0:
            try:
                records = self._reads.read(position, max_bytes, most)
            except NotReady:
                if position == first:
                    raise
                break
            if not records or records[0].tick >= end:
                return found, end
            within = [record for record in records if record.tick < end]
            found += [_message(record) for record in within if record.kind == _MESSAGE]
            max_bytes -= sum(len(record.payload) for record in within)
            most -= len(within)
            position = end if len(within) < len(records) else within[-1].tick + 1
        return found, min(position, end)


class ReplayedLog(PartitionLog):
    """Reads messages and the states of epochs from a log that other threads write; use it on a thread that may wait."""

    def __init__(self, log: AnyLog) -> None:
        super().__init__(log)
        self._log = log

    def beginnings(self, domain: TimeDomain) -> Iterator[tuple[int, EpochStates]]:
        """Yield the first tick of each segment, newest first, with the states of epochs before it.

        Raises:
            LogError: the log is damaged, or was removed meanwhile.
        """
        segments: Sequence[Segment | ObjectSegment] = self._log.segments()
        for segment in reversed(segments):
            content = msgspec.msgpack.decode(self._log.snapshot_at(segment.tick_before).snapshot, type=_Snapshot)
            yield segment.tick_before + 1, Journal.restore(domain, content.journal).epochs()


def _message(record: Record) -> tuple[int, EncodedMessage]:
    return record.tick, EncodedMessage.of(record.payload)
