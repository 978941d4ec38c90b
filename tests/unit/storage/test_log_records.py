"""The bytes of headers and records."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.log.faulty_files import IDENTITY
from tidewheel.pubsub.log.errors import LogCorrupted, LogMismatch
from tidewheel.pubsub.log.headers import SegmentHeader, decode_header, header_bytes
from tidewheel.storage.checksum import crc32c
from tidewheel.storage.files import Part
from tidewheel.storage.log_records import (
    FORMAT_VERSION,
    HEAD_BYTES,
    PREFIX_BYTES,
    Entry,
    RecordHead,
    decode_head,
    encode_header,
    encode_record,
    payload_matches,
)

PATH = Path("1.segment")
HEADER = SegmentHeader(IDENTITY, 7, 41, 1000, 12.5, b"snapshot")


def encoded(entry: Entry, offset: int = 100, salt: int = 5, durable: int = 60) -> bytes:
    parts: list[Part] = []
    size = encode_record(entry, offset, salt, durable, parts)
    data = b"".join(parts)
    assert len(data) == size
    return data


@given(st.integers(0, (1 << 63) - 1), st.integers(0, 255), st.lists(st.binary(max_size=9)), st.integers(0, 1 << 40))
def test_a_record_says_what_was_put_into_it(tick: int, kind: int, parts: list[bytes], offset: int) -> None:
    """At its own place, and nowhere else."""
    data = encoded(Entry(tick, kind, tuple(parts)), offset)
    payload = b"".join(parts)
    head = decode_head(b"??" + data, 2, offset, 5)
    assert head is not None
    assert head == RecordHead(len(payload), crc32c(payload), tick, 60, kind)
    assert head.size == len(data)
    assert payload_matches(head, data[HEAD_BYTES:])
    assert decode_head(data, 0, offset + 1, 5) is None
    assert decode_head(data, 0, offset, 6) is None


def test_every_flipped_bit_of_a_record_is_noticed() -> None:
    """Of its head by the head's checksum, which includes the payload's; of its payload by that."""
    data = encoded(Entry(3, 1, (b"payload",)))
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        head = decode_head(bytes(flipped), 0, 100, 5)
        if bit < 8 * HEAD_BYTES:
            assert head is None
        else:
            assert head is not None
            assert not payload_matches(head, bytes(flipped[HEAD_BYTES:]))


def test_a_record_that_is_cut_short_is_none() -> None:
    """Its head, or its payload."""
    data = encoded(Entry(3, 1, (b"payload",)))
    head = decode_head(data, 0, 100, 5)
    assert head is not None
    for size in range(HEAD_BYTES):
        assert decode_head(data[:size], 0, 100, 5) is None
    for size in range(HEAD_BYTES, len(data)):
        assert not payload_matches(head, data[HEAD_BYTES:size])


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=3))
def test_a_checksum_that_is_known_is_gone_on_from(parts: list[bytes]) -> None:
    """The record is the same."""
    known = crc32c(next((part for part in parts if part), b""))
    assert encoded(Entry(5, 1, tuple(parts), known)) == encoded(Entry(5, 1, tuple(parts)))


def test_parts_are_not_copied() -> None:
    """What is written is what was handed in, but for views of numbers, which become views of bytes."""
    part = b"x" * 1000
    parts: list[Part] = []
    encode_record(Entry(0, 0, (part,)), 0, 0, 0, parts)
    assert parts[1] is part


def test_a_header_says_what_was_put_into_it() -> None:
    """And how long it is, from its first bytes."""
    data = encode_header(HEADER)
    assert header_bytes(data[:PREFIX_BYTES], PATH) == len(data)
    assert decode_header(data, PATH, SegmentHeader) == HEADER


def test_every_flipped_bit_of_a_header_is_noticed() -> None:
    """Also of its version, which is not taken for another one."""
    data = encode_header(HEADER)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LogCorrupted):
            decode_header(bytes(flipped)[: header_bytes(bytes(flipped[:PREFIX_BYTES]), PATH)], PATH, SegmentHeader)


def test_a_header_of_another_version_is_not_read() -> None:
    """Whatever it may say; that it is whole can be told, as the first bytes mean the same in all versions."""
    start = struct.pack("<8sHI", b"tidewlog", FORMAT_VERSION + 1, 3)
    data = start + struct.pack("<I", crc32c(start + b"new")) + b"new"
    assert header_bytes(data, PATH) == len(data)
    with pytest.raises(LogMismatch, match=f"format {FORMAT_VERSION + 1}, and this is a reader of format"):
        decode_header(data, PATH, SegmentHeader)
