"""The distinct records of a batch, whatever kind it is of."""

from typing import Any

from tidewheel.operators.keys.record_keys import Keys, as_key, as_key_column, may_have_nan
from tidewheel.operators.keys.record_order import take
from tidewheel.transport.batches import Batch, is_arrow, is_numpy

_WHOLE_RECORDS = Keys(None)


def distinct_records(batch: Batch) -> Batch:
    """Return each of the records of a batch once, as a batch of the same kind if that can be compared.

    Records are equal as Python has it, and rows where all their columns are; NaN is equal to itself, as None is.

    Raises:
        TypeError: a record cannot be hashed.

    >>> distinct_records(["a", "b", "a"]), distinct_records([{"n": 1}, {"n": 1}])
    (['a', 'b'], [{'n': 1}])
    """
    if is_arrow(batch):
        return _distinct_rows(batch)
    if is_numpy(batch) and batch.ndim == 1 and not batch.dtype.hasobject and batch.dtype.names is None:
        import numpy as np

        return np.unique(batch)
    return _first_records(batch) if isinstance(batch, list) else _first_rows(batch)


def _first_rows(batch: Batch) -> Batch:
    places: dict[Any, int] = {}
    for place, key in enumerate(_WHOLE_RECORDS.hashable(batch)):
        places.setdefault(key, place)
    return take(batch, list(places.values()))


def _first_records(rows: list[Any]) -> list[Any]:
    try:
        found = list(dict.fromkeys(rows))
    except TypeError:
        _WHOLE_RECORDS.check(rows)
        found = rows
    else:
        if not may_have_nan(found):
            return found
    return list({as_key(record): record for record in found}.values())


def _distinct_rows(batch: Batch) -> Batch:
    import pyarrow as pa

    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    if not table.num_columns:
        return table.slice(0, 1)
    comparable = table
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            comparable = comparable.set_column(place, field, as_key_column(table.column(place)))
    try:
        return comparable.group_by(table.column_names).aggregate([])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # a column of lists or structs
        return _first_rows(table)
