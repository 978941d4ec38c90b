"""For how long subscribers have held their publisher back."""

from collections.abc import Callable, Mapping


def held_too_long(limit_s: float) -> str:
    """Return why a subscriber is cut off that has held its publisher back for so many seconds."""
    return f"it fell too far behind, and held back what is published for {limit_s:g} s without taking any of it"


class Holds:
    """Remembers since when each holder has held and taken nothing, and tells who has done so for too long.

    Who takes something, however slowly, may go on holding. No clock of its own.

    >>> holds, taken = Holds(), {"a": 0, "b": 0}
    >>> holds.expired({"a": 60.0}, 0.0, taken.__getitem__), holds.left_s(now_s=10.0)
    ([], 50.0)
    >>> taken["b"] += 1
    >>> holds.expired({"a": 60.0, "b": 1.0}, 60.0, taken.__getitem__)
    ['a']
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def __bool__(self) -> bool:
        """Whether any subscriber held at the last look."""
        return bool(self._seen)

    def expired(self, holders: Mapping[str, float], now_s: float, taken: Callable[[str], int]) -> list[str]:
        """Take note of who holds now, and for how many seconds each may; return those whose time is over.

        Args:
            holders: by name, for how many seconds it may hold without taking anything.
            now_s: what the clock says.
            taken: returns a number that grows as a holder takes something.
        """
        before, self._seen = self._seen, {}
        for name, limit_s in holders.items():
            count = taken(name)
            last, until_s = before.get(name, (count, now_s + limit_s))
            self._seen[name] = (count, until_s if last == count else now_s + limit_s)
        return [name for name, (_, until_s) in self._seen.items() if until_s <= now_s]

    def left_s(self, now_s: float) -> float | None:
        """Return after how many seconds to look again; None if nobody holds."""
        return max(0.0, min(until_s for _, until_s in self._seen.values()) - now_s) if self._seen else None
