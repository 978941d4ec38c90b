"""The JSON of a log's entries."""

import json

import pytest

from tests.kit.messages import raises
from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.entries import (
    Deletion,
    Entry,
    Manifest,
    Owner,
    Process,
    Release,
    Unreadable,
    decode,
    encode,
)
from tidewheel.runtime.snapshots.errors import SnapshotError

ENTRIES: list[Entry] = [
    Owner("job", Process("host", "boot", "pid:[1]", 7, 8), "2026-01-01T00:00:00+00:00", 3, "7f"),
    Manifest(4, 3, "2026-01-01T00:00:00+00:00", (Blob("parts/a", 2, 9),), {"a": [1, {"b": None}]}, (2, 5), "7f"),
    Deletion((2,), "7f"),
    Release("7f"),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=["owner", "snapshot", "deletion", "released"])
def test_entries_are_json(entry: Entry) -> None:
    """They come back as they were; each says its kind and version."""
    data = encode(entry)
    assert decode("log/1", data) == entry
    assert json.loads(data)["version"] == 2
    assert json.loads(data)["type"] in {"owner", "snapshot", "deletion", "released"}


@pytest.mark.parametrize("entry", ENTRIES, ids=["owner", "snapshot", "deletion", "released"])
def test_what_a_newer_release_wrote_is_refused(entry: Entry) -> None:
    """Also if it has other fields, and kinds that are not known."""
    fields = json.loads(encode(entry)) | {"version": 3, "type": "other"}
    with raises(SnapshotError):
        decode("log/1", json.dumps(fields).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version":1,"type":"owner"}', b'{"version":1,"type":"other"}'])
def test_what_is_no_entry_is_unreadable(data: bytes) -> None:
    """The problem names the object."""
    found = decode("log/1", data)
    assert isinstance(found, Unreadable)
    assert found.problem.startswith("log/1 is damaged: ")


@pytest.mark.parametrize("entry", ENTRIES, ids=["owner", "snapshot", "deletion", "released"])
def test_an_entry_with_a_flipped_bit_is_never_another_entry(entry: Entry) -> None:
    """Whichever bit it is: also one in a number, or in the name of a member."""
    data = encode(entry)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert isinstance(decode("log/1", bytes(flipped)), Unreadable), bytes(flipped)
        except SnapshotError as error:
            assert "has format" in str(error)  # noqa: PT017 - a flipped version is that of a newer release
