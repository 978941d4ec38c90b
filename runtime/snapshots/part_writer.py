"""The writer of one worker's parts. A part is a file that, together with earlier files, has all state of the worker.

Keyed state is written piece by piece, so a part may need the files of earlier parts, back to the start of the last
complete sweep; see `KeyedState`.

New frozen values are written to a separate file. Parts refer to that file as long as they need at least half of it.
Below half, the needed values are written again, so that the old file can be removed.
"""

import time
from collections import Counter
from collections.abc import Iterator

from tidewheel.runtime.messages.written_part import Blob, WrittenPart
from tidewheel.runtime.snapshots.errors import SnapshotError
from tidewheel.runtime.snapshots.names import blob_name
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.state.part_file import write_frozen, write_part
from tidewheel.runtime.state.worker_part import WorkerPart
from tidewheel.transport.frames import dumps

_LEAST_USED = 0.5
"""A file of frozen values is kept while at least this share of it is in use."""


class PartWriter:
    """Writes the parts of one worker, one after the other, to a folder.

    Args:
        identity: the owner's digits in the names of files. They distinguish owners with the same incarnation, which
            occur after a folder was removed.
    """

    def __init__(self, folder: SnapshotFolder, incarnation: int, identity: str) -> None:
        self._folder = folder
        self._incarnation = incarnation
        self._identity = identity
        self._files: dict[int, Blob] = {}
        self._frozen: dict[str, tuple[Blob, float]] = {}  # by value, its file and its share in the file
        self._sweeps: dict[tuple[str, str], int] = {}
        self._whole_since: dict[tuple[str, str], int] = {}
        self._is_torn = False

    def write(self, part: WorkerPart) -> WrittenPart:
        """Write a part; the report tells of a failure.

        After a failure, the next part must be whole; see `WorkerPart.is_whole`.
        """
        if part.is_whole:
            self._files, self._sweeps, self._whole_since, self._is_torn = {}, {}, {}, False
        elif self._is_torn:
            return WrittenPart(part.number, part.worker, failure="an earlier part could not be written")
        try:
            self._write_frozen(part)
            self._files[part.number] = self._folder.write(self._name(part), list(_politely(write_part(part))))
        except Exception as error:  # noqa: BLE001 - after any error the job goes on, and the snapshot fails
            self._is_torn = True
            reason = str(error) if isinstance(error, SnapshotError) else f"{type(error).__name__}: {error}"
            return WrittenPart(part.number, part.worker, failure=reason)
        self._forget_old(part)
        frozen = dict.fromkeys(blob for blob, _ in self._frozen.values())
        return WrittenPart(
            part.number,
            part.worker,
            (*frozen, *self._files.values()),
            dumps(part.positions),
            with_state=part.with_state,
            with_records=part.with_records,
        )

    def _name(self, part: WorkerPart, kind: str = "") -> str:
        return blob_name(self._incarnation, part.number, f"worker-{part.worker}{kind}-{self._identity}")

    def _write_frozen(self, part: WorkerPart) -> None:
        names = dict.fromkeys(name for one in part.operators.values() for name in one.kept.frozen)
        used = Counter[Blob]()
        for name in names.keys() & self._frozen.keys():
            blob, share = self._frozen[name]
            used[blob] += share  # type: ignore[assignment] # the count is in parts of a file
        self._frozen = {name: it for name, it in self._frozen.items() if name in names and used[it[0]] >= _LEAST_USED}
        new = [name for name in names if name not in self._frozen]
        if new:
            *pieces, index, end = _politely(write_frozen(part, frozenset(new)))
            blob = self._folder.write(self._name(part, "-frozen"), [*pieces, index, end])
            total = sum(map(len, pieces))
            self._frozen |= {name: (blob, len(piece) / total) for name, piece in zip(new, pieces, strict=True)}

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
    for piece in pieces:
        yield piece
        time.sleep(0)
