"""Batches and messages as bytes: what was published comes out the same, from wherever its bytes lie."""

import pickle
import struct
import sys
import threading
from enum import IntEnum
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.classes.main_programs import program, runs
from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.knowledge import ContradictionError, KnowledgeStream
from tidewheel.pubsub.messages import encoded_message
from tidewheel.pubsub.messages.encoded_message import (
    EncodedMessage,
    Place,
    check_size,
    decode,
    decode_batch,
    encode,
    encode_batch,
    place_of,
)
from tidewheel.pubsub.messages.wire import DataMessage, LowerFrontierUpdate, Message, PartitionEnded, WentBack
from tidewheel.transport.frames import LARGE

KINDS = [bytes, bytearray, memoryview, pa.py_buffer]
SIZES = st.integers(0, 300) | st.integers(LARGE - 2, LARGE + 2)
TIMES = st.one_of(st.integers(), st.tuples(st.integers(0, 9), st.integers(0, 9)), st.text(max_size=9), st.none())
EVENTS = st.one_of(
    st.builds(
        DataMessage,
        TIMES,
        SIZES.map(lambda size: b"x" * size),
        st.sampled_from(["arrow", "pickle", "ends"]),
        st.integers(0, 2**40),
    ),
    st.builds(LowerFrontierUpdate, st.lists(st.tuples(TIMES, st.sampled_from([-1, 1])), max_size=3)),
    st.just(PartitionEnded()),
)


def bytes_of(message: EncodedMessage) -> bytes:
    return b"".join(message.parts)


@law_settings(200)
@given(EVENTS, st.integers(0, 9), st.sampled_from(KINDS))
def test_events_come_out_as_they_went_in(event: Message, number: int, kind: Any) -> None:
    """At once, and from the bytes that a log holds; the place of a batch as well, and nothing else has one."""
    encoded = encode(event, number)
    again = EncodedMessage.of(kind(bytes_of(encoded)))
    place = Place(event.time, number) if isinstance(event, DataMessage) else None
    for message in (encoded, again):
        assert decode(message) == event
        assert place_of(message) == place
        assert message.size_bytes == len(bytes_of(message)) == sum(map(len, message.parts))
    assert again == encoded
    assert hash(again) == hash(encoded)


@given(EVENTS, EVENTS, st.integers(0, 1), st.integers(0, 1))
def test_equal_is_what_has_the_same_bytes(one: Message, other: Message, number: int, other_number: int) -> None:
    """And nothing else."""
    first, second = encode(one, number), encode(other, other_number)
    assert (first == second) == (bytes_of(first) == bytes_of(second))


@pytest.mark.parametrize("size", [1, 100, LARGE, 2 * encoded_message._COMPARED_BYTES + 7])
@pytest.mark.parametrize("kind", KINDS, ids=["bytes", "bytearray", "memoryview", "Arrow"])
def test_one_byte_that_differs_is_seen(kind: Any, size: int) -> None:
    """The first, the last, or one in the middle, wherever the payload lies."""
    content = bytes(range(251)) * (size // 251 + 1)
    message = encode(DataMessage(0, content[:size], "pickle", 1))
    for at in (0, size // 2, size - 1):
        changed = bytearray(content[:size])
        assert EncodedMessage(message.head, kind(changed)) == message
        changed[at] ^= 1
        assert EncodedMessage(message.head, kind(changed)) != message
    assert message != content


def test_a_large_payload_is_not_copied() -> None:
    """On its way into the log it is the very object, and from there it is a slice of what was read."""
    payload = b"x" * LARGE
    message = encode(DataMessage(0, payload, "pickle", 1))
    assert message.parts[0] is payload
    content = bytes_of(message)
    again = EncodedMessage.of(content)
    assert isinstance(again.payload, memoryview)
    assert again.payload.obj is content
    assert cast(DataMessage, decode(again)).payload is again.payload


def test_a_small_payload_keeps_nothing_else_alive() -> None:
    """It is a copy: what it was read with may be a thousand times as large."""
    content = bytearray(bytes_of(encode(DataMessage(0, b"x" * (LARGE - 1), "pickle", 1))))
    references = sys.getrefcount(content)
    message = EncodedMessage.of(content)
    assert sys.getrefcount(content) == references
    assert type(message.payload) is bytes


@pytest.mark.parametrize("batch", [[1, 2, 3], pa.table({"n": [1, 2, 3]})], ids=["pickle", "Arrow"])
def test_batches_come_out_as_they_went_in(batch: Any) -> None:
    """As a subscriber decodes them, which has read them from a log."""
    message = encode(encode_batch(5, batch))
    event = decode(EncodedMessage.of(bytes_of(message)))
    assert isinstance(event, DataMessage)
    assert decode_batch(event) == batch


@pytest.mark.parametrize("kind", KINDS, ids=["bytes", "bytearray", "memoryview", "Arrow"])
def test_messages_can_be_pickled(kind: Any) -> None:
    """Wherever the payload lies."""
    message = EncodedMessage(b"head", kind(b"payload" * LARGE))
    assert pickle.loads(pickle.dumps(message, 5)) == message


@pytest.mark.parametrize(
    "content",
    [b"", b"\x01\0\0", struct.pack("<I", 1), b"x" * 40 + struct.pack("<I", 2**32 - 1)],
    ids=["nothing", "no length", "no head", "a short head"],
)
def test_what_is_too_short_is_no_message(content: bytes) -> None:
    """It is refused before anything is looked at."""
    with pytest.raises(ProtocolError, match=rf"^{len(content)} bytes are no message"):
        EncodedMessage.of(content)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"garbage", "cannot be decoded"),
        (b"\x80garbage", "cannot be unpickled"),
        (pickle.dumps(7), "the head is of no message but 7"),
        (msgspec.msgpack.encode([[7]]), r"the head is of no message but \[\[7\]\]"),
        (msgspec.msgpack.encode([1, "zip", 3]), "no message"),
        (msgspec.msgpack.encode(msgspec.msgpack.Ext(9, b"")), "an extension of type 9"),
        (pickle.dumps((1, "pickle", 3)), "no message"),
        (msgspec.msgpack.encode([1, "zip", 3, 0]), "no message"),
        (msgspec.msgpack.encode([1, "pickle", "3", 0]), "no message"),
        (pickle.dumps((1, "zip", "3", 0)), "no message"),
        (pickle.dumps((1,)), "no message"),
    ],
    ids=[
        "garbage",
        "no pickle",
        "a number",
        "no pairs",
        "three fields",
        "an extension",
        "three",
        "an encoding",
        "no count",
        "a text",
        "no list",
    ],
)
def test_what_is_no_head_is_named(head: bytes, text: str) -> None:
    """By who decodes it; whoever passes it on need not know."""
    message = EncodedMessage(head, b"")
    assert EncodedMessage.of(bytes_of(message)) == message
    with pytest.raises(ProtocolError, match=text):
        decode(message)
    with pytest.raises(ProtocolError, match=text):
        place_of(message)


