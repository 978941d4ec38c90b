"""The sink of write_files for a file system: an epoch is a folder such as "epoch=7", which appears when complete.

See `storage/whole_folders.py`. A restored job finds files that were written after its snapshot. Its own files get new
names. An epoch gets the files that the workers report, if need be copied from a committed epoch; other files are
removed. So an epoch that is made visible again is replaced by an equal one. If a job goes back before its first
snapshot, the names of files also tell which epochs are its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.division import everywhere
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.operators.sinks.sink import Sink, SinkOperators
from tidewheel.progress import IntegerDomain, Time, TimeDomain
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.storage.files import FILES
from tidewheel.storage.whole_folders import WholeFolders

_EPOCH = "epoch="
_SAME = everywhere(lambda one, _: one)


@dataclass(frozen=True, slots=True)
class WrittenEpoch:
    """An epoch that readers can see.

    Attributes:
        time: its time.
        path: its folder.
        files: the number of files.
        records: the number of records.
    """

    time: Time
    path: str
    files: int
    records: int


@dataclass(frozen=True)
class EpochFolders(Sink):
    """The folders of epochs in one folder, to which only one job at a time writes.

    Args:
        format: the format of the files.
        is_numbered: whether times are integers in their usual order.
        older: the names of the epochs from before the job.
        start: how the names of this worker's files begin; ``end`` is how they end in this run.
    """

    root: Path
    format: FileFormat
    overwrite: bool = False
    is_numbered: bool = True
    older: frozenset[str] = frozenset()
    start: str = "part-00000"
    end: str = ""

    def operators(self, domain: TimeDomain, file_bytes: int, *, waits: bool) -> SinkOperators:
        """Return the operators that write a stream here, in files of about ``file_bytes`` bytes."""
        made = replace(self, is_numbered=type(domain) is IntegerDomain)
        return SinkOperators(made._on_worker, domain, file_bytes, waits=waits, result=_written, join=list)

    def _on_worker(self, context: OperatorContext) -> "EpochFolders":
        """Return the folders for one worker; before any worker writes, remove what failed runs have left."""
        is_restored, run = instance_of(context).kept.is_restored, host_of(context).saving.run
        if context.worker == 0:
            self._folders.recover(but_unfinished=is_restored)
        of_run = f"-{run}" if run else ""
        older = _SAME.state(context, "older", lambda: self._folders.existing(but=of_run))
        end = f"{of_run}-{token_hex(4)}" if is_restored else of_run
        return replace(self, older=older, start=f"part-{context.worker:05d}", end=end)

    def prepare(self, epoch: Time, records: list[Batch]) -> str:
        """Write batches to a file in the hidden folder of an epoch; return the file's name.

        Raises:
            FileExistsError: an older run has written the epoch, and it must not be overwritten.
        """
        unfinished = self._folders.begin(self.path(epoch).name)
        written = sum(1 for _ in unfinished.glob(f"{self.start}-*"))
        name = f"{self.start}-{written:05d}{self.end}.{self.format.suffix}"
        with (unfinished / name).open("wb") as file:
            self.format.write(file, records)
            file.flush()
            FILES.sync(file.fileno())
        return name

    def commit(self, epoch: Time, parts: Sequence[str]) -> None:
        """Make an epoch visible under its name, durably.

        Raises:
            FileNotFoundError: a written file is gone, since another run has removed it.
            FileExistsError: an older run has written the epoch, and it must not be overwritten.
        """
        self._folders.commit(self.path(epoch).name, parts)

    def last_committed(self) -> Time | None:
        """Return the last epoch that this job has written; None if there is none, or times are not integers."""
        return last_epoch(self._folders.existing().difference(self.older)) if self.is_numbered else None

    def path(self, epoch: Time) -> Path:
        """Return the folder of an epoch; raise FileExistsError if it is older and must not be overwritten."""
        final = self.root / epoch_name(epoch)
        if final.name in self.older and final.exists() and not self.overwrite:
            raise FileExistsError(
                f"{final} is there already, of another run: write_files(..., overwrite=True) replaces it"
            )
        return final

    @property
    def _folders(self) -> WholeFolders:
        return WholeFolders(self.root, _EPOCH)


def _written(folders: EpochFolders, time: Time, records: int) -> WrittenEpoch:
    path = folders.path(time)
    return WrittenEpoch(time, str(path), sum(1 for _ in path.iterdir()), records)


def epoch_name(time: Time) -> str:
    """Return the name of the folder of an epoch.

    >>> epoch_name(7), epoch_name((1, 2))
    ('epoch=7', 'epoch=1-2')
    """
    return f"{_EPOCH}{_text(time)}"


def last_epoch(names: Iterable[str]) -> Time | None:
    """Return the last integer epoch among the folders with these names; None if there is none."""
    own = [name.removeprefix(_EPOCH) for name in names]
    return max((int(text) for text in own if text.isdecimal()), default=None)


def _text(time: Time) -> str:
    return "-".join(map(_text, time)) if isinstance(time, tuple) else quote(str(time), safe="")
