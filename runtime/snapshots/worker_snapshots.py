"""The snapshots of a job for its workers: where they write parts, and from which parts they begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.messages.written_part import Blob
from tidewheel.runtime.snapshots.part_writer import PartWriter
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.state.part_file import read_worker
from tidewheel.runtime.state.saved_worker import WorkerBeginning, beginning
from tidewheel.runtime.state.state_pickling import know_classes


@dataclass(frozen=True, slots=True)
class WorkerSnapshots:
    """The facts about snapshots that all workers of a job need.

    Attributes:
        incarnation: the incarnation of the folder's owner; ``identity`` is in the names of all the owner's files.
        run: a text shared by all jobs that continue from each other's snapshots.
        files: the files of each worker in the snapshot with ``number``, oldest first.
        names: the present name of each operator, by its name in the snapshot.
    """

    folder: SnapshotFolder
    incarnation: int
    identity: str
    run: str
    number: int = 0
    files: Sequence[Sequence[Blob]] = ()
    classes: bytes = b""
    names: Mapping[str, str] = field(default_factory=dict)

    def writer(self) -> PartWriter:
        return PartWriter(self.folder, self.incarnation, self.identity)

    @property
    def size(self) -> int:
        return sum(blob.size for files in self.files for blob in files)

    def beginning(self, plan: Plan, worker: int, workers: int) -> WorkerBeginning | None:
        """Read a worker's initial state; None if it begins without state.

        Raises:
            SnapshotDamaged: a file is missing or changed.
            SnapshotError: a file cannot be read.
        """
        if not self.files:
            return None
        know_classes(self.classes)
        needs_all = len(self.files) != workers
        saved = [
            read_worker([self.folder.read(blob) for blob in files if needs_all or number == worker])
            for number, files in enumerate(self.files)
        ]
        for one in saved:
            one.operators = {self.names[name]: it for name, it in one.operators.items() if name in self.names}
        return beginning(self.number, plan, saved, worker, workers)
