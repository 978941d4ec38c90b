"""A job's ownership of a folder: it commits snapshots, finds the latest intact one, and removes old ones."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Self

from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots import protocol
from tidewheel.runtime.snapshots.entries import Deletion, Entry, Manifest, Owner, Release
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotDamaged, SnapshotError
from tidewheel.runtime.snapshots.heartbeat import Heartbeat
from tidewheel.runtime.snapshots.log import Log
from tidewheel.runtime.snapshots.names import ENTRIES, PARTS
from tidewheel.storage.folder import Folder
from tidewheel.storage.folder_calls import run

_logger = logging.getLogger(__name__)


class Ownership:
    """One job's claim on a folder, from `SnapshotFolder.claim` until `release`; thread-safe.

    After a `FencedError` another job owns the folder, and this job can only call `release`. Calls raise SnapshotError
    if the folder cannot be read or written.
    """

    def __init__(self, url: str, objects: Folder, log: Log, owner: Owner, keep: int) -> None:
        self._url = url
        self._objects = objects
        self._log = log
        self._owner = owner
        self._keep = keep
        self._damaged: set[int] = set()
        self._problems: dict[str, str] = {}
        """The faults that readers have found in blobs, by the name of the blob."""
        self._lock = threading.Lock()
        self._heartbeat = Heartbeat(objects, owner)
        self._is_abandoned = False
        self._is_emptied = False

    @property
    def incarnation(self) -> int:
        return self._owner.incarnation

    @property
    def identity(self) -> str:
        """Digits in the names of this owner's files.

        No other owner has the same, even one with the same incarnation.
        """
        return self._owner.identity[:8]

    @property
    def first_identity(self) -> str:
        """Digits that all owners share from the first claim of an empty folder until it has a snapshot."""
        return self._log.first_owner.identity[:8] if self._log.first_owner is not None else self.identity

    @property
    def next_snapshot(self) -> int:
        """The number for this owner's first snapshot, greater than those of all earlier snapshots."""
        return self._log.next_snapshot

    def commit(self, number: int, blobs: Iterable[Blob], body: dict[str, Any]) -> Manifest:
        """Make a snapshot the newest of the folder. Readers no longer see older snapshots beyond ``keep``.

        After an error other than `SnapshotDamaged` the snapshot may be committed nevertheless; the next commit finds
        out. Committing the same number again returns the existing manifest.

        Args:
            number: greater than those of all earlier snapshots in the folder.
            blobs: all blobs that the snapshot needs: its own, those of earlier living snapshots, or those of this
                owner's last failed attempt.
            body: JSON values that a restored job will need.

        Raises:
            FencedError: another job has claimed the folder.
            SnapshotError: the folder cannot be written, the number is too low, or a blob of an earlier snapshot is
                gone.
        """
        needed, created = tuple(blobs), datetime.now(UTC).isoformat(timespec="milliseconds")

        def manifest(log: Log) -> Manifest | None:
            if self._committed(log, number) is not None:
                return None
            if number < log.next_snapshot:
                raise SnapshotError(
                    f"snapshot {number} is not committed: {self._url} has had snapshot {log.next_snapshot - 1}. "
                    f"Use number {log.next_snapshot} or a higher one"
                )
            protocol.check_blobs(number, needed, self._log, log, self._owner)
            kept = log.kept_beside_a_new_one(self._keep, self._damaged)
            return Manifest(number, self.incarnation, created, needed, body, kept, self._owner.identity)

        self._append(manifest)
        self._is_emptied = False
        found = self._committed(self._log, number)
        assert found is not None
        return found

    def snapshots(self) -> list[Manifest]:
        """Return the snapshots, newest first."""
        return list(reversed(self._log.snapshots.values()))

    def latest_intact(self) -> Manifest | None:
        """Return the newest snapshot of which all blobs exist with the right size; None if there is no snapshot.

        Damaged snapshots are skipped with a warning. Checksums are verified by the reader of a blob; see
        `found_damaged`.

        Raises:
            SnapshotDamaged: there are snapshots, or damaged entries that may have been snapshots, but none is intact.
        """
        sizes, snapshots = self._objects.sizes(PARTS), self._log.snapshots
        reasons: list[str] = []
        for number in sorted({*snapshots, *self._log.unreadable}, reverse=True):
            reason = self._damage_at(number, sizes)
            if not reason:
                manifest = snapshots[number]
                for one in reasons:
                    _logger.warning("%s: snapshot %d is used, because %s", self._url, manifest.number, one)
                return manifest
            reasons.append(reason)
        if reasons:
            raise SnapshotDamaged(
                f"{self._url} has no intact snapshot: {'; '.join(reasons)}. Restore the objects from a copy. "
                "To begin without state, use another folder"
            )
        return None

    def _damage_at(self, number: int, sizes: Mapping[str, int]) -> str:
        unreadable = self._log.unreadable.get(number)
        if unreadable is not None:
            return f"a newer one may be lost: {unreadable.problem}"
        manifest = self._log.snapshots[number]
        found = (f"{blob.name}: {self._problems[blob.name]}" for blob in manifest.blobs if blob.name in self._problems)
        problem = damage(manifest, sizes) or next(found, "")
        if not problem:
            return ""
        self._damaged.add(number)
        return f"snapshot {manifest.number} is damaged: {problem}"

    def found_damaged(self, damaged: SnapshotDamaged) -> None:
        """Record a damaged blob, so that `latest_intact` skips snapshots that need it."""
        self._problems[damaged.blob] = damaged.problem

    def prune(self) -> None:
        """Remove the objects of former snapshots and of crashed owners.

        Call this at any time: objects of a snapshot that is being written stay.
        """
        run(protocol.remove_old(self._log, self._owner), self._objects)

    def delete(self, number: int) -> None:
        """Delete a snapshot, and the blobs that only it needs.

        When no snapshot is left, `release` removes the rest of the folder.

        Raises:
            FencedError: another job has claimed the folder.
            SnapshotError: there is no such snapshot.
        """
        if number not in {manifest.number for manifest in self._log.snapshots.values()}:
            raise SnapshotError(f"{self._url} has no snapshot {number}: 'tidewheel snapshots {self._url}' lists them")

        def deletion(log: Log) -> Deletion | None:
            kept = tuple(entry for entry, manifest in log.snapshots.items() if manifest.number != number)
            return Deletion(kept, self._owner.identity) if len(kept) < len(log.snapshots) else None

        self._append(deletion)
        self.prune()
        self._is_emptied = not self._log.snapshots and not self._log.unreadable

    def abandon(self) -> None:
        """End the ownership of a removed folder, and remove the objects that this owner has put there since."""
        self._is_abandoned = True
        self._heartbeat.stop()
        try:
            log = run(protocol.read_log(), self._objects)
            own = [ENTRIES.name(number) for number in log.entries_of(self._owner)]
            own += [name for name in self._objects.sizes(PARTS) if name.endswith(self.identity)]
            self._objects.remove(own)
        except SnapshotError as error:
            _logger.warning("%s: what was written since it was removed stays: %s", self._url, error)
        self._heartbeat.remove()

    def release(self) -> None:
        """End the ownership, so that the next job need not wait. No effect if another job has claimed the folder.

        Raises:
            SnapshotError: the folder cannot be written. The next job then waits for signs of the heartbeat, which has
                ended.
        """
        if self._is_abandoned:
            return
        self._heartbeat.stop()
        try:
            if self._is_emptied:
                run(protocol.remove_all(self._owner), self._objects)
                self._objects.remove_empty_folders()
            else:
                self._append(lambda log: None if log.is_released else Release(self._owner.identity))
                self._heartbeat.remove()
        except FencedError as error:
            _logger.warning("%s: %s", self._url, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _append(self, entry: Callable[[Log], Entry | None]) -> None:
        with self._lock:
            self._log = run(protocol.append(self._log, self._owner, entry), self._objects)

    def _committed(self, log: Log, number: int) -> Manifest | None:
        own = (entry for entry in log.entries.values() if isinstance(entry, Manifest))
        return next((entry for entry in own if entry.number == number and entry.identity == self._owner.identity), None)


def damage(manifest: Manifest, sizes: Mapping[str, int]) -> str:
    """Return in words what is damaged in a snapshot, given the sizes of the existing blobs; empty if it is intact."""
    for blob in manifest.blobs:
        if blob.name not in sizes:
            return f"{blob.name} is missing"
        if sizes[blob.name] != blob.size:
            return f"{blob.name} has {sizes[blob.name]} bytes, and {blob.size} were written"
    return ""
