"""A folder of epochs to which only this process writes, without other files that Spark would read."""

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tidewheel.spark_bridge.errors import BridgeError
from tidewheel.spark_bridge.structured_streaming import epoch_files
from tidewheel.spark_bridge.structured_streaming.epoch_checkpoint import EpochCheckpoint, WriterIdentity
from tidewheel.spark_bridge.structured_streaming.epoch_sink import readable
from tidewheel.storage.files import make_directory

_HIDDEN: Final = (".", "_")
"""The first characters of names that Spark does not read."""
_SPARKS_LOG: Final = "_spark_metadata"
_MODE: Final = 0o777
"""The mode of a new folder, less the umask."""


class EpochFolder:
    """A folder to which only this process writes, until `close`.

    Args:
        asked: the identity of the writer; an existing writer keeps its name.
        files: the calls that change files.

    Raises:
        BridgeError: another writer uses the folder, the checkpoint belongs to something else, or the folder has other
            files.
    """

    def __init__(
        self, asked: WriterIdentity, checkpoint: Path, files: epoch_files.EpochFiles = epoch_files.FILES
    ) -> None:
        self._path = Path(asked.path)
        with ExitStack() as locks, readable(f"{self._path}, with checkpoint {checkpoint}"):
            self.checkpoint = EpochCheckpoint(checkpoint, files)
            if self.checkpoint.is_in_use and not self._path.is_dir():
                raise BridgeError(
                    f"{self._path} is gone, and the checkpoint {checkpoint} knows of files in it: restore it, or start "
                    "again with another checkpoint"
                )
            make_directory(files, self._path, _MODE)
            self._descriptor = epoch_files.lock_folder(self._path)
            locks.callback(os.close, self._descriptor)
            if not self.checkpoint.is_in_use:
                self._refuse_foreign(re.compile(r"(?!)"), 0, f"and the checkpoint {checkpoint} knows nothing of it")
            make_directory(files, checkpoint, _MODE)
            locks.callback(os.close, epoch_files.lock_folder(checkpoint))
            self.identity = self.checkpoint.identity(asked)
            last = self.checkpoint.record().file
            self.is_new = not last
            ours = re.compile(rf"epochs-{re.escape(self.identity.writer)}-(?P<number>\d{{10}})\.parquet")
            self._refuse_foreign(ours, last, "and Spark would read it as if it were epochs")
            for left in set(self._path.glob(f".epochs-{self.identity.writer}-*.unfinished")):
                if left != self.identity.hidden(last):  # it is committed, and has yet to get its name
                    files.remove(left)
            self._locks = locks.pop_all()

    def check(self) -> None:
        """Raise BridgeError unless the path still leads to the folder that was opened."""
        if not (self._path.is_dir() and os.path.samestat(self._path.stat(), os.fstat(self._descriptor))):
            raise BridgeError(f"{self._path} was moved, removed or replaced while it was written to")

    def close(self) -> None:
        """Let others write to the folder; idempotent."""
        self._locks.close()

    def _refuse_foreign(self, ours: re.Pattern[str], last: int, why: str) -> None:
        for entry in self._path.iterdir():
            known = ours.fullmatch(entry.name)
            if known is not None and int(known["number"]) > last:
                raise BridgeError(f"{entry} is newer than what the checkpoint knows of: is that an old copy?")
            if entry.name == _SPARKS_LOG:
                raise BridgeError(
                    f"{self._path} is the output of a Spark query, which lists its files in {_SPARKS_LOG}"
                )
            if known is None and not entry.name.startswith(_HIDDEN):
                raise BridgeError(
                    f"{self._path} has {entry.name!r} in it, which write_epochs did not put there, {why}: use an empty "
                    "or a new folder"
                )
