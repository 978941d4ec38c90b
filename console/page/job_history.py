"""The last ten minutes of every operator of a job."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

METRICS = ("records_in", "records_out", "busy", "lag_seconds", "queue", "state_keys", "state_bytes")
"""The numbers of an operator that the history has at each moment."""

MOMENTS = 600
"""The largest number of moments, which are one second apart."""

MOST_OPERATORS = 5_000
"""The largest number of operators with a history; later operators have none. So a job's history takes 84 MB at most."""


class JobHistory:
    """The numbers of operators at the last 600 moments; each operator takes 28 bytes per moment."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._moments: deque[tuple[float, npt.NDArray[np.float32]]] = deque(maxlen=MOMENTS)

    def add(self, at: float, operators: Mapping[str, Mapping[str, Any]]) -> None:
        """Add a moment.

        Args:
            at: its time, in seconds since 1970.
            operators: the numbers of each operator, by the names in `METRICS`; a missing number is unknown.
        """
        for number in operators:
            if number not in self._places and len(self._places) < MOST_OPERATORS:
                self._places[number] = len(self._places)
        row = np.full((len(self._places), len(METRICS)), np.nan, np.float32)
        for number, numbers in operators.items():
            if number in self._places:
                row[self._places[number]] = [numbers.get(metric, np.nan) for metric in METRICS]
        self._moments.append((at, row))

    def of(self, number: str) -> dict[str, list[float]]:
        """Return an operator's numbers as columns, with the times in ``at``; unknown numbers are NaN."""
        place = self._places.get(number)
        if place is None:
            return {"at": [], **{metric: [] for metric in METRICS}}
        known = [(at, row[place]) for at, row in tuple(self._moments) if place < len(row)]
        columns = np.array([row for _, row in known], np.float32).reshape(-1, len(METRICS)).T.tolist()
        return {"at": [at for at, _ in known], **dict(zip(METRICS, columns, strict=True))}
