"""A message of a topic as bytes: on its way from a worker, in the log, and on its way to subscribers.

A message is a head, which says what it is, and a payload. Pubends, relays and the log pass both on as they are. Only
workers, filters, subscribers, and publishers without a log look inside.

========  ==================================================================  =======
the rest  as many as that says                                                4 bytes
payload   the head, pickled: of a batch its time, encoding, records and       length
          number, of a frontier its updates, of the end nothing, of a notice  of the
          the notice itself                                                   head
========  ==================================================================  =======

The payload comes first, so that its checksum is a part of the one of the whole.

Source: seed "Gryphon exactly-once", section 2.2, whose pubends log messages and serve them from there.
"""

import struct
from typing import Any, Final, NamedTuple, get_args

import msgspec

from tidewheel.progress import ProtocolError, Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.wire import DataMessage, Encoding, LowerFrontierUpdate, Message, Notice, PartitionEnded
from tidewheel.transport.pickling import dumps
from tidewheel.transport.socket_frames import LARGE, Payload, unpickled

MOST_HEAD_BYTES: Final = 16 * 1024 * 1024
MOST_BYTES: Final = (1 << 32) - 1
"""So many bytes a message may have, as a record of the log has to have a length of 4 bytes."""

_LENGTH = struct.Struct("<I")
_COMPARED_BYTES = 1024 * 1024
_ENCODINGS = get_args(Encoding)


class Place(NamedTuple):
    """Which batch it is: a worker that starts again sends the same at the same place.

    Attributes:
        time: of the batch.
        number: how many batches of that time come before it.
    """

    time: Time
    number: int


class EncodedMessage(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One message, encoded. Two are equal if they have the same bytes, wherever these lie.

    Attributes:
        head: what it is; only `decode` and `place_of` look into it.
        payload: the batch, encoded; empty for what is none.
    """

    head: bytes
    payload: Payload

    @classmethod
    def of(cls, content: Payload) -> "EncodedMessage":
        """Return the message of which ``content`` is all parts; a large payload is a slice of it, and keeps it alive.

        Raises:
            ProtocolError: it is not long enough.
        """
        size, least = len(content), _LENGTH.size
        if size >= least:
            least += _LENGTH.unpack_from(content, size - _LENGTH.size)[0]
        if size < least:
            raise ProtocolError(f"{size} bytes are no message: it would have {least} or more")
        end = size - least
        return cls(bytes(content[end : size - _LENGTH.size]), slice_of(content, 0, end))

    @property
    def parts(self) -> tuple[Payload, ...]:
        """The bytes of the message: what it is when one comes behind the other. Nothing large is copied."""
        end = self.head + _LENGTH.pack(len(self.head))
        return (self.payload, end) if len(self.payload) else (end,)

    @property
    def size_bytes(self) -> int:
        """How many bytes the parts have together."""
        return _LENGTH.size + len(self.head) + len(self.payload)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, EncodedMessage):
            return NotImplemented
        return (
            len(self.payload) == len(other.payload)
            and self.head == other.head
            and _has_same_bytes(self.payload, other.payload)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other  # what the base class has would compare identities

    def __hash__(self) -> int:
        return hash((self.head, len(self.payload)))

    def __repr__(self) -> str:
        return f"EncodedMessage({len(self.head)} bytes of head, {len(self.payload)} bytes of payload)"

    def __reduce__(self) -> tuple[Any, ...]:
        payload = bytes(self.payload) if isinstance(self.payload, memoryview) else self.payload
        return type(self), (self.head, payload)


def size_of(message: EncodedMessage) -> int:
    """Return how many bytes a message has."""
    return message.size_bytes


def encode(message: Message, number: int = 0) -> EncodedMessage:
    """Return a message as bytes.

    Args:
        message: what a worker publishes, or a publisher tells a subscriber.
        number: for a batch, how many of its time come before it.

    >>> message = encode(DataMessage((3, 1), b"batch", "pickle", 7), number=2)
    >>> place_of(message), decode(EncodedMessage.of(b"".join(message.parts)))
    (Place(time=(3, 1), number=2), DataMessage(time=(3, 1), payload=b'batch', encoding='pickle', records=7))
    """
    if isinstance(message, DataMessage):
        return EncodedMessage(dumps((message.time, message.encoding, message.records, number)), message.payload)
    fields: tuple[Any, ...] = ()
    if isinstance(message, LowerFrontierUpdate):
        fields = (message.updates,)
    elif not isinstance(message, PartitionEnded):
        fields = (message,)
    return EncodedMessage(dumps(fields), b"")


def check_size(message: EncodedMessage) -> None:
    """Raise DeliveryError if a message is larger than a log takes."""
    if len(message.head) > MOST_HEAD_BYTES or message.size_bytes > MOST_BYTES:
        raise DeliveryError(
            f"a message with {len(message.head)} bytes of times and {len(message.payload)} bytes of records is too "
            f"large for exactly-once delivery. The limits are {MOST_HEAD_BYTES} bytes of times, and {MOST_BYTES} bytes "
            "together: publish smaller batches, and smaller times"
        )


def decode(message: EncodedMessage) -> Message:
    """Return the message that was encoded; the payload of a batch stays as it is.

    Raises:
        ProtocolError: the head cannot be unpickled here, or is none.
    """
    fields = unpickled(message.head)
    if type(fields) is tuple:  # a match statement takes three times as long
        count = len(fields)
        if count == 4 and fields[1] in _ENCODINGS and isinstance(fields[2], int) and isinstance(fields[3], int):
            return DataMessage(fields[0], message.payload, fields[1], fields[2])
        if count == 1 and isinstance(fields[0], Notice):
            return fields[0]
    return _event(fields)


def place_of(message: EncodedMessage) -> Place | None:
    """Return which batch a message is; None if it is none.

    Raises:
        ProtocolError: as `decode` does.
    """
    found = place_or_event(message)
    return found if isinstance(found, Place) else None


def place_or_event(message: EncodedMessage) -> Place | LowerFrontierUpdate | PartitionEnded:
    """Return which batch a message is, or the event that it is, if it is no batch.

    Raises:
        ProtocolError: as `decode` does.
    """
    fields = unpickled(message.head)
    # A match statement takes three times as long.
    if type(fields) is tuple and len(fields) == 4 and isinstance(fields[2], int) and isinstance(fields[3], int):
        return Place(fields[0], fields[3])
    return _event(fields)


def _event(fields: object) -> LowerFrontierUpdate | PartitionEnded:
    """Return what the head of a message without a batch says."""
    if type(fields) is tuple:
        if not fields:
            return PartitionEnded()
        if len(fields) == 1 and isinstance(fields[0], list):
            return LowerFrontierUpdate(fields[0])
    raise ProtocolError(f"what came is the head of no message but {fields!r:.100}")


def slice_of(content: Payload, begin: int, end: int) -> Payload:
    """Return some bytes of others: a copy where they are few, which keeps nothing else alive, and a slice otherwise."""
    if end - begin < LARGE:
        return bytes(content[begin:end])
    return memoryview(content)[begin:end]


def _has_same_bytes(one: Payload, other: Payload) -> bool:
    """Compare as many bytes of each. A ``memoryview`` would compare byte by byte, at 50 times the cost."""
    if one is other:
        return True
    first, second = memoryview(one), memoryview(other)
    return all(
        bytes(first[begin : begin + _COMPARED_BYTES]) == bytes(second[begin : begin + _COMPARED_BYTES])
        for begin in range(0, len(first), _COMPARED_BYTES)
    )
