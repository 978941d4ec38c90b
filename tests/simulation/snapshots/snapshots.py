"""The folder of a simulated job: what writes the parts is the real one, which sometimes fails."""

import pickle
from collections import defaultdict
from random import Random
from typing import Any, cast

from tests.simulation.disk import DiskFolder
from tidewheel.runtime.messages.input_position import Positions
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.runtime.snapshots.part_writer import PartWriter
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.state.part_file import read_worker
from tidewheel.runtime.state.saved_worker import SavedWorker
from tidewheel.runtime.state.worker_part import WorkerPart
from tidewheel.transport.socket_address import DRIVER


class WrittenSnapshots:
    """The parts that the workers of one life take and write.

    Args:
        workers: how many there are.
        life: the number of the life.
        random: the choices.
    """

    def __init__(self, workers: int, life: int, random: Random) -> None:
        self._workers = workers
        self._random = random
        self._folder = DiskFolder(random)
        self._writers = [PartWriter(cast(SnapshotFolder, self._folder), life, "7f") for _ in range(workers)]
        self._waiting: list[WorkerPart] = []
        self._written: dict[int, dict[int, WrittenPart]] = defaultdict(dict)

    def take(self, part: WorkerPart) -> None:
        """Receive a part that is to be written, sooner or later."""
        self._waiting.append(part)

    def write(self) -> int | None:
        """Write the oldest part of some worker; return the worker if that fails."""
        if not self._waiting:
            return None
        worker = self._random.choice(self._waiting).worker
        part = next(part for part in self._waiting if part.worker == worker)
        self._waiting.remove(part)
        written = self._writers[worker].write(part)
        if written.failure is not None:
            return worker
        self._written[part.number][worker] = written
        return None

    @property
    def complete(self) -> list[int]:
        """The numbers of the snapshots of which all workers have written their parts."""
        return sorted(number for number, parts in self._written.items() if len(parts) == self._workers)

    def files(self, number: int) -> int:
        """Return how many files a complete snapshot needs."""
        return sum(len(written.blobs) for written in self._written[number].values())

    def saved(self, number: int) -> list[SavedWorker]:
        """Return what each worker had, in a complete snapshot."""
        parts = [self._written[number][worker] for worker in range(self._workers)]
        return [read_worker([self._folder.read(blob) for blob in part.blobs]) for part in parts]

    def positions(self, number: int) -> Positions:
        """Return where the driver was, in a complete snapshot."""
        packed: Any = pickle.loads(self._written[number][0].positions)
        found: Positions = packed.get(DRIVER, {})
        return found
