"""Folders of files that readers see whole or not at all.

A folder is filled under a hidden name such as ".tmp-epoch=7", and gets its name once all its files are there. A folder
that it replaces is moved away for that, to ".old-epoch=7", and comes back if the new one does not come. At most one
writer at a time has the folder that they are all in. Nothing with another name is touched.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from tidewheel.storage.files import FILES

_UNFINISHED = ".tmp-"
_REPLACED = ".old-"


class WholeFolders:
    """The folders in one folder whose names begin alike.

    Args:
        root: the folder that they are in.
        prefix: how their names begin, such as ``epoch=``.
    """

    def __init__(self, root: Path, prefix: str) -> None:
        self._root = root
        self._prefix = prefix

    def recover(self, *, but_unfinished: bool = False) -> None:
        """Make the root, and clean up what writers that failed have left there.

        Folders that were moved away for others that have not come are brought back.

        Args:
            but_unfinished: whether folders that are not finished stay.
        """
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
        """Return the names of the folders that are there, without those that have files with ``but`` in their names."""
        found = self._hidden(_REPLACED)  # first: they may come back
        found += self._root.glob(f"{self._prefix}*")
        others = (path for path in found if not but or not any(path.glob(f"*{but}*")))
        return frozenset(path.name.removeprefix(_REPLACED) for path in others)

    def begin(self, name: str) -> Path:
        """Return the hidden folder in which a folder is filled; make it if it is not there."""
        unfinished = self._root / f"{_UNFINISHED}{name}"
        unfinished.mkdir(exist_ok=True)
        return unfinished

    def commit(self, name: str, files: Collection[str]) -> None:
        """Have a folder seen under its name; it survives a loss of power from then on.

        Args:
            name: of the folder, which replaces an older one.
            files: the names of its files. Those that the hidden folder lacks are copied from the older one.

        Raises:
            FileNotFoundError: a file is in neither, as another writer has cleaned up.
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
        """Return the folders that writers before have left under such names; files and other folders are not ours."""
        return [path for path in self._root.glob(f"{prefix}{self._prefix}*") if path.is_dir()]
