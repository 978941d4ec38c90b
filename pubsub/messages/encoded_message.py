"""The encoding of batches and messages as bytes, from a worker to its publisher, the log and subscribers.

A message has a head, which describes it, and a payload, the encoded batch: an Arrow IPC stream, or a pickle. The worker
writes the head once. Publishers, relays and the log pass on head and payload. Publishers read heads; only filters and
subscribers read payloads.

========  ==================================================================  =======
the rest  as many as that says                                                4 bytes
payload   the head, as msgpack: of a batch an array of its time, encoding,    length
          records and number; of a frontier one of its updates; of the end    of the
          an empty one; of a notice one of the notice, or of nil              head
========  ==================================================================  =======

A time is an integer or, for a tuple, an array of times. Any other time, and each notice, is pickled as an extension of
type 1. An `InitialFrontierSnapshot` may have a long history, so it is pickled as the payload, and its head is nil.

Source: seed "Gryphon exactly-once", section 2.2, whose pubends log messages and serve them from the log.
"""

import pickle
import struct
from typing import Any, Final, NamedTuple

import msgspec

from tidewheel.batches.batches import is_arrow, stream_of
from tidewheel.host.program_classes import ClassChanged
from tidewheel.progress import ProtocolError, Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Encoding,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Notice,
    PartitionEnded,
    WentBack,
)
from tidewheel.transport.frames import LARGE, Payload, dumps, unpickled

MOST_HEAD_BYTES: Final = 16 * 1024 * 1024
MOST_BYTES: Final = (1 << 32) - 1
"""The largest size of a message, since a record of the log has a length field of 4 bytes."""

_LENGTH = struct.Struct("<I")
_PICKLED = 1
_PICKLE_BEGINS = b"\x80"
_ARRAY_OF_FOUR = b"\x94"
_LEAST, _END = -(1 << 63), 1 << 64
_COMPARED_BYTES = 1024 * 1024


def encode_batch(time: Time, batch: Any) -> DataMessage:
    """Encode one batch: a list, a NumPy array, a ``pyarrow.RecordBatch`` or a ``pyarrow.Table``.

    Raises:
        DeliveryError: the batch has no length, or a record cannot be pickled.

    >>> encode_batch(7, [1, 2, 3]).records
    3
    """
    if is_arrow(batch):
        return DataMessage(time, stream_of(batch).stream, "arrow", batch.num_rows)
    try:
        records = len(batch)
    except TypeError:
        raise DeliveryError(
            f"a {type(batch).__qualname__} is no batch: publish lists, NumPy arrays or Arrow tables"
        ) from None
    reason = f"a batch of {records} records cannot be published because it"
    return DataMessage(
        time, _pickled(batch, reason, "map the records to plain values before publish"), "pickle", records
    )


def encode_ends(time: Time, keys: list[Any]) -> DataMessage:
    """Encode the keys of ended substreams; raise DeliveryError if a key cannot be pickled.

    >>> decode_batch(encode_ends(7, ["a", "b"]))
    ['a', 'b']
    """
    reason = "the ends of substreams cannot be published because a key"
    return DataMessage(time, _pickled(keys, reason, "divide the stream by keys of plain values"), "ends", 0)


def _pickled(content: Any, reason: str, remedy: str) -> bytes:
    try:
        return dumps(content)
    except Exception as error:
        raise DeliveryError(f"{reason} cannot be pickled ({error}): {remedy}") from error


def decode_batch(message: DataMessage) -> Any:
    """Return the batch in a message; Arrow batches become a ``pyarrow.Table``.

    Raises:
        DeliveryError: this process cannot decode the bytes, for example because it cannot import a class.

    >>> decode_batch(encode_batch(7, ["a", "b"]))
    ['a', 'b']
    """
    try:
        if message.encoding == "arrow":
            import pyarrow as pa

            with pa.ipc.open_stream(message.payload) as reader:
                return reader.read_all()
        return pickle.loads(message.payload)  # noqa: S301  the bytes come from a publisher of the same Ray cluster
    except Exception as error:
        what = f"a batch of {message.records} records does"
        if message.encoding == "ends":
            what = "the keys of substreams do"
        remedy = "" if isinstance(error, ClassChanged) else ". The code that is needed must be importable here too"
        raise DeliveryError(f"{what} not decode in this process: {error}{remedy}") from error


class Place(NamedTuple):
    """The identity of a batch: its time, and its ``number`` at that time.

    The identity stays the same after a restart of the worker.
    """

    time: Time
    number: int


