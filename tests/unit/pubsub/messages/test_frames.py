"""The messages of pubends, relays and subends, which come out the same however they were cut on the way."""

import pickle
import struct
from collections.abc import Iterable, Sequence
from socket import socket
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.exactly_once.ranges import RANGES
from tests.kit.messages import raises
from tests.kit.pubsub.cut_socket import Cut
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages import frames
from tidewheel.pubsub.messages.delivery_messages import (
    Ack,
    ConsolidatedAck,
    Downstream,
    KnowledgeMessage,
    Nack,
    Stranger,
)
from tidewheel.pubsub.messages.delivery_options import Where
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, encode
from tidewheel.pubsub.messages.filters import union_of
from tidewheel.pubsub.messages.frames import FRAME_BYTES, ChildMessage, Join, decode_downstream, decode_upstream
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import DataMessage, PartitionEnded, Rejected
from tidewheel.transport.frames import LARGE, FrameReader, frame_of

SIZES = st.integers(0, 300) | st.sampled_from([LARGE - 1, LARGE, LARGE + 1, 3 * LARGE, FRAME_BYTES])
TICKS = st.integers(0, FOREVER - 1)
PUBENDS = st.integers(0, 3)
RANGE_TUPLES = st.lists(RANGES, max_size=4).map(tuple)
MESSAGES = st.just(encode(PartitionEnded())) | st.builds(
    lambda time, size: encode(DataMessage(time, bytes([size % 251]) * size, "pickle", 1), 3), st.integers(), SIZES
)
DATA = st.lists(st.tuples(TICKS, MESSAGES), max_size=5).map(tuple)
DOWNSTREAM = st.one_of(
    st.builds(KnowledgeMessage, PUBENDS, RANGE_TUPLES, DATA, st.booleans(), st.booleans(), TICKS, TICKS),
    st.builds(Rejected, PUBENDS, st.text(max_size=20)),
    st.builds(Stranger, PUBENDS, st.text(max_size=20)),
)
ACKS = st.dictionaries(st.text(max_size=5), RANGE_TUPLES, max_size=3)
READERS = st.dictionaries(st.text(max_size=5), st.booleans(), max_size=3)
NUMBERS = st.integers(0, (1 << 56) - 1)
UPSTREAM = st.one_of(
    st.builds(Nack, PUBENDS, RANGE_TUPLES, st.integers(-(2**63), 2**63 - 1)),
    st.builds(Ack, PUBENDS, ACKS, st.just({}), st.booleans()),
    st.builds(ConsolidatedAck, PUBENDS, TICKS, NUMBERS, NUMBERS, READERS, st.booleans()),
    st.builds(
        Join, st.text(max_size=9), st.none() | st.just(Where(len)) | st.just(union_of([Where(len), Where(bool)]))
    ),
)
CUTS = st.lists(st.sampled_from([0, 1, 2, 11, 12, 13, 100, LARGE, 2 * LARGE, 10**6]), min_size=1, max_size=30)
LENGTHS = struct.Struct("<IQ")


def bytes_of(messages: Iterable[Downstream | ChildMessage]) -> bytes:
    return b"".join(bytes(memoryview(part)) for message in messages for part in frames.encode(message))


def read_all(content: bytes, pieces: Sequence[int], *, upstream: bool = False) -> list[Any]:
    """Return what comes out of some bytes that come in pieces."""
    decode: Any = decode_upstream if upstream else decode_downstream
    reader = FrameReader(cast(socket, Cut(content, pieces)), decode)
    found: list[Any] = []
    while not reader.is_at_end:
        found += reader.read()
    return found


def together(messages: Iterable[Downstream]) -> list[Downstream]:
    """Put in one what was split: all that a message has beside the first of its parts is data."""
    result: list[Downstream] = []
    for message in messages:
        last = result[-1] if result else None
        if (
            isinstance(message, KnowledgeMessage)
            and isinstance(last, KnowledgeMessage)
            and message.pubend == last.pubend
            and not message.final
            and not last.more
            and not message.more
        ):
            result[-1] = msgspec.structs.replace(last, data=last.data + message.data)
        else:
            result.append(message)
    return result


@law_settings(150)
@given(st.lists(DOWNSTREAM, max_size=4), CUTS)
def test_what_is_told_comes_out_as_it_went_in(sent: list[Downstream], pieces: list[int]) -> None:
    """Of every kind and size, all in order, cut anywhere."""
    assert together(read_all(bytes_of(sent), pieces)) == together(sent)


@given(st.lists(UPSTREAM, max_size=6), CUTS)
def test_what_is_said_comes_out_as_it_went_in(sent: list[ChildMessage], pieces: list[int]) -> None:
    """By a child: of every kind, all in order, cut anywhere."""
    assert read_all(bytes_of(sent), pieces, upstream=True) == sent


