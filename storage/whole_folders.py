"""Folders of files that readers see complete or not at all.

A writer fills a folder under a hidden name such as ".tmp-epoch=7", and renames it when it is complete. To replace a
folder, the writer first renames the old one to ".old-epoch=7"; `recover` undoes that if the new folder was never
completed. Only one writer at a time may use the root folder. Other names in the root folder are left alone.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from tidewheel.storage.files import FILES

_UNFINISHED = ".tmp-"
_REPLACED = ".old-"


class WholeFolders:
    """The folders in ``root`` whose names begin with ``prefix``."""

    def __init__(self, root: Path, prefix: str) -> None:
        self._root = root
        self._prefix = prefix

    def recover(self, *, but_unfinished: bool = False) -> None:
        """Create the root, remove unfinished folders, and restore replaced folders that have no completed successor."""
        self._root.mkdir(parents=True, exist_ok=True)
        for replaced in self._hidden(_REPLACED):
            final = self._root / replaced.name.removeprefix(_REPLACED)
            if final.exists():
                shutil.rmtree(replaced)
            else:
                replaced.rename(final)
        for unfinished in () if but_unfinished else self._hidden(_UNFINISHED):
            shutil.rmtree(unfinished)

    def existing(self, *, but: str = "") -> frozenset[str]:
        """Return the names of the folders, except those in which a file name contains ``but``."""
        found = self._hidden(_REPLACED)  # before the glob: a folder renamed back meanwhile is then in one of the lists
        found += self._root.glob(f"{self._prefix}*")
        others = (path for path in found if not but or not any(path.glob(f"*{but}*")))
        return frozenset(path.name.removeprefix(_REPLACED) for path in others)

    def begin(self, name: str) -> Path:
        """Return the hidden folder to fill, which is created if it is missing."""
        unfinished = self._root / f"{_UNFINISHED}{name}"
        unfinished.mkdir(exist_ok=True)
        return unfinished

    def commit(self, name: str, files: Collection[str]) -> None:
        """Give a folder its final name, durably.

        Args:
            name: the folder; it replaces an older one of that name.
            files: the names of all its files; files that were not written anew are copied from the older folder.

        Raises:
            FileNotFoundError: neither folder has one of the files, since another writer has removed it.
        """
        final = self._root / name
        if final.exists():
            self.begin(name)
        unfinished = self._root / f"{_UNFINISHED}{name}"
        there = {path.name for path in unfinished.iterdir()}
        for other in there.difference(files):
            (unfinished / other).unlink()
        for missing in set(files).difference(there):
            shutil.copyfile(final / missing, unfinished / missing)
        FILES.sync_directory(unfinished)
        replaced = self._root / f"{_REPLACED}{name}"
        if final.exists():
            final.rename(replaced)
        unfinished.rename(final)
        FILES.sync_directory(self._root)
        if replaced.exists():
            shutil.rmtree(replaced)

    def _hidden(self, prefix: str) -> list[Path]:
        return [path for path in self._root.glob(f"{prefix}{self._prefix}*") if path.is_dir()]
