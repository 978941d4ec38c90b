"""The writer of one worker's parts: each a file, and together with earlier files all that the worker keeps.

What operators keep by key is written in pieces, so a part may need the files of earlier ones. Once a sweep of a keyed
state has ended, the files before that sweep are needed no more; see `KeyedState`.
"""

import time
from collections.abc import Iterator

from tidewheel.runtime.snapshots.entries import Blob
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.runtime.snapshots.names import blob_name
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.snapshots.written_part import WrittenPart
from tidewheel.runtime.state.part_file import write_part
from tidewheel.runtime.state.worker_part import WorkerPart
from tidewheel.transport.frames import dumps


class PartWriter:
    """Writes the parts of one worker, one after the other, to a folder.

    Args:
        folder: where to.
        incarnation: of the owner of the folder.
        identity: of the owner, in the names of the files: another one may have the incarnation in a folder that was
            removed meanwhile.
    """

    def __init__(self, folder: SnapshotFolder, incarnation: int, identity: str) -> None:
        self._folder = folder
        self._incarnation = incarnation
        self._identity = identity
        self._files: dict[int, Blob] = {}
        self._sweeps: dict[tuple[str, str], int] = {}
        self._whole_since: dict[tuple[str, str], int] = {}
        self._is_torn = False

    def write(self, part: WorkerPart) -> WrittenPart:
        """Write a part; what goes wrong is in what is returned.

        After a failure only a part that `WorkerPart.is_whole` can be written.
        """
        if part.is_whole:
            self._files, self._sweeps, self._whole_since, self._is_torn = {}, {}, {}, False
        elif self._is_torn:
            return WrittenPart(part.number, part.worker, failure="an earlier part could not be written")
        try:
            name = blob_name(self._incarnation, part.number, f"worker-{part.worker}-{self._identity}")
            self._files[part.number] = self._folder.write(name, list(_politely(write_part(part))))
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on, and the snapshot fails
            self._is_torn = True
            reason = str(error) if isinstance(error, SnapshotError) else f"{type(error).__name__}: {error}"
            return WrittenPart(part.number, part.worker, failure=reason)
        self._forget_old(part)
        return WrittenPart(part.number, part.worker, tuple(self._files.values()), dumps(part.positions))

    def _forget_old(self, part: WorkerPart) -> None:
        for operator, one in part.operators.items():
            for name, cut in one.kept.keyed.items():
                place = operator, name
                if cut.begins:
                    self._sweeps[place] = part.number
                if cut.ends:
                    self._whole_since[place] = self._sweeps[place]
        first = min(self._whole_since.values(), default=part.number)
        self._files = {number: blob for number, blob in self._files.items() if number >= first}


def _politely(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces, and let another thread have the interpreter after each."""
    for piece in pieces:
        yield piece
        time.sleep(0)
