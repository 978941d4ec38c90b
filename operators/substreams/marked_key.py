"""The exchange by which marks of ends go where the records of their substreams go."""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tidewheel.runtime.batches import Batch
from tidewheel.runtime.pacts import Pact
from tidewheel.runtime.stable_hash import stable_hash
from tidewheel.runtime.substreams.end_of_substream import is_mark


@dataclass(frozen=True, slots=True)
class MarkedPact(Pact):
    """Spreads records by an exchange, and marks among them by their keys, in one order."""

    records: Pact

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker."""
        if not isinstance(batch, list) or not any(map(is_mark, batch)):
            return self.records.split(batch, workers)
        parts: list[list[Any]] = [[] for _ in range(workers)]
        for are_marks, run in groupby(batch, is_mark):
            if are_marks:
                for mark in run:
                    parts[stable_hash(mark.key) % workers].append(mark)
            else:
                for worker, more in enumerate(self.records.split(list(run), workers)):
                    parts[worker] += more or []
        return [part or None for part in parts]

    def describe(self) -> str:
        """Return how records are spread."""
        return self.records.describe()
