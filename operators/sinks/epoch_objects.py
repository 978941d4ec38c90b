"""The sink of write_files for an object store: the manifest of an epoch appears when its files are complete.

See `storage/epoch_manifests.py`. Invariants:

- Files have new names. They are removed only when their epoch has a manifest that does not list them. So the files of
  the run that commits an epoch first stay, even if an earlier run still writes.
- A manifest is put only if there is none, and replaced only if it is still the version that was read. So an epoch has
  one manifest, and readers see either the old version or the new one.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Self

from tidewheel.batches.batches import Batch
from tidewheel.operators.sinks.write_files import EpochFiles, WrittenEpoch, epoch_name
from tidewheel.progress import Time
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.storage.epoch_manifests import BEGUN, MANIFESTS, SUFFIX, EpochManifest, manifest_bytes, read_manifest
from tidewheel.storage.folder import open_store
from tidewheel.storage.stored_files import TIMEOUT_S

if TYPE_CHECKING:
    from tidewheel.storage.object_store import RemoteFolder


@dataclass(frozen=True)
class EpochObjects(EpochFiles[str]):
    """The epochs under one URL.

    Args:
        run: the id of the job, the same across restarts; empty for a job without snapshots.
    """

    run: str = ""

    def on_worker(self, context: OperatorContext) -> Self:
        """Return the sink for one worker."""
        made = replace(self, start=f"part-{context.worker:05d}", run=host_of(context).saving.run)
        return replace(made, older=made.made_older(context, made._of_others))

    def prepare(self, epoch: Time, records: list[Batch]) -> str:
        """Put batches as an object under a new name; return the name.

        Raises:
            FileExistsError: an older run has written the epoch, and it must not be overwritten.
        """
        of_run = f"-{self.run}" if self.run else ""
        name = f"{self.name(epoch)}/{self.start}{of_run}-{token_hex(8)}.{self.format.suffix}"
        file = io.BytesIO()
        self.format.write(file, records)
        self._store.write(name, [file.getbuffer()])
        return name

    def commit(self, epoch: Time, parts: Sequence[str]) -> None:
        """Make an epoch visible: put its manifest, unless this job has done so, and remove other files of the epoch.

        Raises:
            FileExistsError: another job has written the epoch, and it must not be overwritten.
        """
        store, name, manifest = self._store, self.name(epoch), EpochManifest(self.run, tuple(sorted(parts)))
        if not store.put_new(_manifest_name(name), manifest_bytes(manifest)):
            manifest = self._replaced(name, manifest)
        others = store.sizes(f"{name}/").keys() - set(manifest.files)
        if others:
            store.remove(sorted(others))

    def _replaced(self, name: str, manifest: EpochManifest) -> EpochManifest:
        """Return the existing manifest of an epoch; first replace it if it is another job's and that is allowed."""
        for _, (version, _) in self._store.versions(_manifest_name(name)):
            found = self._manifest(name)
            if found is not None and self._is_own(found, manifest):
                return found
            is_replaceable = self.overwrite and name in self.older
            if is_replaceable and self._store.replace_version(_manifest_name(name), manifest_bytes(manifest), version):
                return manifest
        raise self.refusal(name, ", if no other job writes there")

    def _is_own(self, found: EpochManifest, manifest: EpochManifest) -> bool:
        return found.files == manifest.files or (bool(self.run) and found.run == self.run)

    def last_committed(self) -> Time | None:
        """Return the last epoch that this job has written; None if there is none, or times are not integers."""
        self._store.put_new(BEGUN, b"")  # before any file, so that no reader takes the folder for one without epochs
        return super().last_committed()

    def name(self, epoch: Time) -> str:
        """Return the name of an epoch; raise FileExistsError if it is older and must not be overwritten."""
        name = epoch_name(epoch)
        if name in self.older and not self.overwrite and self._manifest(name) is not None:
            raise self.refusal(name)
        return name

    def written(self, time: Time, records: int) -> WrittenEpoch:
        """Return the description of a visible epoch."""
        found = self._manifest(epoch_name(time))
        files = 0 if found is None else len(found.files)
        return WrittenEpoch(time, f"{self.root}/{epoch_name(time)}", files, records)

    def existing(self) -> frozenset[str]:
        """Return the names of the visible epochs, of any job."""
        names = (name for name in self._store.sizes(MANIFESTS) if name.endswith(SUFFIX))
        return frozenset(name.removeprefix(MANIFESTS).removesuffix(SUFFIX) for name in names)

    def _of_others(self) -> frozenset[str]:
        """Return the names of the visible epochs that this job has not written."""
        existing = self.existing()
        if not self.run or not existing:
            return existing
        ours = {name.partition("/")[0] for name in self._store.sizes("") if f"-{self.run}-" in name}
        found = {name: self._manifest(name) for name in ours & existing}
        return existing - {name for name, manifest in found.items() if manifest and manifest.run == self.run}

    def _manifest(self, name: str) -> EpochManifest | None:
        data = self._store.read(_manifest_name(name))
        return None if data is None else read_manifest(f"{self.root}/{_manifest_name(name)}", data)

    @property
    def _store(self) -> "RemoteFolder":
        return open_store(self.root, TIMEOUT_S, OSError)


def _manifest_name(name: str) -> str:
    return f"{MANIFESTS}{name}{SUFFIX}"
