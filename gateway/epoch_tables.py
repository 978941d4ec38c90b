"""Complete epochs as Arrow record batches, all with the schema of the first epoch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidewheel.gateway.clients import MAX_EPOCH_BYTES, assembled
from tidewheel.gateway.json_form import encode_json
from tidewheel.progress import TidewheelError, TimeDomain
from tidewheel.pubsub.messages.events import Epoch, Event

_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError, LookupError)


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """Records of one epoch: a ``pyarrow.RecordBatch``, and the epoch's time as JSON."""

    batch: Any
    time: bytes


def timed_batches(
    domain: TimeDomain, events: Iterator[Event], max_epoch_bytes: int = MAX_EPOCH_BYTES
) -> Iterator[TimedBatch]:
    """Yield the record batches of a topic's complete epochs.

    An epoch is one batch; several if it is too large for Arrow; none if it has only ends of substreams. Tables are
    unchanged, except that dictionary-encoded columns become plain, since a Flight stream cannot carry them. Dicts
    become rows, with null for a missing key.

    Raises:
        TidewheelError: the topic has failed, incomplete epochs are too large, records are neither tables nor dicts, or
            they do not fit the first schema.
    """
    schema: pa.Schema | None = None
    for epoch in assembled(domain, events, max_epoch_bytes):
        if not isinstance(epoch, Epoch) or not epoch.batches:
            continue
        try:
            table = _fitted(_table(epoch, schema), schema)
        except _REFUSALS as error:
            as_before = "" if schema is None else " like those before it"
            raise TidewheelError(f"the epoch of time {epoch.time!r} is no table{as_before}: {error}") from error
        schema = table.schema
        time = encode_json(epoch.time)
        for batch in table.combine_chunks().to_batches():
            yield TimedBatch(batch, time)


def _table(epoch: Epoch, schema: pa.Schema | None) -> Any:
    if all(batch.is_arrow for batch in epoch.batches):
        return epoch.to_arrow()
    records = epoch.records
    others = sorted({type(record).__qualname__ for record in records if not isinstance(record, Mapping)})
    if others:
        raise TypeError(
            f"its records are {', '.join(others)}; Arrow Flight carries tables and dicts, so map them to dicts, or "
            "read them as JSON over HTTP"
        )
    earlier = [] if schema is None else schema.names
    names = list(dict.fromkeys([name for record in records for name in record] + earlier))
    unnamed = [name for name in names if not isinstance(name, str)]
    if unnamed:
        raise TypeError(f"the keys of its records are not all text: {unnamed[0]!r}")
    return pa.table({name: pa.array([record.get(name) for record in records]) for name in names})


def _fitted(table: Any, schema: pa.Schema | None) -> Any:
    if schema is None:
        plain = [field.with_type(_without_dictionaries(field.type)) for field in table.schema]
        return table.cast(pa.schema(plain, table.schema.metadata))
    if table.column_names != schema.names:
        if sorted(table.column_names) != sorted(schema.names):
            raise ValueError(f"it has the columns {table.column_names}, and the first epoch had {schema.names}")
        table = table.select(schema.names)
    return table.cast(schema)


def _without_dictionaries(kind: Any) -> Any:
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
