"""The positions of partitions that wait to be saved."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidewheel.operators.sources.contract import Partition


@dataclass(slots=True)
class SavedPositions:
    """The waiting positions of each partition, with marks. A mark is the number of a snapshot, or an epoch.

    >>> positions = SavedPositions()
    >>> for mark, position in [(0, "a"), (0, "b"), (1, "c")]:
    ...     positions.note("tides", mark, position)
    >>> positions.take(lambda mark: mark < 1)
    {'tides': 'b'}
    >>> positions.take(lambda mark: mark < 1), len(positions)
    ({}, 1)
    """

    _waiting: dict[Partition, deque[tuple[Any, Any]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def partitions(self) -> set[Partition]:
        return set(self._waiting)

    @property
    def latest(self) -> Any:
        """The greatest mark of the waiting positions; -1 if there is none."""
        return max((waiting[-1][0] for waiting in self._waiting.values()), default=-1)

    def note(self, partition: Partition, mark: Any, position: Any) -> None:
        """Add a position; it replaces an earlier one with the same mark."""
        waiting = self._waiting.setdefault(partition, deque())
        if waiting and waiting[-1][0] == mark:
            waiting.pop()
        waiting.append((mark, position))

    def take(self, may_be_saved: Callable[[Any], bool]) -> dict[Partition, Any]:
        """Return, for each partition, the last position that may be saved; forget it and the positions before it."""
        found: dict[Partition, Any] = {}
        for partition, waiting in list(self._waiting.items()):
            while waiting and may_be_saved(waiting[0][0]):
                found[partition] = waiting.popleft()[1]
            if not waiting:
                del self._waiting[partition]
        return found
