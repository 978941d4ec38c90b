"""Frames: whatever was sent comes out the same, however the socket cuts it and takes it; and nothing else comes out."""

import pickle
import struct
from collections.abc import Iterable, Iterator
from itertools import count
from socket import socket, socketpair
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.pubsub.cut_socket import Cut
from tests.kit.pubsub.numbered import told
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.frames import decode_downstream
from tidewheel.pubsub.messages.frames import encode as encode_told
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    Failed,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
)
from tidewheel.pubsub.protocol.fetched import opened
from tidewheel.transport.frames import _BUFFER_BYTES as BUFFER
from tidewheel.transport.frames import (
    LARGE,
    MOST_AT_ONCE,
    SIGN_OF_LIFE,
    STEADILY,
    FrameReader,
    frame_of,
)

LENGTHS = struct.Struct("<IQ")


def decode(head: Any, payload: Any) -> Numbered:
    """Return a message, which has to be one with a number."""
    message = decode_downstream(head, payload)
    if not isinstance(message, KnowledgeMessage):
        raise ProtocolError(f"this is no message with a number: {message}")
    [found] = opened([message])
    return found


def encode(numbered: Numbered) -> list[Any]:
    """Return the parts of the frame by which a publisher tells a message."""
    return encode_told(told(numbered))


