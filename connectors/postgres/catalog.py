"""The tables of a publication, read from the database's catalog."""

from typing import TYPE_CHECKING, Any

from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.places import PublishedTable, TableColumn
from tidewheel.connectors.postgres.server import composed, names_of

if TYPE_CHECKING:
    from psycopg import Connection

LEAST_VERSION = 150000  # from this version on, a publication can choose columns and rows

_PUBLICATION = "SELECT pubinsert AND pubupdate AND pubdelete FROM pg_publication WHERE pubname = %s"
_TABLES = """
SELECT c.oid, p.schemaname, p.tablename, p.attnames::text[], p.rowfilter, c.relreplident
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = %s ORDER BY 2, 3
"""
_COLUMNS = """
SELECT attname, atttypid FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname = ANY (%s) ORDER BY attnum
"""
_KEY = """
SELECT (SELECT array_agg(attname::text ORDER BY place)
        FROM unnest(indkey[0:indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute ON attrelid = indrelid AND attnum = number)
FROM pg_index WHERE indrelid = %s AND CASE WHEN %s THEN indisreplident ELSE indisprimary END
"""


def published_tables(connection: "Connection[Any]", publication: str) -> tuple[PublishedTable, ...]:
    """Return the tables of a publication.

    Raises:
        PostgresError: there is no such publication, it does not publish all kinds of changes, or the log does not
            identify the rows of a table.
    """
    version = connection.info.server_version
    if version < LEAST_VERSION:
        raise PostgresError(f"PostgresChanges: the server is Postgres {version // 10000}, and has to be 15 or later")
    kinds = connection.execute(_PUBLICATION, (publication,)).fetchone()
    if kinds is None:
        raise PostgresError(
            f"PostgresChanges: the database has no publication {publication!r}. Run CREATE PUBLICATION {publication} "
            "FOR TABLE ..."
        )
    if not kinds[0]:
        raise PostgresError(
            f"PostgresChanges: publication {publication!r} leaves inserts, updates or deletes out. Run "
            f"ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate')"
        )
    tables = tuple(_table(connection, *row) for row in connection.execute(_TABLES, (publication,)).fetchall())
    if not tables:
        raise PostgresError(
            f"PostgresChanges: publication {publication!r} has no table. Run "
            f"ALTER PUBLICATION {publication} ADD TABLE ..."
        )
    return tables


def _table(
    connection: "Connection[Any]",
    oid: int,
    schema: str,
    name: str,
    published: list[str],
    row_filter: str | None,
    identity: bytes | str,
) -> PublishedTable:
    from psycopg.sql import Identifier

    found = connection.execute(_COLUMNS, (oid, published)).fetchall()
    query = composed("SELECT {} FROM {} LIMIT 0", names_of(column for column, _ in found), Identifier(schema, name))
    described = connection.execute(query).description or []
    columns = tuple(
        TableColumn(column, type_oid, values.type_code)
        for (column, type_oid), values in zip(found, described, strict=True)
    )
    letter = identity.decode() if isinstance(identity, bytes) else identity
    key = connection.execute(_KEY, (oid, letter == "i")).fetchone()
    if key is None or letter == "n":
        raise PostgresError(
            f"PostgresChanges: the log does not identify the rows of table {schema}.{name}. Give it a primary key, and "
            f"run ALTER TABLE {schema}.{name} REPLICA IDENTITY DEFAULT"
        )
    places = {column.name: place for place, column in enumerate(columns)}
    if missing := [column for column in key[0] if column not in places]:
        raise PostgresError(
            f"PostgresChanges: publication leaves {missing} of the key of table {schema}.{name} out. Add it"
        )
    return PublishedTable(oid, schema, name, columns, tuple(places[column] for column in key[0]), row_filter)
