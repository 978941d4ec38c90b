"""The filters of children, and the union of them that a relay asks its parent for. No I/O.

A parent sends a relay only what some child of the relay wants, and the rest as silence. Such silence holds for these
children only, and messages may lack records that others want. So knowledge names the union by a digest. Invariants:

- The union has the filters of all children. It grows when a child with another filter comes, and shrinks only when the
  owner says so, because a relay forgets what it knows when its union changes.
- A relay keeps and answers with knowledge of its present union only. For a new child it asks for the rest again.
- Knowledge of an earlier union goes only to the children whose filters that union has.
- A filter that raises lets the message through, and the relay next to the child tells the child why.

Source: seed "Gryphon exactly-once", sections 2.1 (silence) and 2.4 (filter edges).
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from hashlib import blake2b
from operator import or_
from typing import Any, Final, Protocol, TypeAlias

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.transport.frames import dumps

MOST_FILTERS: Final = 16
"""The largest number of filters in a union; with more, a relay asks for everything."""

MOST_UNION_BYTES: Final = 256 * 1024
"""The largest size of the pickled filters of a union; with more, a relay asks for everything."""

_DIGEST_BYTES = 7
_MOST_EARLIER = 8


class Filter(Hashable, Protocol):
    """A child's condition on messages. Children with equal filters are told the same."""

    def of(self, message: Any) -> Any:
        """Return the message, a part of it, or None if the child wants nothing of it.

        If the filter raises, its children are told why, and receive nothing more.
        """

    def __or__(self, other: Any) -> "Filter":
        """Return a filter that lets through what either of the two does."""


def part_of(where: Filter, number: int, message: Any) -> Any:
    """Return what a child's filter leaves of a message, None for nothing.

    Args:
        where: the filter.
        number: of the message, or its tick; for the error.
        message: the message.

    Raises:
        DeliveryError: the filter raises any exception. It is the child's, so the error is for that child alone.
    """
    try:
        return where.of(message)
    except DeliveryError:
        raise
    except Exception as error:
        raise DeliveryError(
            f"the filter {where!r} of a subscription fails at tick {number} with {type(error).__name__}: {error}; "
            "subscribe with one that takes every message of the topic"
        ) from error


Filters: TypeAlias = frozenset[Filter] | None
"""The filters of a union; None for a union that lets everything through."""


@dataclass(frozen=True)
class FilterUnion:
    """What a relay wants from its parent: the parts of messages that any filter of its children lets through.

    Attributes:
        filters: the different filters, at most `MOST_FILTERS`; without any, nothing passes.
        digest: the digest of the filters.
    """

    filters: frozenset[Filter]
    digest: int

    def of(self, message: Any) -> Any:
        """Return the part of a message that any filter wants, or None; all of it if a filter raises."""
        try:
            return self._together.of(message) if self.filters else None
        except Exception:  # noqa: BLE001 - the filter is applied again next to its child, which is told
            return message

    def __or__(self, other: Any) -> Filter:
        filters = self.filters | (other.filters if isinstance(other, FilterUnion) else {other})
        return reduce(or_, filters) if filters else self

    @cached_property
    def _together(self) -> Filter:
        return reduce(or_, self.filters)


def union_of(filters: Iterable[Filter | None]) -> FilterUnion | None:
    """Return the union of filters, and of unions of them; None if it lets everything through, or would be too large."""
    found = set[Filter]()
    for one in filters:
        if one is None:
            return None
        found |= one.filters if isinstance(one, FilterUnion) else {one}
    if len(found) > MOST_FILTERS:
        return None
    contents = b"".join(sorted(map(dumps, found)))
    if len(contents) > MOST_UNION_BYTES:
        return None
    return FilterUnion(frozenset(found), int.from_bytes(blake2b(contents, digest_size=_DIGEST_BYTES).digest()))


def has_all(filters: Filters, where: Filter | None) -> bool:
    """Tell whether knowledge of a union of filters holds for a child that has the filter ``where``."""
    if filters is None or where is None:
        return filters is None
    return where.filters <= filters if isinstance(where, FilterUnion) else where in filters


class Wanted:
    """The union of the filters of a relay's children. It lets everything through until the first `shrink`.

    Attributes:
        union: the present union; None for everything.
        is_due: whether to tell the parents of it.
        earlier: the filters of earlier unions, by their digests.

    >>> wanted = Wanted()
    >>> wanted.shrink(), wanted.union == union_of([])
    (True, True)
    >>> wanted.join("a", None), wanted.union, wanted.join("b", None)
    (True, None, False)
    """

    def __init__(self) -> None:
        self._children: dict[str, Filter | None] = {}
        self.union: FilterUnion | None = None
        self.is_due = False
        self.earlier: dict[int, Filters] = {}

    def join(self, child: str, where: Filter | None) -> bool:
        """Add a child, or replace its filter; return whether the union has changed. Complexity: O(1) if it has not."""
        self._children[child] = where
        return self.union is not None and not has_all(self.union.filters, where) and self.shrink()

    def leave(self, child: str) -> None:
        """Remove a child; its filter stays in the union until that shrinks."""
        self._children.pop(child, None)

    def shrink(self) -> bool:
        """Remove the filters that no child has any more; return whether the union has changed."""
        union = union_of(set(self._children.values()))
        if union == self.union:
            return False
        self.earlier[self.digest] = None if self.union is None else self.union.filters
        if len(self.earlier) > _MOST_EARLIER:
            del self.earlier[next(iter(self.earlier))]
        self.union, self.is_due = union, True
        self.earlier.pop(self.digest, None)
        return True

    @property
    def digest(self) -> int:
        """The digest of the present union, which its knowledge has."""
        return digest_of(self.union)


def digest_of(where: Filter | None) -> int:
    """Return the digest that knowledge for a child with this filter has: 0, unless the filter is a union."""
    return where.digest if isinstance(where, FilterUnion) else 0
