"""Aggregates of columns by key, in three steps: partial results of rows, merged partial results, and the result.

A partial result is a table with a row for each group. Columns such as ``key word`` have the parts of the key. The other
columns have the values that aggregates need, such as ``count n``: the mean of the column ``n`` needs its sum and count,
the number of distinct values a list of them. So workers aggregate their own rows, and send only groups.

Arrow adds 64-bit integers modulo 2**64. So sums are kept as decimals, in columns named ``int64 n`` or ``uint64 n``
after the type of the result. Only a final sum beyond that type is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.batches.batches import concatenate_tables, shown
from tidewheel.operators.keys.columns import check_alike, check_has
from tidewheel.operators.keys.key_columns import as_key_column
from tidewheel.operators.tables.grouped_columns import group, group_lists, group_numbers, may_go_round, with_lists

if TYPE_CHECKING:
    import pyarrow as pa

FUNCTIONS = ("sum", "count", "min", "max", "mean", "any", "all", "count_distinct")
"""The aggregations of a column, by their names in Arrow's ``TableGroupBy``."""
COUNT_ROWS = "count_all"
"""The aggregation without a column: the number of rows."""

_WHOLE_SUMS = ("int64", "uint64")
_AGAIN = {"count": "sum", COUNT_ROWS: "sum", **dict.fromkeys(_WHOLE_SUMS, "sum")}
"""For each function that makes partial results, the function that merges them, if it is a different one."""
_CAST_IT = "cast the column to another type before, by select(...)"
_LISTS = {"mean": "list", "count_distinct": "distinct"}
"""The aggregates computed from lists of values, with the Arrow function that makes the lists."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A column of the result: its name, and an aggregation of ``column``; with None, the number of rows."""

    name: str
    column: str | None
    function: str

    def parts(self, schema: "pa.Schema") -> tuple[str, ...]:
        """Return the names of the partial results that the aggregate needs, for rows with ``schema``."""
        import pyarrow.types as kinds

        if self.column is None:
            return (self.function,)
        kind = schema.field(self.column).type
        if self.function == "mean":
            # The mean of decimals is a decimal, which Arrow rounds by its own rules.
            return ("list",) if kinds.is_decimal(kind) else (*Aggregate("", self.column, "sum").parts(schema), "count")
        if self.function == "sum" and (kinds.is_unsigned_integer(kind) or kinds.is_boolean(kind)):
            return ("uint64",)
        if self.function == "sum" and (kinds.is_integer(kind) or kinds.is_null(kind)):
            return ("int64",)
        if self.function == "count_distinct":
            # Arrow crashes on lists of a null column. Nulls do not count.
            return ("count",) if kinds.is_null(kind) else ("distinct",)
        return (self.function,)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates by key.

    >>> import pyarrow as pa
    >>> rows = pa.table({"word": ["a", "b", "a"], "n": [1, 2, 5]})
    >>> means = Aggregation(("word",), (Aggregate("mean", "n", "mean"),))
    >>> means.result([means.of_rows(rows), means.of_rows(rows[:1])]).to_pydict()
    {'word': ['a', 'b'], 'mean': [2.3333333333333335, 2.0]}
    """

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def exchange_key(self) -> str | tuple[str, ...]:
        """The key by which partial results are exchanged: a group goes where `exchange` sends its rows."""
        names = tuple([f"key {key}" for key in self.keys])
        return names[0] if len(names) == 1 else names

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*self.keys, *(made.column for made in self.aggregates if made.column is not None)]))

    def of_rows(self, rows: "pa.Table") -> "pa.Table":
        """Return the partial result of some rows.

        Raises:
            TypeError: a column is missing, or Arrow cannot group by it or compute its function.
        """
        import pyarrow as pa

        check_has(rows, self.columns)
        try:
            return self._known(rows)
        except pa.ArrowException as error:
            self._explain(rows.schema)
            raise ValueError(f"grouped by {', '.join(self.keys)}: {error}") from error

    def merged(self, tables: "Sequence[pa.Table]") -> "pa.Table":
        """Merge several partial results into one.

        Raises:
            TypeError: the types of a column differ.
        """
        if len(tables) == 1:
            return tables[0]
        import numpy as np
        import pyarrow as pa

        for other in tables[1:]:
            check_alike(_with_sums(other.schema), _with_sums(tables[0].schema))
        table = concatenate_tables(tables)
        parts = [(name, name.partition(" ")[0]) for name in table.column_names[len(self.keys) :]]
        lists = [(name, part) for name, part in parts if part in _LISTS.values()]
        plain = [
            (name, table.column(name), _AGAIN.get(part, part)) for name, part in parts if (name, part) not in lists
        ]
        if not lists:
            return group(self._keys(table), plain)
        rows = pa.chunked_array([np.arange(table.num_rows)])
        made = group(self._keys(table), [*plain, ("rows", rows, "list")])
        numbers = group_numbers(made.column("rows"))
        for name, part in lists:
            made = made.append_column(name, group_lists(numbers, table.column(name), part))
        return made.select(table.column_names)

    def result(self, tables: "Sequence[pa.Table]") -> "pa.Table":
        """Return a row for each group, with its key and the aggregates, from partial results."""
        import pyarrow as pa

        known = self.merged(tables)
        columns = [column for _, column in self._keys(known)]
        columns += [self._finished(known, made) for made in self.aggregates]
        return pa.table(columns, names=[*self.keys, *(made.name for made in self.aggregates)])

    def _known(self, rows: "pa.Table") -> "pa.Table":
        parts = dict.fromkeys((part, made.column) for made in self.aggregates for part in made.parts(rows.schema))
        made = group(
            [(f"key {key}", as_key_column(rows.column(key))) for key in self.keys],
            [
                (_named(part, name), _column(rows, name, part), "sum" if part in _WHOLE_SUMS else part)
                for part, name in parts
            ],
        )
        for place, (part, name) in enumerate(parts, len(self.keys)):
            if part in _WHOLE_SUMS:
                made = made.set_column(place, _named(part, name), _as_decimals(made.column(place)))
        return made

    def _keys(self, known: "pa.Table") -> "list[tuple[str, pa.ChunkedArray]]":
        return [(known.column_names[number], known.column(number)) for number in range(len(self.keys))]

    def _finished(self, known: "pa.Table", made: Aggregate) -> "pa.ChunkedArray":
        import numpy as np

        lists = _named(_LISTS.get(made.function, ""), made.column)
        if lists in known.column_names:
            return group_lists(np.arange(known.num_rows), known.column(lists), made.function)
        if made.function in {"sum", "mean"}:
            return self._from_sum(known, made)
        function = "count" if made.function == "count_distinct" else made.function
        return known.column(_named(function, made.column))

    def _from_sum(self, known: "pa.Table", made: Aggregate) -> "pa.ChunkedArray":
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        part = next(part for part in ("sum", *_WHOLE_SUMS) if _named(part, made.column) in known.column_names)
        total = known.column(_named(part, made.column))
        if made.function == "mean":
            return pc.divide(total.cast("float64"), known.column(_named("count", made.column)).cast("float64"))
        if part == "sum":
            return total
        try:
            return total.cast(part)
        except pa.ArrowInvalid as error:
            room = range(int(np.iinfo(part).min), int(np.iinfo(part).max) + 1)
            beyond = next(
                place for place, value in enumerate(total) if value.is_valid and int(value.as_py()) not in room
            )
            key = {name: column[beyond].as_py() for name, (_, column) in zip(self.keys, self._keys(known), strict=True)}
            raise OverflowError(
                f"{made.name}: the sum of column {made.column!r} has no room in {part} where the key is {key}. "
                "Cast the column to float64 or decimal128(38, 0) before, by select(...)"
            ) from error

    def _explain(self, schema: "pa.Schema") -> None:
        import pyarrow as pa

        rows = schema.empty_table()
        for key in self.keys:
            try:
                Aggregation((key,), ())._known(rows)
            except pa.ArrowException as error:
                what = f"Arrow cannot group by column {key!r} of {schema.field(key).type}"
                raise TypeError(f"{what}; a batch came with {shown(schema)}: {_CAST_IT}") from error
        for made in self.aggregates:
            try:
                Aggregation(self.keys, (made,))._known(rows)
            except pa.ArrowException as error:
                kind = schema.field(made.column).type
                what = f"{made.name}: Arrow has no {made.function!r} of column {made.column!r} of {kind}"
                raise TypeError(f"{what}; a batch came with {shown(schema)}: {_CAST_IT}") from error


def _named(part: str, column: str | None) -> str:
    return part if column is None else f"{part} {column}"


def _column(rows: "pa.Table", name: str | None, part: str) -> "pa.ChunkedArray | None":
    if name is None:
        return None
    column = rows.column(name)
    if part in _WHOLE_SUMS and may_go_round(column):
        return _as_decimals(column)
    return with_lists(column) if part == "distinct" else column


def _as_decimals(whole: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    return whole.cast(pa.decimal128(38, 0))


def _with_sums(known: "pa.Schema") -> "pa.Schema":
    import pyarrow as pa

    parts = [field.name.partition(" ") for field in known]
    return pa.schema(
        [
            pa.field(f"sum {column}", pa.type_for_alias(part)) if part in _WHOLE_SUMS else field
            for field, (part, _, column) in zip(known, parts, strict=True)
        ]
    )
