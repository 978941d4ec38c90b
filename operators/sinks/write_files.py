"""The sink of write_files for a file system: an epoch is a folder such as "epoch=7", which appears when complete.

See `storage/whole_folders.py`; `epoch_objects.py` is the sink for an object store, which shares `EpochFiles`.

A restored job finds files that were written after its snapshot, so it gives its files new names. After a commit, the
epoch's folder has exactly the files that the workers report, some of them copied from an earlier commit. So an epoch
that is committed again is replaced by an equal one.

By file names, a job that goes back before its first snapshot recognises its own epochs.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Generic, Self, TypeVar
from urllib.parse import quote

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.division import everywhere
from tidewheel.operators.sinks.file_formats import FileFormat
from tidewheel.operators.sinks.sink import Sink, SinkOperators
from tidewheel.progress import IntegerDomain, Time, TimeDomain
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.storage.files import FILES
from tidewheel.storage.whole_folders import WholeFolders

PlaceT = TypeVar("PlaceT", Path, str)

_EPOCH = "epoch="
_SAME = everywhere(lambda one, _: one)


@dataclass(frozen=True, slots=True)
class WrittenEpoch:
    """An epoch that readers can see.

    Attributes:
        time: the time of the epoch.
        path: the epoch's folder.
        files: the number of files.
        records: the number of records.
    """

    time: Time
    path: str
    files: int
    records: int


@dataclass(frozen=True)
class EpochFiles(Sink, Generic[PlaceT]):
    """The files of epochs at one place, to which at most one job at a time writes.

    Args:
        format: the format of the files.
        is_numbered: whether times are integers in their usual order.
        older: the names of the epochs that existed before the job.
        start: the prefix of a worker's file names.
    """

    root: PlaceT
    format: FileFormat
    overwrite: bool = False
    is_numbered: bool = True
    older: frozenset[str] = frozenset()
    start: str = "part-00000"

    def operators(self, domain: TimeDomain, file_bytes: int, *, waits: bool) -> SinkOperators:
        """Return the operators that write a stream here, in files of about ``file_bytes`` bytes in memory."""
        made = replace(self, is_numbered=type(domain) is IntegerDomain)
        return SinkOperators(made.on_worker, domain, file_bytes, waits=waits, result=_written, join=list)

    @abstractmethod
    def on_worker(self, context: OperatorContext) -> Self:
        """Return the sink for one worker."""

    @abstractmethod
    def written(self, time: Time, records: int) -> WrittenEpoch:
        """Return the description of a visible epoch, which has so many records."""

    @abstractmethod
    def existing(self) -> frozenset[str]:
        """Return the names of the visible epochs, of any job."""

    def last_committed(self) -> Time | None:
        """Return the last epoch that this job has written; None if there is none, or times are not integers."""
        own = [name.removeprefix(_EPOCH) for name in self.existing() - self.older] if self.is_numbered else []
        return max((int(text) for text in own if text.isdecimal()), default=None)

    def made_older(self, context: OperatorContext, find: Callable[[], frozenset[str]]) -> frozenset[str]:
        """Return the names of the epochs that existed before the job.

        They are found once, and then kept in its snapshots.
        """
        return _SAME.state(context, "older", find)

    def refusal(self, name: str, but: str = "") -> FileExistsError:
        """Return the error for an epoch of another run that must not be overwritten."""
        said = f"{self.root}/{name} is there already, of another run: write_files(..., overwrite=True) replaces it{but}"
        return FileExistsError(said)


@dataclass(frozen=True)
class EpochFolders(EpochFiles[Path]):
    """The epochs' folders in one folder.

    Args:
        end: the suffix of a worker's file names in this run.
    """

    end: str = ""

    def on_worker(self, context: OperatorContext) -> Self:
        """Return the folders for one worker; clean up before any worker writes."""
        is_restored, run = instance_of(context).kept.is_restored, host_of(context).saving.run
        if context.worker == 0:
            self._folders.recover(but_unfinished=is_restored)
        of_run = f"-{run}" if run else ""
        older = self.made_older(context, lambda: self._folders.existing(but=of_run))
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
            FileNotFoundError: another run has removed a file.
            FileExistsError: an older run has written the epoch, and it must not be overwritten.
        """
        self._folders.commit(self.path(epoch).name, parts)

    def existing(self) -> frozenset[str]:
        """Return the names of the visible epochs, of any job."""
        return self._folders.existing()

    def written(self, time: Time, records: int) -> WrittenEpoch:
        """Return the description of a visible epoch."""
        path = self.path(time)
        return WrittenEpoch(time, str(path), sum(1 for _ in path.iterdir()), records)

    def path(self, epoch: Time) -> Path:
        """Return the folder of an epoch; raise FileExistsError if it is older and must not be overwritten."""
        final = self.root / epoch_name(epoch)
        if final.name in self.older and final.exists() and not self.overwrite:
            raise self.refusal(final.name)
        return final

    @property
    def _folders(self) -> WholeFolders:
        return WholeFolders(self.root, _EPOCH)


def _written(sink: EpochFiles[Path] | EpochFiles[str], time: Time, records: int) -> WrittenEpoch:
    return sink.written(time, records)


def epoch_name(time: Time) -> str:
    """Return the name of the folder of an epoch.

    >>> epoch_name(7), epoch_name((1, 2))
    ('epoch=7', 'epoch=1-2')
    """
    return f"{_EPOCH}{_text(time)}"


def _text(time: Time) -> str:
    return "-".join(map(_text, time)) if isinstance(time, tuple) else quote(str(time), safe="")
