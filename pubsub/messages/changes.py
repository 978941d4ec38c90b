"""Sums of changes: of encoded batches, for a publisher; of epochs, as a table, for a subscriber.

A change is a record and a count, as ``Collection.changes`` makes them: a pair in a list, or a row of an Arrow table
with a column ``diff``. Records are hashable; the counts of equal records are added up.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tidewheel.batches.batches import concatenate_tables, is_arrow
from tidewheel.batches.one_nan import with_one_nan
from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import decode_batch, encode_batch
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.messages.wire import DataMessage

if TYPE_CHECKING:
    import pyarrow as pa

DIFF: Final = "diff"

_LIMIT: Final = 2**63


def summed(time: Time, messages: Iterable[DataMessage]) -> DataMessage:
    """Return the sum of encoded changes, without records whose count is 0, as one message at ``time``.

    Raises:
        DeliveryError: a batch has no changes, or cannot be decoded here.

    >>> from tidewheel.pubsub.messages.encoded_message import decode_batch, encode_batch
    >>> decode_batch(summed(1, [encode_batch(0, [("a", 1), ("b", 1)]), encode_batch(1, [("a", -1), ("b", 1)])]))
    [('b', 2)]
    """
    return encode_batch(time, sum_of([decode_batch(message) for message in messages]))


def sum_of(batches: "list[list[tuple[Any, int]] | pa.Table]") -> "list[tuple[Any, int]] | pa.Table":
    """Return the sum of batches of changes, all lists or all tables.

    Raise DeliveryError for records that are not changes.
    """
    try:
        if batches and is_arrow(batches[0]):
            return _sum_of_tables(batches)
        counts: dict[Any, int] = {}
        for batch in batches:
            for one, count in batch:
                record = with_one_nan(one)
                counts[record] = counts.get(record, 0) + count
    except (ArithmeticError, KeyError, NotImplementedError, TypeError, ValueError) as error:  # Arrow has such errors
        raise DeliveryError(
            "a topic with history has changes: pairs (record, count), or tables with a column 'diff', as "
            f"collection.changes() makes them: {type(error).__name__}: {error}"
        ) from error
    return [(record, count) for record, count in counts.items() if count]


def _sum_of_tables(tables: "list[pa.Table]") -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    # Batches of several workers may differ in nullability, and in whether a column has only whole numbers.
    try:
        table = concatenate_tables([pa.concat_tables(tables, promote_options="permissive")]).unify_dictionaries()
    except pa.ArrowTypeError as error:
        raise DeliveryError(
            f"the tables of a topic with history do not go together: {error}. changes(schema) with a schema of Arrow's "
            "gives all of them the same types"
        ) from error
    names = [name for name in table.column_names if name != DIFF]
    ends = pc.min_max(table.column(DIFF)).as_py().values()
    is_large = max(abs(end or 0) for end in ends) * len(table) >= _LIMIT
    if is_large:  # sums of int64 would wrap round
        exact = table.column(DIFF).cast(pa.decimal128(19, 0))
        table = table.set_column(table.schema.get_field_index(DIFF), DIFF, exact)
    found = table.group_by(names).aggregate([(DIFF, "sum")])
    counts, found = found.column(f"{DIFF}_sum"), found.select(names)
    if is_large:
        whole = list(map(int, counts.to_pylist()))
        _check_counts((found.slice(row, 1).to_pylist()[0], count) for row, count in enumerate(whole))
        counts = pa.array(whole, pa.int64())
    return found.append_column(DIFF, counts).filter(pc.not_equal(counts, 0))


def _check_counts(changes: Iterable[tuple[Any, int]]) -> None:
    for record, count in changes:
        if not -_LIMIT <= count < _LIMIT:
            raise DeliveryError(f"the record {record!r:.200} is there {count} times, and a count has 64 bits")


class PresentState:
    """The sum of the epochs of a topic with history, as a table."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._sum: Any = []
        self._table: Any = None
        self._missing = ""

    def miss(self, why: str) -> None:
        """Record that changes are missing, so that later sums are not the current state."""
        self._missing = why

    def add(self, epochs: Iterable[Epoch], *, lacks: bool = False) -> Any:
        """Add epochs; return the sum as a ``pyarrow.Table``: the columns of the records, and ``diff``.

        Records that are pairs have the columns ``key`` and ``value``; other records without columns have ``record``.
        With ``lacks``, the subscription did not receive the initial state, so there is no sum.

        Complexity: O(records of the table), O(1) without new epochs.

        Raises:
            DeliveryError: the records do not form a table and are not added, or some epochs were missed.
        """
        missing = "this subscription goes on where it was before" if lacks else self._missing
        if missing:
            raise DeliveryError(
                f"topic {self._topic!r}: {missing}, so to_arrow() lacks changes: use a new subscription for it, "
                "without name=",
                topic=self._topic,
            )
        batches = [batch.data for epoch in epochs for batch in epoch.batches]
        if batches or self._table is None:
            try:
                total = sum_of([self._sum, *batches] if len(self._sum) else batches)
                self._table = total if is_arrow(total) else _table_of(total)
            except DeliveryError as error:
                raise DeliveryError(f"topic {self._topic!r}: {error}", topic=self._topic) from error
            self._sum = total
        return self._table


def _table_of(changes: list[tuple[Any, int]]) -> "pa.Table":
    import pyarrow as pa

    from tidewheel.batches.arrow_columns import exact_array

    _check_counts(changes)
    records = [record for record, _ in changes]
    columns = {"record": records}
    if records and all(isinstance(record, tuple) and len(record) == 2 for record in records):
        columns = {"key": [key for key, _ in records], "value": [value for _, value in records]}
    try:
        counts = pa.array([count for _, count in changes], pa.int64())
        return pa.table({**{name: exact_array(values) for name, values in columns.items()}, DIFF: counts})
    except (ArithmeticError, TypeError, ValueError) as error:
        raise DeliveryError(
            f"its records make no columns: {error}. Use epochs(), or name columns in changes(columns=...)"
        ) from error