class Turn(NamedTuple):
    """A time that is a tuple, and something else as well."""

    number: int


class Phase(IntEnum):
    """A time that is an integer, and something else as well."""

    FIRST = 1


def types_in(time: Any) -> Any:
    """Return the type of a time, or those of its parts."""
    return list(map(types_in, time)) if type(time) is tuple else type(time)


@pytest.mark.parametrize(
    "time", [0, -1, 2**63, -(2**63) - 1, 2**200, True, 1.0, "t", (), ((1, (2,)), Turn(3)), Phase.FIRST, np.int64(4)]
)
def test_times_keep_their_types(time: Any) -> None:
    """Of a subclass of int or tuple too: other operators of its domain may look at it."""
    came = decode(encode(DataMessage(time, b"", "pickle", 1)))
    moved = decode(encode(LowerFrontierUpdate([(time, 1)])))
    assert isinstance(came, DataMessage)
    assert isinstance(moved, LowerFrontierUpdate)
    for found in (came.time, moved.updates[0][0]):
        assert (found, types_in(found)) == (time, types_in(time))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((3, 1), "pickle", 7, 2), DataMessage((3, 1), b"x", "pickle", 7)),
        (([((0, 0), -1), ((3, 1), 1)],), LowerFrontierUpdate([((0, 0), -1), ((3, 1), 1)])),
        ((), PartitionEnded()),
        ((WentBack(1, 5, [3]),), WentBack(1, 5, [3])),
    ],
    ids=["a batch", "a move", "the end", "a return"],
)
def test_the_heads_of_earlier_releases_are_read(fields: Any, message: Message) -> None:
    """A log keeps them."""
    logged = EncodedMessage(pickle.dumps(fields, 5), b"x" if isinstance(message, DataMessage) else b"")
    assert decode(logged) == message
    assert place_of(logged) == (Place((3, 1), 2) if isinstance(message, DataMessage) else None)


def test_a_head_is_written_once() -> None:
    """Whoever passes a message on passes on the bytes that came; a new number is a new head."""
    for event in (DataMessage((3, 1), b"x", "pickle", 7), LowerFrontierUpdate([(0, -1), (1, 1)])):
        message = encode(event, 4)
        assert encode(decode(message)).head is message.head
    assert place_of(encode(decode(encode(DataMessage(0, b"x", "pickle", 7), 4)), 5)) == Place(0, 5)


class Endless(bytes):
    """What has a length that no message may have."""

    def __len__(self) -> int:
        return encoded_message.MOST_BYTES


