"""The two operators of write_files: one writes each worker's part of an epoch, the other makes the whole epoch visible.

The first sends word of its files when its share of the epoch is on disk, and so holds the epoch open until then. The
second, on worker 0, has that word from all workers when the epoch is complete at its input.

An epoch is written to a folder such as ".tmp-epoch=7", and renamed to "epoch=7" once when it is complete. An older one
of the same epoch is moved away for that, to ".old-epoch=7", and comes back if it goes no further. What has other names
is not touched.

A job that goes on from a snapshot finds files there that were written later. It gives its own files names of their own,
and an epoch gets those files that the workers tell of: the others are removed, and those that an epoch has got already
are copied from there. So an epoch that was made visible after the snapshot is replaced by an equal one.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from tidewheel.operators.epochs.division import at_first, everywhere
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.sinks.file_formats import write_file
from tidewheel.progress import Time
from tidewheel.pubsub.log.files import FILES
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule, TimestampToken
from tidewheel.runtime.worker.operator_context import instance_of
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

    def existing(self) -> frozenset[str]:
        """Return the names of the epochs that are there."""
        epochs = [path.name for path in self.root.glob(f"{_EPOCH}*")]
        return frozenset([*epochs, *(path.name.removeprefix(_REPLACED) for path in self._folders(_REPLACED))])

    def recover(self) -> None:
        """Make the folder, and clean up what runs that failed have left there."""
        self.put_back()
        for unfinished in self._folders(_UNFINISHED):
            shutil.rmtree(unfinished)

    def put_back(self) -> None:
        """Make the folder, and bring back the epochs that were moved away for others that have not come."""
        self.root.mkdir(parents=True, exist_ok=True)
        for replaced in self._folders(_REPLACED):
            final = self.root / replaced.name.removeprefix(_REPLACED)
            if final.exists():
                shutil.rmtree(replaced)
            else:
                replaced.rename(final)

    def begin(self, time: Time, older: frozenset[str]) -> Path:
        """Return the folder to which an epoch is written; more than one worker may begin it.

        ``older`` are the names of the epochs that were there before the job began.

        Raises:
            FileExistsError: there is an older one, which is not to be overwritten.
        """
        unfinished = _unfinished(self._final(time, older))
        unfinished.mkdir(exist_ok=True)
        return unfinished

    def commit(self, time: Time, names: list[str], older: frozenset[str]) -> Path:
        """Have an epoch seen under its name, which is returned; it survives a power failure from then on.

        Args:
            time: the epoch.
            names: those of its files.
            older: as for `begin`.

        Raises:
            FileNotFoundError: a file that was written is gone, as another run has cleaned up.
            FileExistsError: there is an older one, which is not to be overwritten.
        """
        final = self._final(time, older)
        unfinished = _unfinished(final)
        if final.exists():
            unfinished.mkdir(exist_ok=True)
        there = {path.name for path in unfinished.iterdir()}
        for name in there.difference(names):
            (unfinished / name).unlink()
        for name in set(names).difference(there):
            shutil.copyfile(final / name, unfinished / name)
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

    def _final(self, time: Time, older: frozenset[str]) -> Path:
        final = self.root / _name(time)
        if final.name in older and final.exists() and not self.overwrite:
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

    names: list[str] = field(default_factory=list)
    records: int = 0
    waiting: list[Batch] = field(default_factory=list)
    waiting_bytes: int = 0
    sizes: RecordSizes = field(default_factory=RecordSizes)

    def add(self, batch: Batch) -> None:
        self.records += length(batch)
        self.waiting.append(batch)
        self.waiting_bytes += size_in_bytes(batch, self.sizes)

    def merge(self, other: "_Part") -> "_Part":
        """Take over the part of another worker."""
        waiting, size = self.waiting + other.waiting, self.waiting_bytes + other.waiting_bytes
        return _Part(self.names + other.names, self.records + other.records, waiting, size, self.sizes)


def build_write_parts(folders: EpochFolders, suffix: str, file_bytes: int) -> Build:
    """Return the build function of an operator that sends, for each epoch, the (names, records) that it has written."""

    def build(context: OperatorContext) -> Schedule:
        older = _SAME.state(context, "older", partial(_begin, folders, context.worker))
        parts: dict[Time, _Part] = at_first(_Part.merge).of_each().state(context, "parts", dict)
        notificator = context.notificator()
        write = _Writer(context, folders, suffix, older).write

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                time = lent.time
                if time not in parts:
                    folders.begin(time, older)
                    parts[time] = _Part()
                    notificator.notify_at(lent)
                parts[time].add(batch)
                if parts[time].waiting_bytes >= file_bytes:
                    write(time, parts[time])
            for token in notificator.ready(input, sequential=False):
                if token.time in parts:
                    part = parts.pop(token.time)
                    write(token.time, part)
                    output.send(token, [(part.names, part.records)])

        return schedule

    return build


class _Writer:
    """Writes files to the folders of epochs, under names that no file has that a snapshot knows of."""

    def __init__(self, context: OperatorContext, folders: EpochFolders, suffix: str, older: frozenset[str]) -> None:
        self._folders = folders
        self._older = older
        self._start, self._end = f"part-{context.worker:05d}", f".{suffix}"
        if instance_of(context).kept.is_restored:
            folders.put_back()
            self._end = f"-{token_hex(4)}.{suffix}"

    def write(self, time: Time, part: _Part) -> None:
        """Write what waits of a part, if anything does."""
        if part.waiting:
            name = f"{self._start}-{len(part.names):05d}{self._end}"
            write_file(self._folders.begin(time, self._older) / name, part.waiting)
            part.names.append(name)
            part.waiting, part.waiting_bytes = [], 0


_SAME = everywhere(lambda one, _: one)


def _begin(folders: EpochFolders, worker: int) -> frozenset[str]:
    """Clean up, before any worker writes, since all are built before any runs; return which epochs are there."""
    if worker == 0:
        folders.recover()
    return folders.existing()


def build_commit(folders: EpochFolders) -> Build:
    """Return the build function of an operator that makes epochs visible of which all parts are written.

    It sends a `WrittenEpoch` for each.
    """

    def process(older: frozenset[str], batches: list[list[Batch]], token: TimestampToken) -> Sequence[list[Batch]]:
        parts: list[tuple[list[str], int]] = [part for batch in batches[0] for part in batch]
        names = [name for part, _ in parts for name in part]
        path = folders.commit(token.time, names, older)
        made: Any = WrittenEpoch(token.time, str(path), len(names), sum(records for _, records in parts))
        return [[[made]]]

    return build_gathered(1, process, lambda context: _SAME.state(context, "older", folders.existing))
