"""Keys of joins: how they are found, and which of them match nothing.

As in SQL, a key that is None matches nothing, not even None; nor does NaN, nor a tuple with either of them in it. Other
keys match where Python holds them equal: ``1``, ``1.0`` and ``True`` are one key.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.records.arrow_rows import as_table
from tidewheel.progress import GraphError
from tidewheel.runtime.description.pacts import Key
from tidewheel.transport.batches import Batch, is_numpy, records

Groups: TypeAlias = dict[Any, list[Any]]
"""Records by key."""

_PLAIN = frozenset({int, str, bool, bytes})
"""Types all of whose values match themselves."""


@dataclass(frozen=True, slots=True)
class KeyFunctions:
    """Keys that functions of a record return."""

    left: Callable[[Any], Hashable]
    right: Callable[[Any], Hashable]

    @property
    def exchanges(self) -> tuple[Key, Key]:
        """By what to exchange both sides."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Keys that stand in columns: their names on both sides, equally many."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def exchanges(self) -> tuple[Key, Key]:
        """By what to exchange both sides; one name alone does not make keys tuples."""
        return _one_or_all(self.left), _one_or_all(self.right)


def _one_or_all(names: tuple[str, ...]) -> Key:
    return names[0] if len(names) == 1 else names


def make_keys(name: str, key: Key, other_key: Key | None, suffix: str = "") -> KeyFunctions | KeyColumns:
    """Return the keys of both sides, those of the other by ``key`` too if ``other_key`` is None.

    Raises:
        GraphError: one is no key, they do not fit together, or there is a ``suffix`` where they are no columns.
    """
    left, right = (Keys.checked(name, side).key for side in (key, key if other_key is None else other_key))
    if callable(left) and callable(right):
        if suffix:
            raise GraphError(f"operator {name!r}: suffix={suffix!r} is for names of columns; functions make pairs")
        return KeyFunctions(left, right)
    if left is None or right is None or callable(left) or callable(right):
        raise GraphError(
            f"operator {name!r}: the keys of both sides are functions of a record, or names of columns. They are "
            f"{left!r} on one side and {right!r} on the other"
        )
    names, other_names = ((side,) if isinstance(side, str) else side for side in (left, right))
    if len(names) != len(other_names):
        raise GraphError(f"operator {name!r}: {names} and {other_names} are not equally many columns")
    return KeyColumns(names, other_names)


def rows_of(batches: Iterable[Batch], keys: KeyFunctions | KeyColumns) -> list[Any]:
    """Return all records as Python objects, as dicts if the keys stand in columns."""
    if isinstance(keys, KeyColumns):
        batches = [as_table(batch) if is_numpy(batch) else batch for batch in batches]
    return [record for batch in batches for record in records(batch)]


def matches_nothing(key: Any) -> bool:
    """Tell whether a key is None or NaN, or a tuple with one of them in it.

    >>> matches_nothing(None), matches_nothing((1, None)), matches_nothing(0)
    (True, True, False)
    """
    return key is None or (any(map(matches_nothing, key)) if isinstance(key, tuple) else bool(key != key))  # noqa: PLR0124


def split_off_unmatchable(groups: Groups) -> list[Any]:
    """Take the keys that match nothing out of ``groups``; return their records."""
    if _PLAIN.issuperset(map(type, groups)):
        return []
    return [record for key in [key for key in groups if matches_nothing(key)] for record in groups.pop(key)]
