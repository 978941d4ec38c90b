"""The frames of messages between publishers, relays and subscribers, as those of `transport.frames`.

=======================  ==========================================================  =================================
message                  head, as msgpack                                            payload
=======================  ==========================================================  =================================
`KnowledgeMessage`       what is final, and tick, head and size of each message      their payloads, one after the other
`Rejected`, `Stranger`,  as they are                                                 none
`Nack`, `Ack`
`Join`                   the name, and the filter, pickled                           none
`Numbered`               the number, what was skipped, and the head of the message   that of the message
=======================  ==========================================================  =================================

Messages stay pickled on their way; of a child's messages only the filter is unpickled. This module checks ranges of
ticks, so that the machines receive only valid ranges.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.fanout import Filter
from tidewheel.pubsub.exactly_once.messages import Ack, Downstream, KnowledgeMessage, Nack, Rejected, Stranger, Upstream
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, check_range
from tidewheel.pubsub.messages import encoded_message
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, slice_of
from tidewheel.pubsub.messages.wire import Numbered
from tidewheel.transport.frames import LARGE, Payload, frame_of, unpickled
from tidewheel.transport.pickling import dumps

FRAME_BYTES: Final = 1024 * 1024
"""The approximate size of a frame of messages that no child has asked for."""

MOST_PAYLOAD_BYTES: Final = 1 << 33
"""The largest payload of a frame: the largest message plus the largest room of a reader."""

_EACH_BYTES = 64
"""The size that counts for each message beside its payload."""


class Join(msgspec.Struct, frozen=True):
    """The first message of a child, repeated when its filter changes.

    Attributes:
        name: the name of the child.
        where: its filter; None for all messages.
    """

    name: str
    where: Filter | None


Told: TypeAlias = Downstream | Numbered
"""A message of a parent to its child; a publisher without a log sends `Numbered`."""

ChildMessage: TypeAlias = Join | Upstream
"""A message of a child to its parent."""

_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Tick: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=FOREVER)]
_Ranges: TypeAlias = tuple[tuple[_Tick, _Tick], ...]


class _Head(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A head; each kind has a letter."""


H = TypeVar("H", bound=_Head)


class _KnowledgeHead(_Head, tag="K", frozen=True, array_like=True, gc=False):
    pubend: _Number
    final: _Ranges
    data: tuple[tuple[_Tick, bytes, _Number], ...]
    more: bool
    is_answer: bool = False
    lost_end: _Tick = 0


class _RejectedHead(_Head, tag="R", frozen=True, array_like=True, gc=False):
    pubend: _Number
    reason: str


class _StrangerHead(_Head, tag="S", frozen=True, array_like=True, gc=False):
    pubend: _Number
    reader: str


class _NumberedHead(_Head, tag="M", frozen=True, array_like=True, gc=False):
    number: int
    skipped: int
    head: bytes


class _NackHead(_Head, tag="N", frozen=True, array_like=True, gc=False):
    pubend: _Number
    ranges: _Ranges
    room_bytes: int


class _AckHead(_Head, tag="A", frozen=True, array_like=True, gc=False):
    pubend: _Number
    acks: dict[str, _Ranges]
    everywhere: dict[str, tuple[_Ranges, ...]] = {}


class _JoinHead(_Head, tag="J", frozen=True, array_like=True, gc=False):
    name: str
    where: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DownstreamHead: TypeAlias = _NumberedHead | _KnowledgeHead | _RejectedHead | _StrangerHead
_DOWNSTREAM: msgspec.msgpack.Decoder[_DownstreamHead] = msgspec.msgpack.Decoder(_DownstreamHead)
_UPSTREAM: msgspec.msgpack.Decoder[_NackHead | _AckHead | _JoinHead] = msgspec.msgpack.Decoder(
    _NackHead | _AckHead | _JoinHead
)


def encode(message: Told | ChildMessage) -> list[Any]:
    """Return the parts of the frames of a message, to be sent one after the other; no large payload is copied.

    A large `KnowledgeMessage` that leaves nothing out becomes several frames of about `FRAME_BYTES`, which together say
    the same. So a reader that keeps one message of a frame does not keep many others alive.
    """
    if isinstance(message, Numbered):
        encoded = encoded_message.encode(message.message)
        head = _NumberedHead(message.sequence, message.skipped, encoded.head)
        return frame_of(_ENCODER.encode(head), (encoded.payload,))
    match message:
        case KnowledgeMessage():
            return [part for one in _split(message) for part in _knowledge(one)]
        case Nack(pubend, ranges, room_bytes):
            return _frame(_NackHead(pubend, ranges, room_bytes))
        case Ack(pubend, acks, everywhere):
            return _frame(_AckHead(pubend, acks, everywhere))
        case Rejected(pubend, reason):
            return _frame(_RejectedHead(pubend, reason))
        case Stranger(pubend, reader):
            return _frame(_StrangerHead(pubend, reader))
        case Join(name, where):
            return _frame(_JoinHead(name, b"" if where is None else dumps(where)))


