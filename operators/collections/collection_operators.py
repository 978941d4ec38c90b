"""Operators that make collections from streams."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidewheel.operators.base.stream_base import Record, StreamBase
from tidewheel.progress import GraphError, IntegerDomain
from tidewheel.runtime.description.origin import adds_operators

if TYPE_CHECKING:
    from tidewheel.operators.collections.collection import Collection


class CollectionOperators(StreamBase[Record]):
    """The methods of streams that make collections."""

    __slots__ = ()

    @adds_operators()
    def as_collection(
        self,
        *,
        columns: Sequence[str] = (),
        diff: str | bool = False,
        upserts: bool = False,
        name: str = "as_collection",
    ) -> "Collection":
        """Make a collection of this stream's records; with ``diff`` or ``upserts``, records may also be removed.

        Args:
            columns: the names of the columns, for batches that are Arrow tables or structured arrays. The first is the
                key; `Collection.select` chooses another one. A record of two columns is a pair (key, value), which
                stays in columns. A record of more columns is a pair (key, tuple of the others).
            diff: True if each record is a pair (record, count), which adds ``count``; for tables the name of the column
                of counts. A count below 0 removes the record.
            upserts: True if each record is a pair (key, value) that replaces the key's previous pair. The value None
                removes the key. If several pairs of a key arrive in an epoch, the last one counts, so send the pairs of
                a key from one place.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used, or times are not whole numbers (in loops, pairs of them).
            JobError: when the job runs, if batches do not fit the arguments.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("prices")
        >>> changes = [(0, [("tea", 3), ("milk", 1)]), (1, [("tea", 4)]), (2, [("milk", None)])]
        >>> prices = flow.source("prices", tw.IterableSource([changes])).as_collection(upserts=True)
        >>> _ = prices.changes().capture("changes")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     for one in job.captured("changes"):
        ...         print(one.time, sorted(one.batch))
        0 [(('milk', 1), 1), (('tea', 3), 1)]
        1 [(('tea', 3), -1), (('tea', 4), 1)]
        2 [(('milk', 1), -1)]
        """
        from tidewheel.operators.collections import stages
        from tidewheel.operators.collections.collection import Collection
        from tidewheel.operators.collections.update_stream import UpdateStream
        from tidewheel.operators.collections.upserts import build_from_upserts, key_of

        names = _checked_columns(name, columns, diff)
        domains = self.nesting.coordinate_domains
        if not all(isinstance(domain, IntegerDomain) for domain in domains):
            raise GraphError(
                f"operator {name!r}: a collection has whole numbers as epochs, and the times of this stream are others"
            )
        if not upserts:
            counts = diff if isinstance(diff, str) else (True if diff else None)
            return Collection(UpdateStream(self._stage(name, partial(stages.updates_of, names, counts)), names))
        if names or diff or len(domains) > 1:
            raise GraphError(
                f"operator {name!r}: upserts=True takes records (key, value) outside of loops, no columns= or diff="
            )
        return Collection(UpdateStream(self._unary(name, build_from_upserts, key_of)))


def _checked_columns(name: str, columns: object, diff: object) -> tuple[str, ...]:
    from tidewheel.operators.collections.named_columns import checked_columns

    names = () if columns in ((), []) else checked_columns(name, columns)
    if not isinstance(diff, bool | str) or (names and diff is True):
        raise GraphError(
            f"operator {name!r}: diff= is True for records that are pairs (record, count), or the name of a column "
            f"beside columns=, not {diff!r}"
        )
    return names
