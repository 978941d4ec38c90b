"""For how long subscribers have held their publisher back."""

from collections.abc import Mapping


class Holds:
    """Remembers since when each holder holds, and tells who has done so for too long. No clock of its own.

    >>> holds = Holds()
    >>> holds.expired({"a": 60.0}, now_s=0.0), holds.left_s(now_s=10.0)
    ([], 50.0)
    >>> holds.expired({"a": 60.0, "b": 1.0}, now_s=60.0)
    ['a']
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def expired(self, holders: Mapping[str, float], now_s: float) -> list[str]:
        """Take note of who holds now, and for how many seconds each may; return those whose time is over."""
        self._until = {name: self._until.get(name, now_s + limit_s) for name, limit_s in holders.items()}
        return [name for name, until_s in self._until.items() if until_s <= now_s]

    def left_s(self, now_s: float) -> float | None:
        """Return after how many seconds to look again; None if nobody holds."""
        return max(0.0, min(self._until.values()) - now_s) if self._until else None
