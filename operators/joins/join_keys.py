"""The keys of joins, and the keys that match nothing.

As in SQL, None matches nothing, not even None. NaN, and tuples with None or NaN, match nothing either. Other keys match
if they are equal in Python: ``1``, ``1.0`` and ``True`` are one key.
"""

from typing import Any, NamedTuple, TypeAlias

from tidewheel.operators.keys.record_keys import Keys
from tidewheel.progress import GraphError
from tidewheel.runtime.description.pacts import Key

Groups: TypeAlias = dict[Any, list[Any]]
"""Records by key."""

_PLAIN = frozenset({int, str, bool, bytes})
"""Types whose values all match themselves."""


class JoinKeys(NamedTuple):
    """The keys of both sides: two functions of a record, or equally many column names on both sides."""

    left: Keys
    right: Keys

    @property
    def are_columns(self) -> bool:
        return not callable(self.left.key)

    @property
    def exchanges(self) -> tuple[Key | None, Key | None]:
        """The keys by which both sides are exchanged."""
        return self.left.key, self.right.key

    @property
    def of_sides(self) -> tuple[Key, Key]:
        """The keys of both sides, neither of which is None."""
        left, right = self.exchanges
        assert left is not None, "a join has keys"
        assert right is not None, "a join has keys"
        return left, right


def make_keys(name: str, key: Key, other_key: Key | None, suffix: str = "") -> JoinKeys:
    """Return the keys of both sides; ``key`` serves both if ``other_key`` is None.

    Raises:
        GraphError: an argument is not a key, the keys do not fit together, or a ``suffix`` is given without column
            names.
    """
    left, right = (Keys.checked(name, side) for side in (key, key if other_key is None else other_key))
    if callable(left.key) != callable(right.key):
        raise GraphError(
            f"operator {name!r}: the keys of both sides are functions of a record, or names of columns. They are "
            f"{left.key!r} on one side and {right.key!r} on the other"
        )
    if callable(left.key):
        if suffix:
            raise GraphError(f"operator {name!r}: suffix={suffix!r} is for names of columns; functions make pairs")
        return JoinKeys(left, right)
    if len(left.names) != len(right.names):
        raise GraphError(
            f"operator {name!r}: {tuple(left.names)} and {tuple(right.names)} are not equally many columns"
        )
    return JoinKeys(*(Keys(side.names[0]) if len(side.names) == 1 else side for side in (left, right)))


def matches_nothing(key: Any) -> bool:
    """Tell whether a key is None or NaN, or a tuple with one of them in it.

    >>> matches_nothing(None), matches_nothing((1, None)), matches_nothing(0)
    (True, True, False)
    """
    return key is None or (any(map(matches_nothing, key)) if isinstance(key, tuple) else bool(key != key))  # noqa: PLR0124


def split_off_unmatchable(groups: Groups) -> list[Any]:
    """Remove the keys that match nothing from ``groups``; return their records."""
    if _PLAIN.issuperset(map(type, groups)):
        return []
    return [record for key in [key for key in groups if matches_nothing(key)] for record in groups.pop(key)]
