"""The exchange by which marks of ends go where the records of their substreams go."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.stable_hash import stable_hash
from tidewheel.runtime.substreams.labels import is_mark
from tidewheel.transport.batches import Batch


def has_marks(batch: Batch) -> bool:
    """Tell whether there are marks in a batch."""
    return isinstance(batch, list) and any(map(is_mark, batch))


def mark_runs(batch: Batch) -> Iterator[tuple[bool, Batch]]:
    """Yield a batch in parts, in their order, each of marks only or of records only, and whether it is of marks."""
    if not has_marks(batch):
        yield False, batch
        return
    for are_marks, run in groupby(batch, is_mark):
        yield are_marks, list(run)


@dataclass(frozen=True, slots=True)
class MarkedPact(Pact):
    """Spreads records by an exchange, and marks among them by their keys, in one order."""

    takes_marks: ClassVar[bool] = True

    records: Pact

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker."""
        if not has_marks(batch):
            return self.records.split(batch, workers)
        parts: list[list[Any]] = [[] for _ in range(workers)]
        for are_marks, run in mark_runs(batch):
            if are_marks:
                for mark in run:
                    parts[stable_hash(mark.key) % workers].append(mark)
            else:
                for worker, more in enumerate(self.records.split(run, workers)):
                    parts[worker] += more or []
        return [part or None for part in parts]

    def describe(self) -> str:
        """Return how records are spread."""
        return self.records.describe()