@pytest.mark.parametrize(
    "event",
    [
        DataMessage(0, Endless(), "pickle", 1),
        DataMessage("t" * encoded_message.MOST_HEAD_BYTES, b"", "pickle", 1),
        LowerFrontierUpdate([("t" * encoded_message.MOST_HEAD_BYTES, 1)]),
    ],
    ids=["a batch", "a time", "a frontier"],
)
def test_what_is_too_large_is_not_published(event: Message) -> None:
    """The error says so, and what to do."""
    with raises(DeliveryError):
        check_size(encode(event))


def test_a_contradiction_does_not_print_what_it_is_about() -> None:
    """Two different messages of many bytes on one tick: the error is short."""
    stream = KnowledgeStream[EncodedMessage]()
    stream.accumulate_data(5, encode(DataMessage(0, b"a" * LARGE, "pickle", 1)))
    with raises(ContradictionError) as caught:
        stream.accumulate_data(5, encode(DataMessage(0, b"b" * LARGE, "pickle", 1)))
    assert len(str(caught.value)) < 300


TABLE = pa.table({"word": ["a", "b", "c"], "count": [1, 2, 3]})


@pytest.mark.parametrize("batch", [[], [1, "two", (3.0, None)], [{"a": {1}}]])
def test_lists_come_back_equal(batch: list[Any]) -> None:
    """A list of anything picklable survives, with its number of records."""
    encoded = encode_batch(7, batch)
    assert (encoded.encoding, encoded.records) == ("pickle", len(batch))
    assert decode_batch(encoded) == batch


def test_numpy_comes_back_as_numpy() -> None:
    """An array survives with its type; its first axis counts records."""
    batch = np.arange(6, dtype=np.int32).reshape(3, 2)
    encoded = encode_batch(7, batch)
    assert encoded.records == 3
    assert decode_batch(encoded).dtype == np.int32
    np.testing.assert_array_equal(decode_batch(encoded), batch)


@pytest.mark.parametrize("batch", [TABLE, TABLE.to_batches()[0], TABLE.slice(1, 2)])
def test_arrow_comes_back_as_a_table(batch: Any) -> None:
    """Tables, record batches and slices travel as Arrow, not as a pickle, and come back as tables."""
    encoded = encode_batch(7, batch)
    assert (encoded.encoding, encoded.records) == ("arrow", batch.num_rows)
    assert decode_batch(encoded).to_pylist() == batch.to_pylist()
    assert isinstance(decode_batch(encoded), pa.Table)


def test_a_slice_does_not_carry_the_whole_table() -> None:
    """What is sent of a slice is the slice."""
    large = pa.table({"x": list(range(100_000))})
    assert len(encode_batch(7, large.slice(5, 10)).payload) < 10_000


def test_classes_of_a_script_travel_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a class that the subscriber cannot import are decoded all the same."""

    class Local:
        value = 7

    Local.__module__, Local.__qualname__ = "__main__", "Local"
    with monkeypatch.context() as script:
        script.setattr(sys.modules["__main__"], "Local", Local, raising=False)
        encoded = encode_batch(7, [Local()])
    [copy] = decode_batch(encoded)
    assert copy.value == 7


def test_records_of_a_class_that_the_program_has_defined_again_are_refused() -> None:
    """The error says so, and does not ask for a module that could be imported."""
    with runs(program("@dataclass\nclass Reading:\n    at: int\n")) as publishing:
        encoded = encode_batch(7, [publishing.Reading(1)])
    with (
        runs(program("@dataclass\nclass Reading:\n    celsius: float\n")),
        raises(DeliveryError) as raised,
    ):
        decode_batch(encoded)
    assert "importable" not in str(raised.value)


def test_what_cannot_be_pickled_is_refused_with_the_reason() -> None:
    """A batch with a lock in it raises DeliveryError, which says what to do."""
    with raises(DeliveryError):
        encode_batch(7, [threading.Lock()])


@pytest.mark.parametrize("batch", [7, np.array(7), None])
def test_what_is_no_batch_is_refused(batch: object) -> None:
    """Something without records raises DeliveryError."""
    with raises(DeliveryError):
        encode_batch(7, batch)


@pytest.mark.parametrize("encoding", ["pickle", "arrow"])
def test_bytes_that_do_not_decode_are_an_error(encoding: Any) -> None:
    """Broken bytes raise DeliveryError, whatever the decoder made of them."""
    with raises(DeliveryError):
        decode_batch(DataMessage(7, b"not a batch", encoding, 1))


@pytest.mark.parametrize("where", [bytes, memoryview, pa.py_buffer], ids=["bytes", "memoryview", "Arrow"])
def test_an_encoded_batch_can_be_sent_on(where: Any) -> None:
    """Wherever its bytes lie: what a subscriber was given may go on to another process."""
    encoded = encode_batch(7, [1, 2, 3])
    received = DataMessage(7, where(encoded.payload), encoded.encoding, encoded.records)
    assert decode_batch(pickle.loads(pickle.dumps(received))) == [1, 2, 3]
