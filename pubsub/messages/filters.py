"""The filters of children, and their union, which a relay requests from its parent; no I/O.

A parent sends a relay only messages that the relay's children want. The others are sent as silence, which is true only
for these children. Invariants:

- The union has the filters of all children. It grows with a new child's filter. It shrinks only on demand, since each
  change makes a relay forget its knowledge.
- A relay keeps knowledge of its current union only, and answers from it. For a new child it requests missing knowledge
  again.
- Knowledge of an earlier union goes only to children whose filters were in that union.
- If a filter raises, the message passes. The relay next to the child then tells the child the reason.

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
"""The largest number of filters in a union; with more filters, a relay asks for everything."""

MOST_UNION_BYTES: Final = 256 * 1024
"""The largest size of the pickled filters of a union; with larger filters, a relay asks for everything."""

_DIGEST_BYTES = 7
_MOST_EARLIER = 8


class Filter(Hashable, Protocol):
    """A child's condition on messages; children with equal filters receive the same messages."""

    def of(self, message: Any) -> Any:
        """Return the message, a part of it, or None.

        An error disconnects the children with this filter, with a reason.
        """

    def __or__(self, other: Any) -> "Filter": ...


def part_of(where: Filter, number: int, message: Any) -> Any:
    """Return the part of a message that passes a child's filter, None if nothing passes.

    ``number`` is the number or tick of the message, for the error.

    Raises:
        DeliveryError: the filter raises; the error is for this child alone.
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
    """A filter that passes everything that passes any filter of a relay's children.

    Attributes:
        filters: the distinct filters, at most `MOST_FILTERS`; if there are none, nothing passes.
    """

    filters: frozenset[Filter]
    digest: int

    def of(self, message: Any) -> Any:
        """Return the part of a message that passes any of the filters, or None.

        If a filter raises, return the whole message.
        """
        try:
            return self._together.of(message) if self.filters else None
        except Exception:  # noqa: BLE001 - the relay next to the child applies the filter again, and reports the error
            return message

    def __or__(self, other: Any) -> Filter:
        filters = self.filters | (other.filters if isinstance(other, FilterUnion) else {other})
        return reduce(or_, filters) if filters else self

    @cached_property
    def _together(self) -> Filter:
        return reduce(or_, self.filters)


def union_of(filters: Iterable[Filter | None]) -> FilterUnion | None:
    """Return the union of filters and unions; None passes everything.

    The union is None if one of them passes everything, or the union would be too large.
    """
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
    """Tell whether knowledge for a union of filters is also for a child with the filter ``where``."""
    if filters is None or where is None:
        return filters is None
    return where.filters <= filters if isinstance(where, FilterUnion) else where in filters


class Wanted:
    """The union of the filters of a relay's children; before the first `shrink` it passes everything.

    Attributes:
        union: the current union; None passes everything.
        is_due: whether the union must be sent to the parents.

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
        """Add a child or replace its filter; return whether the union has changed; O(1) if it has not."""
        self._children[child] = where
        return self.union is not None and not has_all(self.union.filters, where) and self.shrink()

    def leave(self, child: str) -> None:
        """Remove a child; the union keeps its filter until the next `shrink`."""
        self._children.pop(child, None)

    def shrink(self) -> bool:
        """Remove filters that no child has any more; return whether the union has changed."""
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
        return digest_of(self.union)


def digest_of(where: Filter | None) -> int:
    """Return the digest in knowledge for a child with this filter; 0 unless the filter is a union."""
    return where.digest if isinstance(where, FilterUnion) else 0