@given(st.lists(DOWNSTREAM, min_size=1, max_size=3), CUTS, st.data())
def test_a_peer_that_goes_in_the_middle(sent: list[Downstream], pieces: list[int], choices: st.DataObject) -> None:
    """What was whole comes out, and nothing of the rest."""
    content = bytes_of(sent)
    cut_at = choices.draw(st.integers(0, len(content) - 1))
    whole = read_all(content, [10**9])
    found = read_all(content[:cut_at], pieces)
    assert found == whole[: len(found)]
    assert len(bytes_of(found)) <= cut_at
    assert len(bytes_of(whole[: len(found) + 1])) > cut_at


def test_cut_at_every_byte() -> None:
    """One frame of each kind, with what comes before and behind it in two pieces."""
    small = encode(DataMessage(1, b"x" * 10, "pickle", 1))
    told: list[Downstream] = [
        KnowledgeMessage(1, ((0, 5), (6, FOREVER)), ((5, small), (7, small)), more=True),
        KnowledgeMessage(1, ((0, 5),), ((5, small),), is_answer=True, lost_end=3),
        Rejected(0, "no"),
        Stranger(1, "12ab/billing/34cd"),
    ]
    said: list[ChildMessage] = [
        Join("child", Where(len)),
        Join("child", None, awaits_silence=False),
        Nack(1, ((3, FOREVER),), 100),
        Ack(0, {"name": ((0, 7),)}),
        ConsolidatedAck(1, 7, 1 << 50, 3, {"name": True, "other": False}, is_all=True),
    ]
    cases: list[tuple[bool, Sequence[Downstream | ChildMessage]]] = [(False, told), (True, said)]
    for upstream, messages in cases:
        content = bytes_of(messages)
        for cut_at in range(1, len(content)):
            assert read_all(content, [cut_at], upstream=upstream) == messages


def test_what_a_child_hears_is_not_copied() -> None:
    """On its way out large payloads are the very objects; where it comes in they are parts of one buffer."""
    large = [encode(DataMessage(n, bytes([n]) * LARGE, "pickle", 1)) for n in range(3)]
    small = encode(DataMessage(9, b"x", "pickle", 1))
    message = KnowledgeMessage(0, (), ((1, large[0]), (2, small), (3, small), (4, large[1]), (5, large[2])))
    parts = frames.encode(message)
    assert [part is one.payload for part, one in zip(parts[1::2], large[:2], strict=False)] == [True, True]
    assert len(parts) == 5  # the head, a large one, two small ones together, two large ones
    assert parts[4] is large[2].payload
    [found] = read_all(b"".join(parts), [10**9])
    buffers = {id(one.payload.obj) for _, one in found.data if isinstance(one.payload, memoryview)}
    assert len(buffers) == 1
    assert [type(one.payload) for _, one in found.data] == [memoryview, bytes, bytes, memoryview, memoryview]


