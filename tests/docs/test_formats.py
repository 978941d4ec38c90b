"""The page of formats says what the code does."""

import re
from typing import get_args, get_type_hints

from tests.packaging.repository import ROOT
from tidewheel.operators.sinks import recording
from tidewheel.runtime.description import stable_hash
from tidewheel.runtime.snapshots import entries
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import WriterIdentity
from tidewheel.storage import epoch_manifests, log_records

PAGE = ROOT / "docs" / "formats.md"
VERSIONS = {
    "storage/log_records.py": log_records.FORMAT_VERSION,
    "storage/epoch_manifests.py": epoch_manifests.FORMAT_VERSION,
    "runtime/snapshots/entries.py": entries.FORMAT_VERSION,
    "spark_bridge/structured_streaming/epoch_checkpoint.py": get_args(get_type_hints(WriterIdentity)["version"])[0],
}


def _rows() -> dict[str, str]:
    """Return the version of each format on disk that has one of its own, by the file that defines it."""
    found = re.findall(r"^\|[^|]*\| (\d+) \| `([^`]*)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {file: version for version, file in found}


def test_versions_are_those_of_the_code() -> None:
    """Whoever raises a version has to look at the page."""
    assert _rows() == {file: str(version) for file, version in VERSIONS.items()}
    text = PAGE.read_text(encoding="utf-8")
    assert f"have recording version {recording.RECORDING_VERSION}." in " ".join(text.split())
    assert f"Its version, {stable_hash.HASH_VERSION}," in text


def test_the_page_of_snapshots_has_the_same_versions() -> None:
    """It says which releases read them."""
    page = (ROOT / "docs" / "how-to" / "snapshots.md").read_text(encoding="utf-8")
    found = re.findall(
        r"^\| (a folder of snapshots|the log of a topic|a recording of `capture_to`) \| (\d+) \|", page, re.MULTILINE
    )
    assert [int(version) for _, version in found] == [
        entries.FORMAT_VERSION,
        log_records.FORMAT_VERSION,
        recording.RECORDING_VERSION,
    ]
