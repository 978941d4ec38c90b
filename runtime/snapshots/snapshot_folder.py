"""A folder of snapshots: blobs that any process can write and read, and a job's claim on the folder."""

import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidewheel.runtime.errors import ConfigError
from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots import heartbeat, protocol
from tidewheel.runtime.snapshots.entries import Manifest, Owner
from tidewheel.runtime.snapshots.errors import SnapshotDamaged, SnapshotError, SnapshotFolderInUse
from tidewheel.runtime.snapshots.log import Log
from tidewheel.runtime.snapshots.names import ENTRIES, PARTS
from tidewheel.runtime.snapshots.ownership import Ownership, damage
from tidewheel.runtime.snapshots.this_process import is_gone, this_process
from tidewheel.storage.checksum import crc32c
from tidewheel.storage.folder import open_folder
from tidewheel.storage.folder_calls import run
from tidewheel.storage.store_url import absolute

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_CLAIMS = 5

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot of a folder. ``damage`` says what is wrong with its blobs; empty if all exist with the right size."""

    manifest: Manifest
    damage: str


class SnapshotFolder:
    """A folder of this machine or of an object store with the snapshots of one job; picklable.

    Args:
        url: a path, ``file:///path``, ``s3://bucket/path``, ``gs://bucket/path`` or ``az://container/path``. The
            environment has credentials and endpoints: ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT`` and so on.

    Raises:
        SnapshotError: the URL has another scheme or a secret, or a setting in the environment is wrong. Methods raise
            SnapshotError if the folder cannot be read or written, or a newer version of tidewheel has written to it.
    """

    def __init__(self, url: str | os.PathLike[str], *, timeout_s: float = 30.0) -> None:
        self.url = absolute(url, "folder for snapshots", SnapshotError)
        self._timeout_s = timeout_s
        self._objects = open_folder(self.url, timeout_s, SnapshotError)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.url, self._timeout_s)

    def write(self, name: str, frames: Sequence["Buffer"]) -> Blob:
        """Write frames of bytes, one after the other, as one blob; return its description."""
        views = [view.cast("B") for frame in frames if (view := memoryview(frame)).nbytes]
        checksum = 0
        for view in views:
            checksum = crc32c(view, checksum)
        self._objects.write(name, views)
        return Blob(name, sum(view.nbytes for view in views), checksum)

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of a blob, after verifying their checksum.

        Raises:
            SnapshotDamaged: the blob is missing, or has other bytes.
        """
        data = self._objects.read(blob.name, blob.size)
        if data is None:
            problem = "it is missing"
        elif len(data) != blob.size:
            problem = f"it does not have the {blob.size} bytes that were written"
        elif (checksum := crc32c(data)) != blob.checksum:
            problem = f"its checksum is {checksum:08x}, and that of the written bytes {blob.checksum:08x}"
        else:
            return data
        raise SnapshotDamaged(f"{self.url}/{blob.name} is damaged: {problem}", blob.name, problem)

    def claim(self, job: str, *, keep: int = 3) -> Ownership:
        """Make a job the owner of the folder. This may take about 5 s, to find out whether a former owner is alive.

        Raises:
            SnapshotFolderInUse: another job that is alive owns the folder.
        """
        if keep < 1:
            raise ConfigError(f"keep={keep}: a folder keeps at least 1 snapshot")
        for _ in range(_MOST_CLAIMS):
            log = run(protocol.read_log(), self._objects)
            self._wait_for_former_owner(log)
            claimed = datetime.now(UTC).isoformat(timespec="seconds")
            owner = Owner(job, this_process(), claimed, log.incarnation + 1, secrets.token_hex(16))
            own = run(protocol.claim(log, owner), self._objects)
            if own is not None:
                harm = "two jobs could overwrite each other's snapshots"
                run(ENTRIES.check_store(log.next_number, self.url, harm, SnapshotError), self._objects)
                return Ownership(self.url, self._objects, own, owner, keep)
        raise SnapshotFolderInUse(
            f"{self.url} is not claimed: other jobs claimed it first, {_MOST_CLAIMS} times. "
            "Start one job a folder, and not several at the same time"
        )

    def stored_snapshots(self) -> list[StoredSnapshot]:
        """Return the snapshots, newest first, and warn of damaged entries. This needs no claim."""
        log = run(protocol.read_log(), self._objects)
        for entry in log.unreadable.values():
            _logger.warning("%s: a snapshot may be lost: %s", self.url, entry.problem)
        sizes = self._objects.sizes(PARTS)
        return [StoredSnapshot(manifest, damage(manifest, sizes)) for manifest in reversed(log.snapshots.values())]

    def _wait_for_former_owner(self, log: Log) -> None:
        owner = log.owner
        if owner is None or log.is_released or is_gone(owner.process):
            return
        who = protocol.describe(owner)
        if heartbeat.beats(self._objects, owner):
            raise SnapshotFolderInUse(
                f"{self.url} belongs to {who}, which is running. Stop that job, or use another folder for this one"
            )
        _logger.warning(
            "%s belonged to %s, whose heartbeat has not changed for %g s: this job takes it over",
            self.url,
            who,
            heartbeat.SILENCE_S,
        )


def _remade(url: str, timeout_s: float) -> SnapshotFolder:
    return SnapshotFolder(url, timeout_s=timeout_s)