def test_much_goes_in_several_frames() -> None:
    """None of them much larger than `FRAME_BYTES`, unless it is one message; what is final goes with the first."""
    sizes = [10, FRAME_BYTES // 2, FRAME_BYTES // 2, 3 * FRAME_BYTES, 5, 6]
    data = tuple((n, encode(DataMessage(n, b"x" * size, "pickle", 1))) for n, size in enumerate(sizes))
    sent = KnowledgeMessage(2, ((50, 60),), data, is_answer=True, lost_end=7)
    found = read_all(bytes_of([sent]), [10**9])
    assert [[tick for tick, _ in one.data] for one in found] == [[0, 1], [2], [3], [4, 5]]
    assert [one.final for one in found] == [((50, 60),), (), (), ()]
    assert together(found) == [sent]


def test_an_answer_that_leaves_something_out_is_one_frame() -> None:
    """Who has a part of it with that word would ask at once for what comes right behind."""
    data = tuple((n, encode(DataMessage(n, b"x" * FRAME_BYTES, "pickle", 1))) for n in range(4))
    sent = KnowledgeMessage(2, (), data, more=True)
    assert read_all(bytes_of([sent]), [10**9]) == [sent]


@given(st.binary(max_size=200), st.lists(DOWNSTREAM, max_size=1), st.lists(UPSTREAM, max_size=1), CUTS)
def test_garbage_is_refused(
    garbage: bytes, told: list[Downstream], said: list[ChildMessage], pieces: list[int]
) -> None:
    """As a frame's head, or between frames: what comes of it is ProtocolError, or nothing."""
    framed = b"".join(frame_of(garbage, (garbage[:7],)))
    cases: list[tuple[bool, Sequence[Downstream | ChildMessage]]] = [(False, told), (True, said)]
    for upstream, messages in cases:
        before = bytes_of(messages)
        whole = read_all(before, [10**9], upstream=upstream)
        for content in (garbage, framed):
            try:
                found = read_all(before + content, pieces, upstream=upstream)
            except ProtocolError:
                continue
            # Not their bytes: equal sets of filters may be pickled in another order.
            assert found[: len(whole)] == whole


class UnpickledError(Exception):
    """What a test was not to unpickle."""


class Trap:
    """What raises where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _spring, ()


def _spring() -> None:
    raise UnpickledError


def head(*fields: Any) -> bytes:
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize("upstream", [False, True], ids=["down", "up"])
@pytest.mark.parametrize(
    ("content", "payload", "text"),
    [
        (b"\xff" * 20, b"", "no message of a topic"),
        (head("X", 1, 2), b"", "Invalid value 'X'"),
        (head("K", -1, (), (), False), b"", "no message of a topic"),
        (head("K", 0, ((0, FOREVER + 1),), (), False), b"", "no message of a topic"),
        (head("K", 0, (), ((0, b"", -1),), False), b"", "no message of a topic"),
        (head("N", 0, ((-1, 4),), 10), b"", "no message of a topic"),
        (head("A", 0, {"name": ((0, "one"),)}), b"", "no message of a topic"),
        (head("J", "name"), b"", "no message of a topic"),
        (b"\x91" * 100_000, b"", "no message of a topic"),
    ],
    ids=[
        "garbage",
        "kind",
        "pubend",
        "after the end",
        "size",
        "before the beginning",
        "no tick",
        "no filter",
        "nested",
    ],
)
def test_a_wrong_head_is_refused(content: bytes, payload: bytes, text: str, *, upstream: bool) -> None:
    """What is of no kind, or whose fields have other types or bounds, in both directions."""
    with pytest.raises(ProtocolError, match=text):
        read_all(b"".join(frame_of(content, (payload,))), [10**9], upstream=upstream)


@pytest.mark.parametrize(
    ("content", "payload", "upstream", "text"),
    [
        (head("K", 0, ((5, 4),), (), False), b"", False, r"\(5, 4\) is no range"),
        (head("K", 0, (), ((0, b"", 4),), False), b"abc", False, "3 bytes of messages, and its head speaks of 4"),
        (head("K", 0, (), ((0, b"", 2),), False), b"abc", False, "3 bytes of messages, and its head speaks of 2"),
        (head("R", 0, "why"), b"abc", False, "3 bytes of messages, and its head speaks of 0"),
        (b"\x94" + head("R", 0, "why")[1:] + b"\x91" * 100_000, b"", False, "no message of a topic"),
        (head("N", 0, ((5, 4),), 1), b"", True, r"\(5, 4\) is no range"),
        (head("N", 0, ((4, 5),), 1), b"abc", True, "3 bytes of messages, and its head speaks of 0"),
        (head("A", 0, {"name": ((5, 4),)}), b"", True, r"\(5, 4\) is no range"),
        (head("J", "name", b"no pickle"), b"", True, "cannot be unpickled"),
        (head("J", "name", pickle.dumps(Trap())), b"", True, "cannot be unpickled: Unpickled"),
    ],
    ids=[
        "final",
        "too short",
        "too long",
        "rejected",
        "nested",
        "nack",
        "nack and more",
        "ack",
        "filter",
        "another filter",
    ],
)
def test_what_makes_no_sense_is_refused(content: bytes, payload: bytes, text: str, *, upstream: bool) -> None:
    """Ranges that end before they begin, sizes that are not those of the payload, filters that are none here."""
    with pytest.raises(ProtocolError, match=text):
        read_all(b"".join(frame_of(content, (payload,))), [10**9], upstream=upstream)


@pytest.mark.parametrize("upstream", [False, True], ids=["down", "up"])
def test_each_direction_has_its_own(*, upstream: bool) -> None:
    """Who is told something does not take it for something said, nor the other way round."""
    other = KnowledgeMessage(0, ((0, 1),)) if upstream else Nack(0, ((0, 1),), 1)
    with raises(ProtocolError):
        read_all(bytes_of([other]), [10**9], upstream=upstream)


def test_messages_are_passed_on_without_being_unpickled() -> None:
    """Neither their heads nor their payloads are looked at, however often they are sent on."""
    trap = pickle.dumps(Trap())
    sent = KnowledgeMessage(0, (), ((4, EncodedMessage(trap, trap)), (8, EncodedMessage(trap, trap * 1000))))
    [found] = read_all(bytes_of([sent]), [10**9])
    assert read_all(bytes_of([found]), [10**9]) == [sent]


@pytest.mark.parametrize(("size", "is_refused"), [(100, False), (101, True), (2**62, True)])
def test_what_is_larger_than_expected_is_refused(size: int, *, is_refused: bool) -> None:
    """Before memory is taken for it."""
    content = LENGTHS.pack(1, size) + b"\x90" + bytes(min(size, 1000))
    reader = FrameReader(cast(socket, Cut(content, [10**9])), lambda _, payload: len(payload), most_payload_bytes=100)
    if not is_refused:
        assert list(reader.read()) == [size]
        return
    with pytest.raises(ProtocolError, match=f"larger than is expected here: its payload would be {size} bytes"):
        list(reader.read())


def test_many_messages_at_once() -> None:
    """Thousands of small ones, in more frames than one: all in order."""
    data = tuple((tick, encode(DataMessage(tick, b"x" * 100, "pickle", 1))) for tick in range(0, 70_000, 7))
    found = read_all(bytes_of([KnowledgeMessage(0, (), data)]), [1000])
    assert len(found) > 1
    assert tuple(pair for one in found for pair in one.data) == data
