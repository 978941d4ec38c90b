"""The snapshots of a folder as text, for the command ``tidewheel snapshots``."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidewheel.display.figures import age_text, size_text
from tidewheel.runtime.snapshots.names import blob_writing
from tidewheel.runtime.snapshots.snapshot_folder import StoredSnapshot


def table(stored: Sequence[StoredSnapshot], now: datetime) -> list[tuple[str, ...]]:
    head = ("SNAPSHOT", "AGE", "SIZE", "WORKERS", "STATE")
    return [head, *(_row(snapshot, now) for snapshot in stored)]


def _row(snapshot: StoredSnapshot, now: datetime) -> tuple[str, ...]:
    manifest = snapshot.manifest
    size = sum(blob.size for blob in manifest.blobs)
    state = f"damaged: {snapshot.damage}" if snapshot.damage else "intact"
    return (str(manifest.number), _age(manifest.created, now), size_text(size), _workers(snapshot), state)


def description(snapshot: StoredSnapshot, now: datetime) -> Iterator[str]:
    manifest = snapshot.manifest
    of_its_own = [blob for blob in manifest.blobs if _was_written_for(blob.name, manifest.number)]
    yield f"snapshot {manifest.number}, {snapshot.damage or 'intact'}"
    yield f"created: {manifest.created}, {_age(manifest.created, now)} ago, in incarnation {manifest.incarnation}"
    yield f"workers: {_workers(snapshot)}"
    yield f"size: {size_text(sum(blob.size for blob in manifest.blobs))} in {len(manifest.blobs)} blobs"
    yield f"written for it: {size_text(sum(blob.size for blob in of_its_own))} in {len(of_its_own)} blobs"
    for blob in manifest.blobs:
        yield f"  {blob.name}  {blob.size} bytes  crc32c {blob.checksum:08x}"
    yield msgspec.json.format(msgspec.json.encode(manifest.body), indent=2).decode()


def _was_written_for(name: str, number: int) -> bool:
    writing = blob_writing(name)
    return writing is not None and writing.snapshot == number


def _workers(snapshot: StoredSnapshot) -> str:
    return str(snapshot.manifest.body.get("workers", "?"))


def _age(created: str, now: datetime) -> str:
    return age_text(max(0.0, (now - datetime.fromisoformat(created)).total_seconds()))