class EncodedMessage(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One encoded message, equal to messages with the same bytes; only `decode` and `place_of` read its head."""

    head: bytes
    payload: Payload

    @classmethod
    def of(cls, content: Payload) -> "EncodedMessage":
        """Return the message in ``content``; a large payload is a slice, which keeps the bytes alive.

        Raises:
            ProtocolError: the bytes are too short.
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
        """The bytes of the message, in parts to join; a large payload is not copied."""
        end = self.head + _LENGTH.pack(len(self.head))
        return (self.payload, end) if len(self.payload) else (end,)

    @property
    def size_bytes(self) -> int:
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
        return not self == other  # the base class would compare identities

    def __hash__(self) -> int:
        return hash((self.head, len(self.payload)))

    def __repr__(self) -> str:
        return f"EncodedMessage({len(self.head)} bytes of head, {len(self.payload)} bytes of payload)"

    def __reduce__(self) -> tuple[Any, ...]:
        payload = bytes(self.payload) if isinstance(self.payload, memoryview) else self.payload
        return type(self), (self.head, payload)


def size_of(message: EncodedMessage) -> int:
    return message.size_bytes


def encode(message: Message, number: int | None = None) -> EncodedMessage:
    """Encode a message; a decoded message keeps its head.

    ``number`` is the number of earlier batches of the same time; if it is given, a batch gets a new head.

    >>> message = encode(DataMessage((3, 1), b"batch", "pickle", 7), number=2)
    >>> place_of(message), decode(EncodedMessage.of(b"".join(message.parts))).records
    (Place(time=(3, 1), number=2), 7)
    >>> encode(decode(message)).head is message.head
    True
    """
    if isinstance(message, DataMessage):
        if message.head and number is None:
            return EncodedMessage(message.head, message.payload)
        head = _encode((_plain(message.time), message.encoding, message.records, number or 0))
        return EncodedMessage(head, message.payload)
    if isinstance(message, LowerFrontierUpdate):
        if message.head:
            return EncodedMessage(message.head, b"")
        return EncodedMessage(_encode(([(_plain(time), change) for time, change in message.updates],)), b"")
    if isinstance(message, InitialFrontierSnapshot):
        return EncodedMessage(_SNAPSHOT_HEAD, dumps(message))
    fields = () if isinstance(message, PartitionEnded) else (_pickled_part(message),)
    return EncodedMessage(_encode(fields), b"")


_encode = msgspec.msgpack.Encoder().encode
_SNAPSHOT_HEAD = _encode((None,))


def _plain(time: Time) -> Any:
    if type(time) is int and _LEAST <= time < _END:
        return time
    return tuple(map(_plain, time)) if type(time) is tuple else _pickled_part(time)


def _pickled_part(value: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(_PICKLED, dumps(value))


def _time(found: Any) -> Time:
    return tuple(map(_time, found)) if type(found) is list else found


def _unpickled_part(code: int, content: memoryview) -> Any:
    if code != _PICKLED:
        raise ProtocolError(f"the head has an extension of type {code}")
    return unpickled(content)


class _BatchHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    time: Any
    encoding: Encoding
    records: int
    number: int


_decode_batch = msgspec.msgpack.Decoder(_BatchHead, ext_hook=_unpickled_part).decode
_decode = msgspec.msgpack.Decoder(ext_hook=_unpickled_part).decode


def _opened(head: bytes) -> Any:
    try:
        if head[:1] == _ARRAY_OF_FOUR:
            return _decode_batch(head)
        if head[:1] != _PICKLE_BEGINS:
            return _decode(head)
        found = unpickled(head)  # of a log of an earlier release
        fields = list(found) if type(found) is tuple else found
        return msgspec.convert(fields, _BatchHead) if type(found) is tuple and len(found) == 4 else fields
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
        raise ProtocolError(f"the head is of no message, as it cannot be decoded: {error}") from error


def check_size(message: EncodedMessage) -> None:
    """Raise DeliveryError if a message is too large for a log."""
    if len(message.head) > MOST_HEAD_BYTES or message.size_bytes > MOST_BYTES:
        raise DeliveryError(
            f"a message with {len(message.head)} bytes of times and {len(message.payload)} bytes of records is too "
            f"large for exactly-once delivery. The limits are {MOST_HEAD_BYTES} bytes of times, and {MOST_BYTES} bytes "
            "together: publish smaller batches, and smaller times"
        )


def decode(message: EncodedMessage) -> Message:
    """Decode a message, except for the payload of a batch.

    Raises:
        ProtocolError: the head cannot be decoded.
    """
    found = _opened(message.head)
    if type(found) is _BatchHead:  # a match statement takes three times as long
        return DataMessage(_time(found.time), message.payload, found.encoding, found.records, message.head)
    if type(found) is list and len(found) == 1 and type(found[0]) is not list:
        notice = unpickled(message.payload) if found[0] is None else found[0]
        if isinstance(notice, Notice):
            return notice
    return _event(found, message.head)


def place_of(message: EncodedMessage) -> Place | None:
    """Return the place of a batch; None for other messages.

    Raises:
        ProtocolError: as `decode` does.
    """
    found = place_or_event(message)
    return found if isinstance(found, Place) else None


def place_or_event(message: EncodedMessage) -> Place | LowerFrontierUpdate | PartitionEnded | WentBack:
    """Return the place of a batch, or the event of another message.

    Raises:
        ProtocolError: as `decode` does.
    """
    found = _opened(message.head)
    if type(found) is _BatchHead:  # a match statement takes three times as long
        return Place(_time(found.time), found.number)
    if type(found) is list and len(found) == 1 and isinstance(found[0], WentBack):
        return found[0]
    return _event(found, message.head)


def _event(fields: object, head: bytes) -> LowerFrontierUpdate | PartitionEnded:
    if type(fields) is list:
        if not fields:
            return PartitionEnded()
        if len(fields) == 1 and isinstance(fields[0], list):
            try:
                updates = [(time if type(time) is int else _time(time), change) for time, change in fields[0]]
                return LowerFrontierUpdate(updates, head)
            except (TypeError, ValueError):
                pass  # the list has other elements than pairs
    raise ProtocolError(f"the head is of no message but {fields!r:.100}")


def slice_of(content: Payload, begin: int, end: int) -> Payload:
    """Return part of a buffer: a copy if it is small, so that the buffer can be freed; otherwise a slice."""
    if end - begin < LARGE:
        return bytes(content[begin:end])
    return memoryview(content)[begin:end]


def _has_same_bytes(one: Payload, other: Payload) -> bool:
    """Compare two payloads of the same length. A ``memoryview`` would compare byte by byte, at 50 times the cost."""
    if one is other:
        return True
    first, second = memoryview(one), memoryview(other)
    return all(
        bytes(first[begin : begin + _COMPARED_BYTES]) == bytes(second[begin : begin + _COMPARED_BYTES])
        for begin in range(0, len(first), _COMPARED_BYTES)
    )
