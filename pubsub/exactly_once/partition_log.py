"""What the log of one partition holds: messages with their ticks, and what else has to be known after a restart."""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.exactly_once.encoded_message import EncodedMessage, decode, place_of
from tidewheel.pubsub.exactly_once.journal import Journal, checksum_of
from tidewheel.pubsub.exactly_once.messages import Ranges
from tidewheel.pubsub.log.record_format import Entry, Record
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.pubsub.wire import LowerFrontierUpdate, PartitionEnded

_MESSAGE: Final = 1
_RESERVATION: Final = 2
_CURSOR: Final = 3

_TICK = struct.Struct("<q")


class Cursor(msgspec.Struct, frozen=True):
    """Where a durable subscription is.

    Attributes:
        name: of the subscription; None for the ranges of one that has ended.
        ranges: the ticks that it has acknowledged; None once it has ended.
    """

    name: str
    ranges: Ranges | None


class _Snapshot(msgspec.Struct, frozen=True):
    """What a segment says of all before it."""

    reserved: int
    cursors: dict[str, Ranges]
    journal: bytes


class Recovered(NamedTuple):
    """What was in a log.

    Attributes:
        journal: the epochs.
        reserved: up to which tick silence may have been told.
        cursors: the ticks that each durable subscription has acknowledged, by name.
    """

    journal: Journal
    reserved: int
    cursors: dict[str, Ranges]


def message_entry(tick: int, message: EncodedMessage) -> Entry:
    """Return what is logged of a message."""
    return Entry(tick, _MESSAGE, message.parts)


def reservation_entry(tick: int, reserved: int) -> Entry:
    """Return what is logged so that silence may be told up to ``reserved``."""
    return Entry(tick, _RESERVATION, (_TICK.pack(reserved),))


def cursor_entry(tick: int, cursor: Cursor) -> Entry:
    """Return what is logged of a durable subscription."""
    return Entry(tick, _CURSOR, (msgspec.msgpack.encode(cursor),))


def snapshot(journal: Journal, reserved: int, cursors: Mapping[str, Ranges]) -> bytes:
    """Return what a segment has to begin with."""
    return msgspec.msgpack.encode(_Snapshot(reserved, dict(cursors), journal.snapshot()))


def recover(log: Log, domain: TimeDomain, tick: int | None = None) -> Recovered:
    """Return what was so after the records up to ``tick``, by default after all.

    Raises:
        LogError: the log begins later, or is damaged.
    """
    replay = log.snapshot_at(log.last_tick if tick is None else tick)
    before = msgspec.msgpack.decode(replay.snapshot, type=_Snapshot)
    journal, reserved, cursors = Journal.restore(domain, before.journal), before.reserved, before.cursors
    for record in replay.records:
        if record.kind == _MESSAGE:
            replay_message(journal, EncodedMessage.of(record.payload))
        elif record.kind == _RESERVATION:
            reserved = max(reserved, _TICK.unpack(record.payload)[0])
        else:
            cursor = msgspec.msgpack.decode(record.payload, type=Cursor)
            if cursor.ranges is None:
                cursors.pop(cursor.name, None)
            else:
                cursors[cursor.name] = cursor.ranges
    return Recovered(journal, reserved, cursors)


def replay_message(journal: Journal, message: EncodedMessage) -> None:
    """Take note in a journal of a message that is in the log."""
    place = place_of(message)
    if place is not None:
        journal.record(place.time, checksum_of(message.payload))
        return
    event = decode(message)
    if isinstance(event, LowerFrontierUpdate):
        journal.advance(list(event.updates))
    else:
        assert isinstance(event, PartitionEnded)


class PartitionLog:
    """Reads messages from a log, as a `Pubend` wants them.

    Args:
        log: where they are; others write it.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, EncodedMessage]], int]:
        """Return the durable messages from ``first`` up to ``end``, in order, and how far that is all.

        Raises:
            LogCorrupted: the first of them is damaged.
        """
        found: list[tuple[int, EncodedMessage]] = []
        position = first
        while position < end and max_bytes > 0:
            records = self._log.read(position, max_bytes)
            if not records or records[0].tick >= end:
                return found, end
            within = [record for record in records if record.tick < end]
            found += [_message(record) for record in within if record.kind == _MESSAGE]
            max_bytes -= sum(len(record.payload) for record in within)
            position = end if len(within) < len(records) else within[-1].tick + 1
        return found, min(position, end)


def _message(record: Record) -> tuple[int, EncodedMessage]:
    return record.tick, EncodedMessage.of(record.payload)
