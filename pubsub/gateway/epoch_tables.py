"""Whole epochs as Arrow record batches that all have the schema of the first one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidewheel.progress import TidewheelError, TimeDomain
from tidewheel.pubsub import Epoch, Event
from tidewheel.pubsub.gateway.bounded_assembler import MAX_EPOCH_BYTES, BoundedAssembler
from tidewheel.pubsub.gateway.json_form import encode_json

_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError, LookupError)


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """Records of one epoch.

    Args:
        batch: a ``pyarrow.RecordBatch``.
        time: the epoch, as JSON.
    """

    batch: Any
    time: bytes


class EpochTables:
    """Turns epochs into record batches.

    Tables stay as they are, but for dictionaries, which a Flight stream of this kind cannot carry: they become plain
    columns. Records that are dicts become rows, with null for a key that is missing.
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None

    def receive(self, epoch: Epoch) -> list[TimedBatch]:
        """Return the records of an epoch, as one batch unless that would be too large for Arrow; none if it has none.

        Raises:
            TidewheelError: they are neither tables nor dicts, or do not go with the epochs before them.
        """
        if not epoch.batches:
            return []  # it only has ends of substreams, for which a table has no place
        try:
            table = self._table(epoch)
        except _REFUSALS as error:
            raise TidewheelError(f"the epoch of time {epoch.time!r} is no table{self._as_before()}: {error}") from error
        self._schema = table.schema
        time = encode_json(epoch.time)
        return [TimedBatch(batch, time) for batch in table.combine_chunks().to_batches()]

    def _table(self, epoch: Epoch) -> Any:
        if all(batch.is_arrow for batch in epoch.batches):
            # Batches of several workers may differ in whether a column can be null.
            return self._fitted(pa.concat_tables((batch.data for batch in epoch.batches), promote_options="default"))
        records = epoch.records
        others = sorted({type(record).__qualname__ for record in records if not isinstance(record, Mapping)})
        if others:
            raise TypeError(
                f"its records are {', '.join(others)}; Arrow Flight carries tables and dicts, so map them to dicts, or "
                "read them as JSON over HTTP"
            )
        return self._fitted(self._rows(records))

    def _rows(self, records: list[Mapping[Any, Any]]) -> Any:
        """Return a table of dicts, whose types are those of the values, for Arrow would cut them to types given."""
        names = list(dict.fromkeys(name for record in records for name in record))
        unnamed = [name for name in names if not isinstance(name, str)]
        if unnamed:
            raise TypeError(f"the keys of its records are not all text: {unnamed[0]!r}")
        if self._schema is not None:
            names += [name for name in self._schema.names if name not in names]
        return pa.table({name: pa.array([record.get(name) for record in records]) for name in names})

    def _fitted(self, table: Any) -> Any:
        """Return a table with the schema of the first one; one that is the first, without dictionaries."""
        if self._schema is None:
            plain = [field.with_type(_without_dictionaries(field.type)) for field in table.schema]
            return table.cast(pa.schema(plain, table.schema.metadata))
        if table.column_names != self._schema.names:
            if sorted(table.column_names) != sorted(self._schema.names):
                raise ValueError(
                    f"it has the columns {table.column_names}, and the first epoch had {self._schema.names}"
                )
            table = table.select(self._schema.names)
        return table.cast(self._schema)

    def _as_before(self) -> str:
        return "" if self._schema is None else " like those before it"


def timed_batches(
    domain: TimeDomain, events: Iterator[Event], max_epoch_bytes: int = MAX_EPOCH_BYTES
) -> Iterator[TimedBatch]:
    """Yield the record batches of a topic, as epochs are complete.

    Args:
        domain: its times.
        events: what its subscription brings.
        max_epoch_bytes: how much of epochs may wait for them to be complete.

    Raises:
        TidewheelError: the topic failed, too much waits, or what `EpochTables.receive` raises.
    """
    tables = EpochTables()
    assembler = BoundedAssembler(domain, max_epoch_bytes)
    for event in events:
        for epoch in assembler.receive(event):
            yield from tables.receive(epoch)


def _without_dictionaries(kind: Any) -> Any:
    """Return a type with plain values wherever it has dictionaries."""
    if pa.types.is_dictionary(kind):
        return _without_dictionaries(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_dictionaries(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_dictionaries(kind.key_type), _without_dictionaries(kind.item_type))
    for is_kind, make in _LISTS:
        if is_kind(kind):
            return make(kind.value_field.with_type(_without_dictionaries(kind.value_type)))
    return kind


_LISTS = ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list))
