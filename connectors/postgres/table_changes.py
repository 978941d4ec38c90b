"""The conversion of a slot's messages to records, without I/O.

A record is a pair of key and row. The key is a tuple of the table's name and the values of its key. The row is a tuple
of all copied columns; None if it was deleted. A table may be renamed or get more columns. Records leave out new columns
and new tables, since they were not copied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.pgoutput import UNCHANGED, Delete, Insert, Relation, Text, Truncate, Update
from tidewheel.connectors.postgres.places import PublishedTable

Record: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...] | None]
Load: TypeAlias = Callable[[PublishedTable, Sequence[bytes | None]], tuple[Any, ...]]
"""Converts the texts of all columns of a table to values."""

AGAIN: Final = "To copy the tables again, start the job with another slot= and another folder of snapshots"


@dataclass(frozen=True, slots=True)
class _Layout:
    """The indexes of the copied columns in a table's messages, and whether all columns identify a row."""

    table: PublishedTable
    places: tuple[int, ...]
    is_full: bool


class TableChanges:
    """Converts the changes of tables to records.

    Args:
        tables: the tables that were copied.
        load: converts texts to values.

    Attributes:
        left_out: the names of new tables and columns, whose changes were left out.
    """

    def __init__(self, tables: Sequence[PublishedTable], load: Load) -> None:
        self._tables = {table.oid: table for table in tables}
        self._names = {table.name: table for table in tables}
        self._load = load
        self._layouts: dict[int, _Layout | None] = {}
        self.left_out: set[str] = set()

    def records(self, message: Relation | Insert | Update | Delete | Truncate) -> list[Record]:
        """Return the records of a message.

        Raises:
            PostgresError: the definition of a table has changed in a way that records cannot express.
        """
        if isinstance(message, Relation):
            self._layouts[message.oid] = self._layout_of(message)
            return []
        if isinstance(message, Truncate):
            return self._refuse_truncated(message)
        layout = self._layouts[message.relation]
        if layout is None:
            return []
        if isinstance(message, Delete):
            return [(self._key_of(layout, message.old), None)]
        row = self._row(layout, message)
        key = self._key(layout, row)
        if isinstance(message, Update) and message.old is not None:
            before = self._key_of(layout, message.old)
            if before != key:
                return [(before, None), (key, row)]
        return [(key, row)]

    # ------------------------------------------------------------------ rows

    def _row(self, layout: _Layout, message: Insert | Update) -> tuple[Any, ...]:
        old = message.old if isinstance(message, Update) and layout.is_full else None
        texts: list[bytes | None] = []
        for column, place in zip(layout.table.columns, layout.places, strict=True):
            text = message.new[place]
            if text is UNCHANGED and old is not None:
                text = old[place]
            if text is UNCHANGED:
                raise PostgresError(
                    f"table {layout.table.name}: an update has left the long value of column {column.name!r} as it "
                    f"was, and the log does not have it. Run ALTER TABLE {layout.table.name} REPLICA IDENTITY FULL. "
                    f"{AGAIN}"
                )
            texts.append(text)
        return self._load(layout.table, texts)

    def _key(self, layout: _Layout, row: Sequence[Any]) -> tuple[Any, ...]:
        return layout.table.name, *(row[place] for place in layout.table.key)

    def _key_of(self, layout: _Layout, old: Sequence[Text]) -> tuple[Any, ...]:
        """Return the key of a row; ``old`` has at least the key's columns."""
        texts: list[bytes | None] = [None] * len(layout.places)
        for number in layout.table.key:
            text = old[layout.places[number]]
            texts[number] = None if text is UNCHANGED else text
        return self._key(layout, self._load(layout.table, texts))

    # ------------------------------------------------------------------ tables that change

    def _layout_of(self, relation: Relation) -> _Layout | None:
        table = self._tables.get(relation.oid)
        if table is None:
            if relation.name in self._names:
                raise PostgresError(f"table {relation.name} was dropped and made anew. {AGAIN}")
            self.left_out.add(f"table {relation.name}")
            return None
        found = {column.name: place for place, column in enumerate(relation.columns)}
        for column in table.columns:
            place = found.pop(column.name, None)
            if place is None:
                raise PostgresError(
                    f"table {table.name} has lost its column {column.name!r}, or it is not published any more. {AGAIN}"
                )
            if relation.columns[place].type_oid != column.type_oid:
                raise PostgresError(f"table {table.name}: column {column.name!r} has another type than before. {AGAIN}")
        self.left_out.update(f"column {table.name}.{name}" for name in found)
        places = {column.name: place for place, column in enumerate(relation.columns)}
        keys = {column.name for column in relation.columns if column.is_key}
        is_full = len(keys) == len(relation.columns)
        if not is_full and keys != {table.columns[place].name for place in table.key}:
            raise PostgresError(
                f"table {table.name}: the log identifies its rows by {sorted(keys)}, and no more by the key that it "
                f"had. {AGAIN}"
            )
        return _Layout(table, tuple(places[column.name] for column in table.columns), is_full)

    def _refuse_truncated(self, message: Truncate) -> list[Record]:
        for oid in message.relations:
            layout = self._layouts.get(oid)
            if layout is not None:
                raise PostgresError(
                    f"table {layout.table.name} was truncated, and the log does not say which rows it had. Use DELETE. "
                    f"{AGAIN}"
                )
        return []
