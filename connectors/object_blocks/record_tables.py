"""Batches of any kind as Arrow tables of one schema, for Spark or Ray Data."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from typing import Any

import pyarrow as pa

from tidewheel.batches.batches import shown
from tidewheel.progress.errors import TidewheelError

_TIMES = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class TableReader:
    """The reader of the tables: Spark or Ray Data.

    Attributes:
        name: its name, for messages.
        whole: the name of its result, such as "DataFrame", for messages.
        call: the name of the function that the program has called, for messages.
        error: the type of its errors.
        columns: converts a schema to types that the reader can read; the second argument names the schema in errors.
    """

    name: str
    whole: str
    call: str
    error: type[TidewheelError]
    columns: Callable[[pa.Schema, str], pa.Schema]


class RecordTables:
    """Converts batches to tables of one schema: the given one, or the first batch's.

    Columns are cast to types that the reader can read; values never change.

    Args:
        reader: the reader of the tables.
        schema: the schema of the batches; None to use the first batch's.
        time: the name of an added column with the time of each row; None adds no column.

    Attributes:
        columns: the schema without the time column; None until it is known.
        origin: where the schema comes from, for errors: an argument or a batch.
    """

    def __init__(
        self, reader: TableReader, schema: pa.Schema | None = None, time: str | None = None, origin: str = "schema="
    ) -> None:
        self.reader = reader
        self.time = time
        self.origin = origin
        self.columns = None if schema is None else reader.columns(schema, origin)
        if self.columns is not None:
            self._check_time_column(self.columns.names, origin)

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of every table, with the time column; None until it is known."""
        if self.columns is None or self.time is None:
            return self.columns
        return self.columns.append(pa.field(self.time, pa.int64()))

    def _check_time_column(self, names: Sequence[str], where: str) -> None:
        if self.time is not None and self.time.casefold() in (name.casefold() for name in names):
            raise self.reader.error(
                f"{where} already has a column {self.time!r}: pass time= another name, or time=None for no such column"
            )

    def tables(self, messages: Iterable[tuple[Any, Any]]) -> Iterator[pa.Table]:
        """Yield a table for each ``(time, batch)``; raise as `table` does."""
        tables = (self.table(at, batch) for at, batch in messages)
        return (table for table in tables if table is not None)

    def table(self, time: Any, batch: Any) -> pa.Table | None:
        """Return ``batch`` as a table; None for an empty list without a known schema.

        Raises:
            TidewheelError: an error of the reader's type. The batch has another schema, it cannot become columns that
                the reader can read, or its time does not fit into the time column.
        """
        where = f"the batch at time {time!r}"
        table = self._table(batch, where)
        if table is None:
            return None
        self._check_time_column(table.column_names, where)
        if self.columns is None or not table.schema.equals(self.columns, check_metadata=True):
            table = self._readable(table, where)
        return table if self.time is None else self._with_time(table, self.time, time)

    def _readable(self, table: pa.Table, where: str) -> pa.Table:
        columns = self.reader.columns(table.schema, where)
        if self.columns is None:
            self.columns, self.origin = columns, where
        if columns != self.columns:
            raise self.reader.error(
                f"{where} has the columns {shown(columns)}, but {self.origin} has {shown(self.columns)}. "
                f"A {self.reader.whole} has one schema: send the same columns, in order and type, in every batch"
            )
        return self._cast(table, columns, where)

    def _cast(self, table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
        try:
            return table.cast(schema)
        except pa.ArrowException as error:
            raise self.reader.error(
                f"{where} has values that {self.reader.name}'s types cannot hold exactly {shown(table.schema)}: {error}"
            ) from error

    def _table(self, batch: Any, where: str) -> pa.Table | None:
        if isinstance(batch, pa.Table):
            return batch
        if isinstance(batch, pa.RecordBatch):
            return pa.Table.from_batches([batch])
        if isinstance(batch, list):
            return self._table_of_dicts(batch, where) if batch or self.columns is not None else None
        raise self.reader.error(
            f"{where} is a {type(batch).__module__}.{type(batch).__qualname__}, and {self.reader.name} needs named "
            "columns: send Arrow tables or lists of dicts"
        )

    def _table_of_dicts(self, records: list[Any], where: str) -> pa.Table:
        foreign = next((record for record in records if not isinstance(record, dict)), None)
        if foreign is not None:
            raise self.reader.error(
                f"{where} holds {foreign!r}, a {type(foreign).__qualname__}, and {self.reader.name} needs named "
                "columns: map the records to dicts, or send Arrow tables"
            )
        names = list(dict.fromkeys(name for record in records for name in record))
        if self.columns is not None:
            unknown = [name for name in names if name not in self.columns.names]
            if unknown:
                raise self.reader.error(
                    f"{where} has records with {', '.join(map(repr, unknown))}, which {self.origin} has not "
                    f"{shown(self.columns)}: pass a schema= with every column"
                )
            names = self.columns.names
        arrays: dict[str, pa.Array] = {}
        for name in names:
            values = [record.get(name) for record in records]
            kind = None if self.columns is None else self.columns.field(name).type
            try:
                if kind is not None:
                    _refuse_fractions(values, kind)
                arrays[name] = pa.array(values, kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                columns = "" if self.columns is None else f" ({shown(self.columns)[1:-1]}, as in {self.origin})"
                raise self.reader.error(
                    f"{where} does not fit in columns{columns}: column {name!r}: {error}; pass schema="
                ) from error
        return pa.Table.from_pydict(arrays, schema=self.columns)

    def _with_time(self, table: pa.Table, column: str, time: Any) -> pa.Table:
        number = operator.index(time) if hasattr(time, "__index__") else None
        if number is None or number not in _TIMES:
            raise self.reader.error(
                f"the time {time!r} is no 64-bit integer, so it has no place in column {column!r}. "
                "Pass time=None, and add what you need of the time to the records"
            )
        return table.append_column(column, pa.repeat(pa.scalar(number, pa.int64()), table.num_rows))


def _refuse_fractions(values: Iterable[Any], kind: pa.DataType) -> None:
    """Raise if ``values`` has a fraction and ``kind`` is an integer type: Arrow would silently truncate it."""
    present = [value for value in values if value is not None]
    if pa.types.is_integer(kind):
        fraction = next((value for value in present if isinstance(value, Real) and value % 1 != 0), None)
        if fraction is not None:
            raise ValueError(f"{fraction!r} is no {kind}")
    elif pa.types.is_list(kind):
        lists = (value for value in present if isinstance(value, Iterable))
        _refuse_fractions(chain.from_iterable(lists), kind.value_type)
    elif pa.types.is_struct(kind):
        mappings = [value for value in present if isinstance(value, Mapping)]
        for field in kind:
            _refuse_fractions((value.get(field.name) for value in mappings), field.type)
    elif pa.types.is_map(kind):
        maps = [dict(value) for value in present]
        _refuse_fractions(chain.from_iterable(maps), kind.key_type)
        _refuse_fractions(chain.from_iterable(value.values() for value in maps), kind.item_type)
