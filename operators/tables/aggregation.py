"""Aggregates of columns by key, in steps: of some rows, of what is known of several lots of rows, and in the end.

What is known of some rows is a table with a row for each group. A column ``key word`` has a part of its key, and a
column ``sum n`` what the others are made of: for sum or mean of the column ``n`` that is its sum, for the number of
distinct values a list of them. So rows are aggregated where they are, and only groups travel.

A sum of whole numbers of 64 bits is one modulo 2**64, as Arrow has it. Beside it stands ``about n``, the sum of the
same as floats: far from exact, but it tells how often the other went round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.operators.records.arrow_rows import as_table
from tidewheel.operators.tables.columns import check_alike, check_has, shown
from tidewheel.operators.tables.grouped_columns import (
    group,
    group_lists,
    group_numbers,
    may_go_round,
    one_key,
    rounds,
    with_lists,
)
from tidewheel.transport.batches import concatenate_tables

if TYPE_CHECKING:
    import pyarrow as pa

FUNCTIONS = ("sum", "count", "min", "max", "mean", "any", "all", "count_distinct")
"""What can be asked of a column, as Arrow's ``TableGroupBy`` names it."""
COUNT_ROWS = "count_all"
"""What can be asked of no column in particular: the number of rows."""

_ABOUT = "about"
_AGAIN = {"count": "sum", COUNT_ROWS: "sum", _ABOUT: "sum"}
"""How two of a column are put together, where it is not by the function that makes it."""
_CAST_IT = "cast the column to another type before, by select(...)"
_LISTS = {"mean": "list", "count_distinct": "distinct"}
"""What is made of lists of values, and how the lists are."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A column of the result: its name, and which function of which column it is, of None for the number of rows."""

    name: str
    column: str | None
    function: str

    def parts(self, schema: "pa.Schema") -> tuple[str, ...]:
        """Return what has to be known of the rows, of which ``schema`` has the columns."""
        import pyarrow.types as kinds

        if self.column is None:
            return (self.function,)
        kind = schema.field(self.column).type
        if self.function == "mean":
            # The mean of decimals is one, and Arrow knows best how it is rounded.
            return ("list",) if kinds.is_decimal(kind) else (*Aggregate("", self.column, "sum").parts(schema), "count")
        if self.function == "sum" and (kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_null(kind)):
            return ("sum", _ABOUT)
        if self.function == "count_distinct":
            # Arrow crashes on lists of what is always null; none of it counts.
            return ("count",) if kinds.is_null(kind) else ("distinct",)
        return (self.function,)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates by key.

    Attributes:
        keys: the columns of the key.
        aggregates: the other columns of the result.

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
        """What tables of what is known are exchanged by: a group goes where `exchange` by its key sends its rows."""
        names = tuple([f"key {key}" for key in self.keys])
        return names[0] if len(names) == 1 else names

    @property
    def columns(self) -> list[str]:
        """The columns that are used, each once."""
        return list(dict.fromkeys([*self.keys, *(made.column for made in self.aggregates if made.column is not None)]))

    def of_rows(self, rows: "pa.Table") -> "pa.Table":
        """Return what is known of some rows.

        Raises:
            TypeError: there is no such column, Arrow cannot group by one, or has no such function of one.
        """
        import pyarrow as pa

        check_has(rows, self.columns)
        try:
            return self._known(rows)
        except pa.ArrowException as error:
            self._explain(rows.schema)
            raise ValueError(f"grouped by {', '.join(self.keys)}: {error}") from error

    def merged(self, tables: "Sequence[pa.Table]") -> "pa.Table":
        """Return what is known of all rows, given what is known of several lots of them."""
        if len(tables) == 1:
            return tables[0]
        import numpy as np
        import pyarrow as pa

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

    def check(self, known: "pa.Schema", other: "pa.Schema") -> None:
        """Raise TypeError, naming the column, unless what is known of rows goes with what is known of others."""
        import pyarrow as pa

        # Sums have something beside them if they are whole numbers: it is their types that are wrong otherwise.
        one, two = (
            pa.schema([field for field in schema if not field.name.startswith(f"{_ABOUT} ")])
            for schema in (known, other)
        )
        check_alike(one, two)

    def result(self, tables: "Sequence[pa.Table]") -> "pa.Table":
        """Return a row for each group, its key and the aggregates, given what is known of several lots of rows."""
        import pyarrow as pa

        known = self.merged(tables)
        columns = [column for _, column in self._keys(known)]
        columns += [self._finished(known, made) for made in self.aggregates]
        return pa.table(columns, names=[*self.keys, *(made.name for made in self.aggregates)])

    def schema_of(self, schema: "pa.Schema") -> "pa.Schema":
        """Return the schema of the result, given that of the rows. Raises TypeError as `of_rows` does."""
        return self.result([self.of_rows(as_table(schema.empty_table()))]).schema

    def _known(self, rows: "pa.Table") -> "pa.Table":
        parts = dict.fromkeys((part, made.column) for made in self.aggregates for part in made.parts(rows.schema))
        # Where no sum can go round, what it is about is made of the few sums, and not of the many rows.
        derived = [name for part, name in parts if part == _ABOUT and name and not may_go_round(rows.column(name))]
        made = group(
            [(f"key {key}", one_key(rows.column(key))) for key in self.keys],
            [
                (_named(part, name), _column(rows, name, part), _AGAIN[_ABOUT] if part == _ABOUT else part)
                for part, name in parts
                if part != _ABOUT or name not in derived
            ],
        )
        for name in derived:
            made = made.append_column(
                _named(_ABOUT, name), made.column(_named("sum", name)).cast("float64", safe=False)
            )
        return made.select([*made.column_names[: len(self.keys)], *(_named(part, name) for part, name in parts)])

    def _keys(self, known: "pa.Table") -> "list[tuple[str, pa.ChunkedArray]]":
        return [(known.column_names[number], known.column(number)) for number in range(len(self.keys))]

    def _finished(self, known: "pa.Table", made: Aggregate) -> "pa.ChunkedArray":
        import numpy as np
        import pyarrow.compute as pc

        lists = _named(_LISTS.get(made.function, ""), made.column)
        if lists in known.column_names:
            return group_lists(np.arange(known.num_rows), known.column(lists), made.function)
        if made.function == "mean":
            return pc.divide(self._total(known, made), known.column(_named("count", made.column)).cast("float64"))
        if made.function == "sum":
            self._check_sum(known, made)
        function = "count" if made.function == "count_distinct" else made.function
        return known.column(_named(function, made.column))

    def _total(self, known: "pa.Table", made: Aggregate) -> "pa.ChunkedArray":
        """Return the sum of a column as floats; one of more than 53 bits is rounded, as in Arrow's own mean."""
        import pyarrow as pa
        import pyarrow.compute as pc

        total = known.column(_named("sum", made.column))
        floats = total.cast("float64", safe=False)
        if _named(_ABOUT, made.column) in known.column_names:
            turns = rounds(total, known.column(_named(_ABOUT, made.column)))
            if turns.any():
                floats = pc.add(floats, pa.array(turns * 2.0**64, mask=floats.is_null().to_numpy()))
        return floats

    def _check_sum(self, known: "pa.Table", made: Aggregate) -> None:
        about = _named(_ABOUT, made.column)
        if about not in known.column_names:
            return
        total = known.column(_named("sum", made.column))
        beyond = rounds(total, known.column(about)).nonzero()[0]
        if len(beyond):
            key = {
                name: column[int(beyond[0])].as_py()
                for name, (_, column) in zip(self.keys, self._keys(known), strict=True)
            }
            raise OverflowError(
                f"{made.name}: the sum of column {made.column!r} has no room in {total.type} where the key is {key}. "
                "Cast the column to float64 or decimal128(38, 0) before, by select(...)"
            )

    def _explain(self, schema: "pa.Schema") -> None:
        """Raise TypeError, naming the column, if there is one that Arrow cannot group by or has no such function of."""
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
    if part == _ABOUT:
        return column.cast("float64", safe=False)
    return with_lists(column) if part == "distinct" else column
