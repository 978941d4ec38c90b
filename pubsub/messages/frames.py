"""The frames and the codec of messages between publishers, relays and subscribers, for `transport.frames`.

=======================  ==========================================================  =================================
message                  head, as msgpack                                            payload
=======================  ==========================================================  =================================
`KnowledgeMessage`       what is final, and tick, head and size of each message      their payloads, one after the other
`Rejected`, `Stranger`,  as they are                                                 none
`Nack`, `Ack`,
`ConsolidatedAck`
`Join`                   the name, and the filter, pickled                           none
=======================  ==========================================================  =================================

A publisher without a log numbers its messages, and sends a number in place of a tick. Messages stay encoded. Only the
filter in a child's messages is unpickled. Ranges of ticks are checked here.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.delivery_messages import (
    Ack,
    CheckedRanges,
    ConsolidatedAck,
    Downstream,
    KnowledgeMessage,
    Nack,
    Number,
    Stranger,
    Tick,
    Upstream,
)
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, slice_of
from tidewheel.pubsub.messages.filters import Filter
from tidewheel.pubsub.messages.tick_set import TickRange, TickSet, check_range
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.transport.frames import LARGE, Payload, dumps, frame_of, unpickled
from tidewheel.transport.stream_link import Codec

H = TypeVar("H")

FRAME_BYTES: Final = 1024 * 1024
"""The approximate size of a frame of messages that no child has asked for."""

MOST_PAYLOAD_BYTES: Final = 1 << 33
"""The largest payload of a frame: the largest message plus the largest room of a reader."""

MOST_NACKED_RANGES: Final = 10_000
"""The largest number of ranges in all waiting nacks. Above it, only the newest nack stays; the child repeats the
others."""

_EACH_BYTES = 64
"""The bytes counted for each message in addition to its payload."""


class Join(msgspec.Struct, frozen=True):
    """The first message of a child; the child repeats it when its filter changes.

    Attributes:
        awaits_silence: whether it needs silence soon: relays do, and subscribers in total order or with a filter.
    """

    name: str
    where: Filter | None
    awaits_silence: bool = True


Told: TypeAlias = Downstream
"""A message of a parent to its child."""

ChildMessage: TypeAlias = Join | Upstream
"""A message of a child to its parent."""


class _KnowledgeHead(msgspec.Struct, tag="K", frozen=True, array_like=True, gc=False):
    pubend: Number
    final: CheckedRanges
    data: tuple[tuple[Tick, bytes, Number], ...]
    more: bool
    is_answer: bool = False
    lost_end: Tick = 0
    union: Number = 0


class _JoinHead(msgspec.Struct, tag="J", frozen=True, array_like=True, gc=False):
    name: str
    where: bytes
    awaits_silence: bool = True


_ENCODER = msgspec.msgpack.Encoder()
_DownstreamHead: TypeAlias = _KnowledgeHead | Rejected | Stranger
_DOWNSTREAM: msgspec.msgpack.Decoder[_DownstreamHead] = msgspec.msgpack.Decoder(_DownstreamHead)
_UpstreamHead: TypeAlias = Upstream | _JoinHead
_UPSTREAM: msgspec.msgpack.Decoder[_UpstreamHead] = msgspec.msgpack.Decoder(_UpstreamHead)


def encode(message: Told | ChildMessage) -> list[Any]:
    """Return the parts of a message's frames, to send one after the other; large payloads are not copied.

    A large, complete `KnowledgeMessage` becomes several frames of about `FRAME_BYTES`.
    """
    if isinstance(message, KnowledgeMessage):
        return [part for one in _split(message) for part in _knowledge(one)]
    head: Any = message
    if isinstance(message, Join):
        where = b"" if message.where is None else dumps(message.where)
        head = _JoinHead(message.name, where, message.awaits_silence)
    return frame_of(_ENCODER.encode(head), ())


def _knowledge(message: KnowledgeMessage) -> list[Any]:
    data = tuple([(tick, one.head, len(one.payload)) for tick, one in message.data])
    head = _KnowledgeHead(
        message.pubend, message.final, data, message.more, message.is_answer, message.lost_end, message.union
    )
    return frame_of(_ENCODER.encode(head), [one.payload for _, one in message.data])


def _split(message: KnowledgeMessage) -> Iterator[KnowledgeMessage]:
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
    """Decode a message to a child; large messages are slices of the payload.

    Raises:
        ProtocolError: the frame holds no such message.
    """
    decoded = _decoded(_DOWNSTREAM, head)
    if isinstance(decoded, _KnowledgeHead):
        _check(decoded.final)
        data = _messages(decoded.data, payload)
        return KnowledgeMessage(
            decoded.pubend, decoded.final, data, decoded.more, decoded.is_answer, decoded.lost_end, decoded.union
        )
    _messages((), payload)
    return decoded


def decode_upstream(head: Payload, payload: Payload) -> ChildMessage:
    """Decode a message from a child.

    Raises:
        ProtocolError: the frame holds no such message.
    """
    _messages((), payload)
    message = _decoded(_UPSTREAM, head)
    if isinstance(message, _JoinHead):
        return Join(message.name, unpickled(message.where) if message.where else None, message.awaits_silence)
    if isinstance(message, Nack):
        _check(message.ranges)
    elif isinstance(message, Ack):
        _check(chain(*message.acks.values(), *chain(*message.everywhere.values())))
    return message


def _decoded(decoder: "msgspec.msgpack.Decoder[H]", head: Payload) -> H:
    try:
        return decoder.decode(head)
    except (ValueError, RecursionError) as error:  # msgspec's own errors are among the first
        raise ProtocolError(f"the bytes are no message of a topic: {error}") from error


def _check(ranges: Iterable[TickRange]) -> None:
    for first, end in ranges:
        if first > end:
            check_range(first, end)


def _messages(entries: tuple[tuple[int, bytes, int], ...], payload: Payload) -> tuple[tuple[int, EncodedMessage], ...]:
    if len(entries) == 1 and entries[0][2] == len(payload):  # the usual frame has one message
        tick, head, _ = entries[0]
        return ((tick, EncodedMessage(head, payload)),)
    if len(payload) >= LARGE and all(size < LARGE for _, _, size in entries):
        payload = bytes(payload)  # the copy outlives the memory of the frame
    is_copied = isinstance(payload, bytes)
    messages = []
    begin = 0
    for tick, head, size in entries:
        end = begin + size
        part = payload[begin:end] if is_copied else slice_of(payload, begin, end)
        messages.append((tick, EncodedMessage(head, part)))
        begin = end
    if begin != len(payload):
        raise ProtocolError(f"the frame has {len(payload)} bytes of messages, and its head speaks of {begin}")
    return tuple(messages)


class Unsaid:
    """The unsent messages of a relay or subend to its parent; it counts as false if there are none.

    New acknowledgements of a subscription replace earlier ones, and nacks of one pubend are joined.
    """

    def __init__(self) -> None:
        self._join: Join | None = None
        self._nacks: dict[int, Nack] = {}
        self._acks: dict[int, Ack] = {}
        self._consolidated: dict[int, ConsolidatedAck] = {}

    def __bool__(self) -> bool:
        return bool(self._join or self._nacks or self._acks or self._consolidated)

    def add(self, message: ChildMessage) -> None:
        """Add a message, and drop the messages that it replaces."""
        match message:
            case Join():
                self._join = message
            case Nack(pubend, ranges, room_bytes):
                ticks = TickSet(ranges)
                if pubend in self._nacks:
                    ticks.update(self._nacks[pubend].ranges)
                is_short = len(ticks) <= MOST_NACKED_RANGES
                self._nacks[pubend] = Nack(pubend, ticks.ranges(), room_bytes) if is_short else message
            case Ack(pubend, acks, everywhere, may_consolidate):
                before = self._acks.get(pubend, Ack(pubend, {}))
                self._acks[pubend] = Ack(pubend, before.acks | acks, before.everywhere | everywhere, may_consolidate)
            case ConsolidatedAck(pubend, readers=readers, is_all=is_all):
                earlier = self._consolidated.get(pubend, message)
                if not is_all:
                    message = structs.replace(message, readers=earlier.readers | readers, is_all=earlier.is_all)
                self._consolidated[pubend] = message

    def take(self) -> list[ChildMessage]:
        """Return and remove all messages; a `Join` comes first."""
        said: list[ChildMessage] = [] if self._join is None else [self._join]
        said += self._nacks.values()
        said += self._acks.values()
        said += self._consolidated.values()
        self._join, self._nacks, self._acks, self._consolidated = None, {}, {}, {}
        return said


def size_of(message: Told) -> int:
    if isinstance(message, KnowledgeMessage):
        sizes: list[int] = [one.size_bytes for _, one in message.data]
        return sum(sizes, _EACH_BYTES * (1 + len(sizes)))
    return _EACH_BYTES


CODEC: Final = Codec(
    encode=encode,
    decode_told=decode_downstream,
    decode_said=decode_upstream,
    most_told_bytes=MOST_PAYLOAD_BYTES,
    size_of=size_of,
    must_be_told=lambda message: isinstance(message, Rejected),  # a rejected child would not notice the loss
    joins=lambda message: isinstance(message, Join),
    unsaid=Unsaid,
)
"""The codec of the links between publishers, relays and subscribers."""
