"""The time since which each token is held, counted from the first report that shows the token."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from tidewheel.progress import Time

MOST_TOLD: Final = 20

Holders: TypeAlias = Mapping[tuple[int, Time], Mapping[int, int]]
"""For each pointstamp, the number of tokens on each worker."""


class HeldTokens:
    """Remembers when reports first showed each token, by location, time and worker."""

    def __init__(self) -> None:
        self._since: dict[tuple[int, Time, int], float] = {}

    def oldest(self) -> Iterator[tuple[int, Time, int]]:
        """Yield location, time and worker of each token in the last report, in the order of first appearance."""
        return iter(sorted(self._since, key=self._since.__getitem__))

    def look(self, tokens: Holders, awaited: Holders, at: float) -> dict[int, list[dict[str, Any]]]:
        """Return the description of the 20 oldest tokens at each location, oldest first.

        O(n log n) for n pairs of pointstamp and worker.
        """
        before = self._since
        self._since = {
            (location, time, worker): before.get((location, time, worker), at)
            for (location, time), holders in tokens.items()
            for worker in holders
        }
        told: dict[int, list[dict[str, Any]]] = {}
        for (location, time, worker), since in [(held, self._since[held]) for held in self.oldest()]:
            oldest = told.setdefault(location, [])
            if len(oldest) < MOST_TOLD:
                count = tokens[location, time][worker]
                kept = awaited.get((location, time), {}).get(worker, 0)
                parts = {"time": repr(time), "count": count, "worker": worker, "since": since, "awaited": kept >= count}
                oldest.append(parts)
        return told