def payload_of(size: int, first: int = 0) -> bytes:
    """So many bytes, different at each place."""
    return (bytes(range(251)) * (size // 251 + 2))[first : first + size]


def data(time: object, size: int, first: int = 0) -> DataMessage:
    return DataMessage(time, payload_of(size, first), "pickle", 7)


times = st.one_of(
    st.integers(-5, 2**70),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from(["", "x" * (BUFFER - 200), "y" * BUFFER, "z" * (3 * BUFFER + 1)]),
)
sizes = st.one_of(
    st.integers(0, 300),
    *(st.integers(limit - 40, limit + 40) for limit in (LARGE, BUFFER, 256 * 1024)),
)
changes = st.lists(st.tuples(times, st.sampled_from([-1, 1])), max_size=3)
messages = st.one_of(
    st.builds(data, times, sizes, st.integers(0, 250)),
    st.builds(LowerFrontierUpdate, changes),
    st.builds(InitialFrontierSnapshot, st.lists(times, max_size=3), st.lists(times, max_size=3)),
    st.builds(EpochsDropped, st.lists(times, max_size=3)),
    st.just(PartitionEnded()),
    st.builds(Failed, st.text(max_size=20)),
)
cuts = st.lists(st.sampled_from([0, 1, 2, 11, 12, 13, 100, LARGE, BUFFER, 10**6]), min_size=1, max_size=30)


def frames(numbered: Iterable[Numbered]) -> bytes:
    return b"".join(bytes(memoryview(part)) for one in numbered for part in encode(one))


def numbered(found: Iterable[Message]) -> list[Numbered]:
    """Number messages, some of them after others that were left out."""
    can_skip = (DataMessage, LowerFrontierUpdate)
    return [
        Numbered(n, one, n % 3 if isinstance(one, can_skip) else 0) for n, one in zip(count(5), found, strict=False)
    ]


def read_all(cut: Cut) -> tuple[list[Numbered], FrameReader[Numbered]]:
    reader = FrameReader(cast(socket, cut), decode)
    found: list[Numbered] = []
    while not reader.is_at_end:
        found += reader.read()
    return found, reader


@given(st.lists(messages, max_size=6), cuts)
def test_messages_come_out_as_they_went_in(sent: list[Message], pieces: list[int]) -> None:
    """Of every kind and size, all in order, cut anywhere; later ones do not change those that have come before."""
    cut = Cut(frames(numbered(sent)), pieces)
    found, _ = read_all(cut)
    assert found == numbered(sent)
    assert cut.is_over


@pytest.mark.parametrize("beyond", range(-2, 3))
@pytest.mark.parametrize("first", [LARGE - 1, LARGE, LARGE + 1])
def test_messages_that_end_where_the_buffer_does(first: int, beyond: int) -> None:
    """Several that came together, the second of which ends with the buffer, or a byte or two before it or after."""
    head = len(frames(numbered([data(0, 1)]))) - 1
    second = BUFFER - first - 2 * head + beyond
    sent = [data(0, first), data(1, second, 7), data(2, 40, 13), data(3, first, 9)]
    found, _ = read_all(Cut(frames(numbered(sent)), [10**6]))
    assert found == numbered(sent)


@given(st.lists(messages, min_size=1, max_size=4), cuts, st.data())
def test_a_peer_that_goes_in_the_middle(sent: list[Message], pieces: list[int], choices: st.DataObject) -> None:
    """What was whole comes out, what was not does not, and the reader says that the peer has gone."""
    whole = [frames([one]) for one in numbered(sent)]
    content = b"".join(whole)
    cut_at = choices.draw(st.integers(0, len(content) - 1))
    complete = sum(sum(map(len, whole[: n + 1])) <= cut_at for n in range(len(whole)))
    found, reader = read_all(Cut(content[:cut_at], pieces))
    assert found == numbered(sent)[:complete]
    assert reader.is_at_end


@given(st.binary(max_size=200), st.lists(messages, max_size=2), cuts)
def test_garbage_is_refused(garbage: bytes, sent: list[Message], pieces: list[int]) -> None:
    """After whatever makes sense comes ProtocolError, or silence, and never anything else."""
    found: list[Numbered] = []
    reader = FrameReader(cast(socket, Cut(frames(numbered(sent)) + garbage, pieces)), decode)
    try:
        while not reader.is_at_end:
            for one in reader.read():
                found.append(one)  # noqa: PERF402 - what comes before the error counts
    except ProtocolError:
        pass
    assert found[: len(sent)] == numbered(sent)
    assert all(isinstance(one.message, Message) for one in found)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (LENGTHS.pack(2**27, 0), "head would be 134217728 bytes"),
        (LENGTHS.pack(4, 2**63) + b"head", "payload of 9223372036854775808 bytes"),
        (LENGTHS.pack(4, 2**60) + b"head", "payload of 1152921504606846976 bytes"),
        (LENGTHS.pack(4, 0) + b"head", "no message of a topic: "),
        *((LENGTHS.pack(len(head), 0) + head, "no message of a topic: ") for head in (pickle.dumps(7),)),
        *((LENGTHS.pack(len(head), 0) + head, "no message") for head in (pickle.dumps(("a", PartitionEnded())),)),
        *((LENGTHS.pack(len(head), 0) + head, "no message") for head in (pickle.dumps((1, "no message")),)),
    ],
    ids=["long head", "no such length", "more than there is", "no pickle", "a number", "no number", "a text"],
)
def test_what_is_no_frame_is_named(content: bytes, text: str) -> None:
    """The error says what is wrong with it, before memory is taken for it."""
    with pytest.raises(ProtocolError, match=text):
        read_all(Cut(content, [10**6]))


def test_a_large_payload_is_not_copied_on_its_way_out() -> None:
    """It is a part of its own, and the very same object; a small one goes with its head."""
    large, small = DataMessage(0, b"x" * LARGE, "pickle", 1), DataMessage(0, b"x" * (LARGE - 1), "pickle", 1)
    _, payload = encode(Numbered(1, large))
    assert payload is large.payload
    assert len(encode(Numbered(1, small))) == 1


@pytest.mark.parametrize("make", [bytes, memoryview, pa.py_buffer], ids=["bytes", "memoryview", "Arrow"])
@pytest.mark.parametrize("size", [1, LARGE - 1, LARGE, 3 * BUFFER])
def test_payloads_are_taken_wherever_they_lie(make: Any, size: int) -> None:
    """As bytes, as what a frame was read into, and as a buffer of Arrow."""
    sent = Numbered(3, DataMessage(1, make(payload_of(size)), "arrow", 1))
    [found], _ = read_all(Cut(frames([sent]), [10**6]))
    message = cast(DataMessage, found.message)
    assert bytes(message.payload) == payload_of(size)


