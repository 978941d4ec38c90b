"""Folders of files, one for each epoch, that are seen whole or not at all.

An epoch is written to a folder such as ".tmp-epoch=7", and renamed to "epoch=7" once when it is complete. An older one
of the same epoch is moved away for that, to ".old-epoch=7", and comes back if it goes no further. What has other names
is not touched.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tidewheel.progress import Time

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
        self._check(time)
        unfinished = self.root / f"{_UNFINISHED}{_name(time)}"
        unfinished.mkdir(exist_ok=True)
        return unfinished

    def commit(self, time: Time) -> Path:
        """Have an epoch seen under its name, which is returned; it survives a power failure from then on."""
        self._check(time)
        unfinished, final = self.root / f"{_UNFINISHED}{_name(time)}", self.root / _name(time)
        _sync_folder(unfinished)
        replaced = self.root / f"{_REPLACED}{_name(time)}"
        if final.exists():
            final.rename(replaced)
        unfinished.rename(final)
        _sync_folder(self.root)
        if replaced.exists():
            shutil.rmtree(replaced)
        return final

    def _folders(self, prefix: str) -> list[Path]:
        """Return the folders that runs before have left under such names; files and other folders are not ours."""
        return [path for path in self.root.glob(f"{prefix}{_EPOCH}*") if path.is_dir()]

    def _check(self, time: Time) -> None:
        final = self.root / _name(time)
        if final.exists() and not self.overwrite:
            raise FileExistsError(
                f"{final} is there already, of another run: write_files(..., overwrite=True) replaces it"
            )


def _name(time: Time) -> str:
    return f"{_EPOCH}{_text(time)}"


def _text(time: Time) -> str:
    return "-".join(map(_text, time)) if isinstance(time, tuple) else quote(str(time), safe="")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