def _frame(head: _Head) -> list[Any]:
    return frame_of(_ENCODER.encode(head), ())


def _knowledge(message: KnowledgeMessage) -> list[Any]:
    data = tuple([(tick, one.head, len(one.payload)) for tick, one in message.data])
    head = _KnowledgeHead(message.pubend, message.final, data, message.more, message.is_answer, message.lost_end)
    return frame_of(_ENCODER.encode(head), [one.payload for _, one in message.data])


def _split(message: KnowledgeMessage) -> Iterator[KnowledgeMessage]:
    """Yield messages that say the same; an answer with ``more`` stays whole, as the child asks for the rest."""
    data = message.data
    sizes = [len(one.payload) + _EACH_BYTES for _, one in data]
    if message.more or sum(sizes) <= FRAME_BYTES:
        yield message
        return
    final = message.final
    begin = total = 0
    for place, size in enumerate(sizes):
        total += size
        if total > FRAME_BYTES and place > begin:
            yield structs.replace(message, final=final, data=data[begin:place])
            final, begin, total = (), place, size
    yield structs.replace(message, final=final, data=data[begin:])


def decode_downstream(head: Payload, payload: Payload) -> Told:
    """Return the message for a child in a frame; large messages are slices of the payload.

    Raises:
        ProtocolError: the frame holds no such message.
    """
    decoded = _decoded(_DOWNSTREAM, head)
    if isinstance(decoded, _NumberedHead):
        message = encoded_message.decode(EncodedMessage(decoded.head, payload))
        return Numbered(decoded.number, message, decoded.skipped)
    match decoded:
        case _KnowledgeHead(pubend, final, data, more, is_answer, lost_end):
            _check(final)
            return KnowledgeMessage(pubend, final, _messages(data, payload), more, is_answer, lost_end)
        case _RejectedHead(pubend, reason):
            _messages((), payload)
            return Rejected(pubend, reason)
        case _StrangerHead(pubend, reader):
            _messages((), payload)
            return Stranger(pubend, reader)


def decode_upstream(head: Payload, payload: Payload) -> ChildMessage:
    """Return the message of a child in a frame.

    Raises:
        ProtocolError: the frame holds no such message.
    """
    _messages((), payload)
    match _decoded(_UPSTREAM, head):
        case _NackHead(pubend, ranges, room_bytes):
            _check(ranges)
            return Nack(pubend, ranges, room_bytes)
        case _AckHead(pubend, acks, everywhere):
            for ranges in acks.values():
                _check(ranges)
            for vector in everywhere.values():
                for ranges in vector:
                    _check(ranges)
            return Ack(pubend, acks, everywhere)
        case _JoinHead(name, where):
            return Join(name, unpickled(where) if where else None)


def _decoded(decoder: "msgspec.msgpack.Decoder[H]", head: Payload) -> H:
    try:
        return decoder.decode(head)
    except (ValueError, RecursionError) as error:  # msgspec's own errors are among the first
        raise ProtocolError(f"what came is no message of a topic: {error}") from error


def _check(ranges: tuple[tuple[int, int], ...]) -> None:
    for first, end in ranges:
        if first > end:
            check_range(first, end)


def _messages(entries: tuple[tuple[int, bytes, int], ...], payload: Payload) -> tuple[tuple[int, EncodedMessage], ...]:
    """Return the messages of a frame, each with its part of the payload."""
    if len(payload) >= LARGE and all(size < LARGE for _, _, size in entries):
        payload = bytes(payload)  # so that they are copies
    is_copied = isinstance(payload, bytes)
    messages = []
    begin = 0
    for tick, head, size in entries:
        end = begin + size
        part = payload[begin:end] if is_copied else slice_of(payload, begin, end)
        messages.append((tick, EncodedMessage(head, part)))
        begin = end
    if begin != len(payload):
        raise ProtocolError(f"what came has {len(payload)} bytes of messages, and its head speaks of {begin}")
    return tuple(messages)