class Point:
    """A time of a class that can only be pickled by value."""


def test_times_travel_by_value_where_they_have_to() -> None:
    """As those do whose class is of a script; here it is one within a function."""

    def local_class() -> type:
        class Moment(Point):
            pass

        return Moment

    [found], _ = read_all(Cut(frames([Numbered(1, DataMessage(local_class()(), b"x", "pickle", 1))]), [10**6]))
    assert type(cast(DataMessage, found.message).time).__name__ == "Moment"


def test_a_socket_is_not_read_for_ever() -> None:
    """However much is there, others have their turn after about `MOST_AT_ONCE`; the rest is read the next time."""
    payload = b"x" * (MOST_AT_ONCE // 2)
    reader = FrameReader(
        cast(socket, Cut(frames(numbered(DataMessage(0, payload, "pickle", 1) for _ in range(5))), [])), decode
    )
    first = len(list(reader.read()))
    assert 1 < first < 4
    assert first + sum(1 for _ in _reads(reader)) == 5


def test_who_is_to_read_steadily_reads_less_at_a_time() -> None:
    """So that its publisher sees that it reads."""
    sent = numbered(DataMessage(0, b"x" * 1000, "pickle", 1) for _ in range(1000))
    reader = FrameReader(cast(socket, Cut(frames(sent), [])), decode, STEADILY)
    goes = []
    while not reader.is_at_end:
        goes.append(len(list(reader.read())))
    assert sum(goes) == 1000
    assert max(goes) * 1000 < STEADILY + BUFFER


def _reads(reader: FrameReader[Numbered]) -> Iterator[Numbered]:
    while not reader.is_at_end:
        yield from reader.read()


def test_a_connection_that_breaks_is_an_end() -> None:
    """Who is gone without having read what was for it leaves an error behind, which means no more than that it went."""
    ours, theirs = socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = FrameReader(ours, decode)
        assert list(reader.read()) == []
        assert not reader.is_at_end
        ours.send(b"never read")
        theirs.close()
        assert list(reader.read()) == []
        assert reader.is_at_end


def test_an_empty_frame_is_no_message() -> None:
    """It shows that the peer lives, and counts as read."""
    ours, theirs = socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = FrameReader(ours, lambda head, payload: (bytes(head), payload))
        theirs.sendall(SIGN_OF_LIFE + frame_of(b"a", (b"b",))[0] + SIGN_OF_LIFE[:5])
        assert list(reader.read()) == [(b"a", b"b")]
        theirs.sendall(SIGN_OF_LIFE[5:])
        assert list(reader.read()) == []
        assert reader.read_bytes == 3 * len(SIGN_OF_LIFE) + 2


def test_a_large_payload_is_read_where_the_user_wants_it() -> None:
    """If the user has room for it; a small one is not asked about."""
    asked: list[int] = []
    own = bytearray(2 * LARGE)

    def room_for(size: int) -> memoryview | None:
        asked.append(size)
        return memoryview(own)[:size] if size <= len(own) else None

    payloads = [b"a" * (LARGE - 1), b"b" * LARGE, b"c" * (2 * LARGE + 1)]
    content = b"".join(bytes(part) for payload in payloads for part in frame_of(b"head", (payload,)))
    reader = FrameReader(cast(socket, Cut(content, [1000])), lambda _, payload: payload, room_for=room_for)
    found: list[Any] = []
    while not reader.is_at_end:
        found += reader.read()
    assert found == payloads
    assert asked == [LARGE, 2 * LARGE + 1]
    assert own[:LARGE] == payloads[1]


def test_a_connection_that_breaks_amid_a_payload_keeps_no_memory() -> None:
    """So a log may use it again, though somebody still refers to the reader."""
    own = bytearray(LARGE)
    content = b"".join(map(bytes, frame_of(b"head", (bytes(LARGE),))))[:-1]
    reader = FrameReader(
        cast(socket, Cut(content, [1000])), lambda _, payload: payload, room_for=lambda _: memoryview(own)
    )
    while not reader.is_at_end:
        assert list(reader.read()) == []
    own.clear()
