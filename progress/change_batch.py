"""Net changes of counts: what a worker tells the others about its pointstamps."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class ChangeBatch(Generic[Key]):
    """A sum of signed changes by key, where what cancels out is gone.

    >>> batch = ChangeBatch([("a", 1), ("b", 2)])
    >>> batch.update("a", -1)
    >>> list(batch)
    [('b', 2)]
    """

    __slots__ = ("_changes",)

    def __init__(self, changes: Iterable[tuple[Key, int]] = ()) -> None:
        self._changes: dict[Key, int] = {}
        self.extend(changes)

    def update(self, key: Key, difference: int) -> None:
        """Add ``difference`` to the change of ``key``. Complexity: O(1)."""
        total = self._changes.get(key, 0) + difference
        if total:
            self._changes[key] = total
        else:
            self._changes.pop(key, None)

    def extend(self, changes: Iterable[tuple[Key, int]]) -> None:
        """Add many changes."""
        own = self._changes
        for key, difference in changes:
            total = own.get(key, 0) + difference
            if total:
                own[key] = total
            else:
                own.pop(key, None)

    def get(self, key: Key) -> int:
        """Return the net change of ``key``, 0 if there is none."""
        return self._changes.get(key, 0)

    def drain(self) -> list[tuple[Key, int]]:
        """Return the net changes and start anew."""
        changes = list(self._changes.items())
        self._changes.clear()
        return changes

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        return iter(self._changes.items())

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        return f"ChangeBatch({list(self)!r})"
