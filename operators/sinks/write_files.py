"""The two operators of write_files: one writes each worker's part of an epoch, the other makes the whole epoch visible.

The first sends word of its files when its share of the epoch is on disk, and so holds the epoch open until then. The
second, on worker 0, has that word from all workers when the epoch is complete at its input.

An epoch is written to a folder such as ".tmp-epoch=7", and renamed to "epoch=7" once when it is complete. An older one
of the same epoch is moved away for that, to ".old-epoch=7", and comes back if it goes no further. What has other names
is not touched.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidewheel.operators.epochs.gathered_epochs import Process
from tidewheel.operators.sinks.file_formats import write_file
from tidewheel.progress import Time
from tidewheel.pubsub.log.files import FILES
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule, TimestampToken
from tidewheel.transport.batches import Batch, length, size_in_bytes
from tidewheel.transport.held_bytes import RecordSizes

_EPOCH = "epoch="
_UNFINISHED = ".tmp-"
_REPLACED = ".old-"


@dataclass(frozen=True, slots=True)
class WrittenEpoch:
    """An epoch that is there to be read.

    Attributes:
        time: its time.
        path: its folder.
        files: how many files are in it.
        records: how many records they have.
    """

    time: Time
    path: str
    files: int
    records: int


@dataclass(frozen=True, slots=True)
class EpochFolders:
    """The folders in one folder, of which at most one job at a time writes.

    Args:
        root: the folder that they are in.
        overwrite: whether an epoch takes the place of an older one.
    """

    root: Path
    overwrite: bool

    def recover(self) -> None:
        """Make the folder, and clean up what runs that failed have left there."""
        self.root.mkdir(parents=True, exist_ok=True)
        for replaced in self._folders(_REPLACED):
            final = self.root / replaced.name.removeprefix(_REPLACED)
            if final.exists():
                shutil.rmtree(replaced)
            else:
                replaced.rename(final)
        for unfinished in self._folders(_UNFINISHED):
            shutil.rmtree(unfinished)

    def begin(self, time: Time) -> Path:
        """Return the folder to which an epoch is written; more than one worker may begin it.

        Raises:
            FileExistsError: there is an older one, which is not to be overwritten.
        """
        unfinished = _unfinished(self._final(time))
        unfinished.mkdir(exist_ok=True)
        return unfinished

    def commit(self, time: Time) -> Path:
        """Have an epoch seen under its name, which is returned; it survives a power failure from then on.

        Raises:
            FileNotFoundError: the folder that was written is gone, as another run has cleaned up.
            FileExistsError: there is an older one, which is not to be overwritten.
        """
        final = self._final(time)
        unfinished = _unfinished(final)
        FILES.sync_directory(unfinished)
        replaced = final.with_name(f"{_REPLACED}{final.name}")
        if final.exists():
            final.rename(replaced)
        unfinished.rename(final)
        FILES.sync_directory(self.root)
        if replaced.exists():
            shutil.rmtree(replaced)
        return final

    def _folders(self, prefix: str) -> list[Path]:
        """Return the folders that runs before have left under such names; files and other folders are not ours."""
        return [path for path in self.root.glob(f"{prefix}{_EPOCH}*") if path.is_dir()]

    def _final(self, time: Time) -> Path:
        final = self.root / _name(time)
        if final.exists() and not self.overwrite:
            raise FileExistsError(
                f"{final} is there already, of another run: write_files(..., overwrite=True) replaces it"
            )
        return final


def _unfinished(final: Path) -> Path:
    return final.with_name(f"{_UNFINISHED}{final.name}")


def _name(time: Time) -> str:
    return f"{_EPOCH}{_text(time)}"


def _text(time: Time) -> str:
    return "-".join(map(_text, time)) if isinstance(time, tuple) else quote(str(time), safe="")


@dataclass(slots=True)
class _Part:
    """One worker's part of an epoch: what is written, and what has yet to be."""

    files: int = 0
    records: int = 0
    waiting: list[Batch] = field(default_factory=list)
    waiting_bytes: int = 0
    sizes: RecordSizes = field(default_factory=RecordSizes)

    def add(self, batch: Batch) -> None:
        self.records += length(batch)
        self.waiting.append(batch)
        self.waiting_bytes += size_in_bytes(batch, self.sizes)


def build_write_parts(folders: EpochFolders, suffix: str, file_bytes: int) -> Build:
    """Return the build function of an operator that sends, for each epoch, how many (files, records) it has written."""

    def build(context: OperatorContext) -> Schedule:
        parts: dict[Time, _Part] = context.state("parts", partial(_begin, folders, context.worker))
        notificator = context.notificator()

        def write(time: Time, part: _Part) -> None:
            path = folders.begin(time) / f"part-{context.worker:05d}-{part.files:05d}.{suffix}"
            write_file(path, part.waiting)
            part.files += 1
            part.waiting, part.waiting_bytes = [], 0

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                time = lent.time
                if time not in parts:
                    folders.begin(time)
                    parts[time] = _Part()
                    notificator.notify_at(lent)
                parts[time].add(batch)
                if parts[time].waiting_bytes >= file_bytes:
                    write(time, parts[time])
            for token in notificator.ready(input, sequential=False):
                part = parts.pop(token.time)
                if part.waiting:
                    write(token.time, part)
                output.send(token, [(part.files, part.records)])

        return schedule

    return build


def _begin(folders: EpochFolders, worker: int) -> dict[Time, _Part]:
    """Clean up, before any worker writes, since all are built before any runs; return what is written so far."""
    if worker == 0:
        folders.recover()
    return {}


def commit_epochs(folders: EpochFolders) -> Process:
    """Return what makes epochs visible of which all parts are written, and returns what was made visible."""

    def process(_: object, batches: list[list[Batch]], token: TimestampToken) -> Sequence[list[Batch]]:
        parts: list[tuple[int, int]] = [part for batch in batches[0] for part in batch]
        path = folders.commit(token.time)
        files, records = (sum(counts) for counts in zip(*parts, strict=True))
        made: Any = WrittenEpoch(token.time, str(path), files, records)
        return [[[made]]]

    return process
