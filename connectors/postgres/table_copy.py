"""The copy of tables, in the order of their keys, and the conversion of texts to values."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.places import CopyPlace, LogPlace, PublishedTable
from tidewheel.connectors.postgres.server import composed, names_of
from tidewheel.connectors.postgres.table_changes import Record
from tidewheel.operators.sources.contract import Fetched

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

_MOST_ROWS: Final = 2_000


def copy_tables(
    connection: "Connection[Any]", place: CopyPlace, whole_lsn: int
) -> Generator[Fetched[Record], None, LogPlace]:
    """Yield the rows of tables from a place on; return the place in the log that follows. The unit does not end here.

    Args:
        connection: a connection in a transaction that sees the tables at one moment.
        place: the place in the copy to begin at.
        whole_lsn: the LSN of that moment.
    """
    copied = place.copied
    for number, table in enumerate(copied.tables):
        if number < place.table:
            continue
        batch: list[Record] = []
        query = _query(table, place.key if number == place.table else None)
        with connection.cursor() as cursor, cursor.copy(query) as rows:
            rows.set_types([column.value_oid for column in table.columns])
            for row in rows.rows():
                key = tuple(row[place] for place in table.key)
                batch.append(((table.name, *key), row))
                if len(batch) == _MOST_ROWS:
                    yield Fetched(batch, CopyPlace(copied, number, key), is_whole=False)
                    batch = []
        yield Fetched(batch, CopyPlace(copied, number + 1), is_whole=False)
    return LogPlace(copied, copied.slot_lsn, 0, whole_lsn)


def _query(table: PublishedTable, after: tuple[Any, ...] | None) -> "Composed":
    from psycopg.sql import SQL, Identifier, Literal

    key = names_of(table.columns[place].name for place in table.key)
    conditions: list[Composable] = [SQL("true"), SQL(table.row_filter or "true")]
    if after is not None:
        conditions.append(SQL("({}) > ({})").format(key, SQL(", ").join(map(Literal, after))))
    return composed(
        "COPY (SELECT {} FROM {} WHERE {} ORDER BY {}) TO STDOUT",
        names_of(column.name for column in table.columns),
        Identifier(table.schema, table.table),
        SQL(" AND ").join(conditions),
        key,
    )


class Texts:
    """Converts texts to values by the types of their columns, as psycopg does."""

    def __init__(self, connection: "Connection[Any]") -> None:
        from psycopg import DataError
        from psycopg.adapt import Transformer
        from psycopg.pq import Format

        self._error = DataError
        self._text = Format.TEXT
        self._transformer = Transformer(connection)
        self._table: PublishedTable | None = None

    def __call__(self, table: PublishedTable, texts: Sequence[bytes | None]) -> tuple[Any, ...]:
        """Return the values of a row.

        Raises:
            PostgresError: Python cannot hold a value.
        """
        if table is not self._table:
            self._transformer.set_loader_types([column.value_oid for column in table.columns], self._text)
            self._table = table
        try:
            return self._transformer.load_sequence(texts)
        except self._error as error:
            raise PostgresError(f"table {table.name}: Python has no value for {texts!r:.500}: {error}") from error
