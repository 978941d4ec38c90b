"""The table of the snapshots in a folder, and the description of one."""

from datetime import UTC, datetime, timedelta

import pytest

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.entries import Manifest
from tidewheel.runtime.snapshots.listing import description, table
from tidewheel.runtime.snapshots.names import blob_name
from tidewheel.runtime.snapshots.snapshot_folder import StoredSnapshot

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def _stored(age_s: float, damage: str = "") -> StoredSnapshot:
    created = (NOW - timedelta(seconds=age_s)).isoformat(timespec="milliseconds")
    blobs = (Blob(blob_name(1, 6, "w0"), 2_500_000, 7), Blob(blob_name(2, 9, "w0"), 1_500, 255))
    return StoredSnapshot(Manifest(9, 2, created, blobs, {"workers": 2, "name": "flow"}, (), "7f"), damage)


@pytest.mark.parametrize(
    ("age_s", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (7300, "2 h"), (200_000, "2 d")]
)
def test_a_row_has_number_age_size_workers_and_state(age_s: float, text: str) -> None:
    """Each in a unit that suits it."""
    head, row = table([_stored(age_s)], NOW)
    assert dict(zip(head, row, strict=True)) == {
        "SNAPSHOT": "9",
        "AGE": text,
        "SIZE": "2.5 MB",
        "WORKERS": "2",
        "STATE": "intact",
    }


def test_damage_stands_in_the_table() -> None:
    """With its reason."""
    assert table([_stored(1, "parts/x is missing")], NOW)[1][-1] == "damaged: parts/x is missing"


def test_a_description_tells_what_was_written_for_the_snapshot() -> None:
    """A snapshot needs blobs of earlier ones, too."""
    lines = list(description(_stored(61), NOW))
    assert "size: 2.5 MB in 2 blobs" in lines
    assert "written for it: 1.5 kB in 1 blobs" in lines
    assert "  parts/000002-0000000009-w0  1500 bytes  crc32c 000000ff" in lines
    assert lines[-1] == '{\n  "workers": 2,\n  "name": "flow"\n}'
