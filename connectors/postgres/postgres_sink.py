"""The sink that stores each epoch in a table, in one transaction together with the epoch's number.

The sink copies an epoch into a temporary table, and merges it from there. So readers see complete epochs, and a crash
leaves nothing behind. A table ``tidewheel_epochs`` in the same database has the last epoch of each sink.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from tidewheel.batches.batches import Batch, is_arrow, records
from tidewheel.connectors.base.refused_records import refused_records
from tidewheel.connectors.postgres.epoch_rows import EpochRows, epoch_rows
from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.server import Server, composed, equal, names_of, one_row, said_by
from tidewheel.host.retry import Retry
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import Time
from tidewheel.runtime.description.secret import Secret
from tidewheel.runtime.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection
    from psycopg.sql import Composed, Identifier

LOGGER: Final = logging.getLogger(__name__)

_LOCK: Final = 0x74696465  # "tide"; its holder may create the table of epochs
_LEAST_VERSION: Final = 150000  # the first version with MERGE
_PIECE_ROWS: Final = 100_000
_TWICE: Final = ("21000", "23505")
"""The error codes for a key that occurs twice."""


class PostgresSink(Sink):
    """A sink that stores each epoch once in a table of Postgres 15 or later, for `Stream.sink`.

    Records are tuples in the order of the table's columns, dicts by column, or Arrow tables. Without a key, each record
    is inserted. With a key, a record replaces the row with the same key, and `Deleted(key)` deletes the row. If an
    epoch has several records with one key, the last one counts. To keep their order, send all records of a key to one
    worker, with `Stream.exchange`.

    Args:
        conninfo: a connection string of libpq, or a URI, without a password.
        table: the name of the table, with its schema unless that is in the search path.
        key: the columns of a primary key or unique index, or the name of a single column; None to insert all rows.
        password: the password, as a `Secret`; None if a password file or service file has it, or none is needed.
        name: the name of the sink in the table ``tidewheel_epochs``; by default the name of the table. Jobs that write
            to the same table need different names.

    Raises:
        ConfigError: an argument is wrong, or the extra ``postgres`` is missing.
    """

    def __init__(
        self,
        conninfo: str,
        table: str,
        *,
        key: str | Sequence[str] | None = None,
        password: Secret | None = None,
        name: str | None = None,
    ) -> None:
        self._server = Server("PostgresSink", conninfo, password)
        self._table = table
        self._key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._name = table if name is None else name
        self._columns: tuple[str, ...] = ()
        self.retry = Retry(
            within_s=60, first_pause_s=0.1, longest_pause_s=5, jitter=0.5, on=self._server.passing_errors
        )
        if not all(table.split(".")) or table.count(".") > 1:
            raise ConfigError(f"PostgresSink: table is a name such as 'tides' or 'harbour.tides', not {table!r}")
        if key is not None and not self._key:
            raise ConfigError("PostgresSink: key has no columns. Leave it out to insert all rows")

    def __repr__(self) -> str:
        return f"PostgresSink({self._table!r}, {self._server!r})"

    def prepare(self, epoch: Time, records: Batch) -> EpochRows:
        """Return the last row of each key and the deleted keys."""
        if not self._columns:
            self.last_committed()
        return epoch_rows(records, self._columns, self._key)

    def refused(self, records: Batch) -> dict[int, Exception]:
        """Return the records that do not fit into the columns of the table, or break a check of it.

        The server takes them into a temporary table, and forgets them. Unique keys, foreign keys and triggers are not
        tried, since they depend on other rows.
        """
        if not self._columns:
            self.last_committed()
        found: dict[int, Exception] = {}

        def look(connection: "Connection[Any]") -> None:
            with connection.transaction(force_rollback=True):
                query = "CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING CONSTRAINTS)"
                connection.execute(composed(query, self._tried, self._target))
                attempt = partial(self._try_rows, connection)
                found.update(refused_records(records, attempt, _is_of_a_record))

        self._try(look)
        return found

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        """Merge an epoch into the table and record its number, in one transaction."""
        if not isinstance(epoch, int):
            raise PostgresError(f"{self!r}: SQL compares epochs as integers, and this one is {epoch!r}")
        self._try(lambda connection: self._store(connection, epoch, parts))

    def last_committed(self) -> Time | None:
        """Return the last epoch of this sink in the database; raise PostgresError if the table does not fit."""
        last: list[int | None] = []

        def look(connection: "Connection[Any]") -> None:
            self._check(connection)
            query = "SELECT max(epoch) FROM tidewheel_epochs WHERE sink = %s"
            last[:] = one_row(connection, query, self._name) if self._has_epochs(connection) else [None]

        self._try(look)
        return last[0]

    def _try(self, attempt: Callable[["Connection[Any]"], None]) -> None:
        def note(error: Exception, failures: int) -> None:
            LOGGER.warning("%r waits for the server, after attempt %d: %s", self, failures, str(error).strip())

        def connect() -> None:
            with self._server.connected(repr(self)) as connection, connection.transaction():
                attempt(connection)

        try:
            self.retry.call(connect, on_failure=note)
        except self._server.passing_errors as error:
            raise PostgresError(f"{self!r}: no success for {self.retry.within_s:g} s: {str(error).strip()}") from error

    @property
    def _tried(self) -> "Identifier":
        from psycopg.sql import Identifier

        return Identifier("pg_temp", "tidewheel_tried")

    def _try_rows(self, connection: "Connection[Any]", records: Batch) -> None:
        """Copy records into the table for attempts, and take that back."""
        part = epoch_rows(records, self._columns, self._key)
        with connection.transaction(force_rollback=True):
            query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attnotnull"
            for (name,) in connection.execute(query, (self._tried.as_string(connection),)).fetchall():
                if name not in part.columns:  # the table has a value of its own for it
                    connection.execute(composed("ALTER TABLE {} ALTER {} DROP NOT NULL", self._tried, names_of([name])))
            _copy(connection, self._tried, part.columns, part.rows)
            if part.deleted:
                keys = self._temporary(connection, "tidewheel_tried_keys", self._key)
                _copy(connection, keys, self._key, part.deleted)

    # ------------------------------------------------------------------ the transaction of an epoch

    def _store(self, connection: "Connection[Any]", epoch: int, parts: list[EpochRows]) -> None:
        if not self._note(connection, epoch):
            return
        if deleted := [key for part in parts for key in part.deleted]:
            keys = self._temporary(connection, "tidewheel_deleted", self._key)
            _copy(connection, keys, self._key, deleted)
            query = "DELETE FROM {} AS old USING {} AS new WHERE {}"
            connection.execute(composed(query, self._target, keys, equal(self._key)))
        for number, columns in enumerate(dict.fromkeys(part.columns for part in parts)):
            rows = self._temporary(connection, f"tidewheel_rows_{number}", columns)
            for part in parts:
                if part.columns == columns:
                    _copy(connection, rows, columns, part.rows)
            self._merge(connection, rows, columns)

    def _has_epochs(self, connection: "Connection[Any]") -> bool:
        return bool(one_row(connection, "SELECT to_regclass(%s) IS NOT NULL", "tidewheel_epochs")[0])

    def _note(self, connection: "Connection[Any]", epoch: int) -> bool:
        """Record an epoch; return False if it is committed already.

        If another writer's transaction is open, wait for its end.
        """
        if not self._has_epochs(connection):
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            query = "CREATE TABLE IF NOT EXISTS tidewheel_epochs (sink text PRIMARY KEY, epoch bigint NOT NULL)"
            connection.execute(query)
        query = (
            "INSERT INTO tidewheel_epochs AS noted VALUES (%s, %s) ON CONFLICT (sink) DO UPDATE SET "
            "epoch = excluded.epoch WHERE noted.epoch < excluded.epoch"
        )
        return connection.execute(query, (self._name, epoch)).rowcount == 1

    @property
    def _target(self) -> "Identifier":
        from psycopg.sql import Identifier

        return Identifier(*self._table.split("."))

    def _temporary(self, connection: "Connection[Any]", name: str, columns: Iterable[str]) -> "Identifier":
        from psycopg.sql import Identifier

        made = Identifier("pg_temp", name)
        query = "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
        connection.execute(composed(query, made, names_of(columns), self._target))
        return made

    def _merge(self, connection: "Connection[Any]", rows: "Identifier", columns: Sequence[str]) -> None:
        from psycopg import Error

        try:
            connection.execute(self._merges(rows, columns) if self._key else self._inserts(rows, columns))
        except Error as error:
            if self._key and error.sqlstate in _TWICE:
                raise PostgresError(
                    f"{self!r}: two workers have rows with the same key {list(self._key)} in one epoch, and either "
                    f"could be the last. Send those of a key to one worker, with Stream.exchange: {said_by(error)}"
                ) from error
            raise

    def _inserts(self, rows: "Identifier", columns: Sequence[str]) -> "Composed":
        names = names_of(columns)
        return composed("INSERT INTO {} ({}) SELECT {} FROM {}", self._target, names, names, rows)

    def _merges(self, rows: "Identifier", columns: Sequence[str]) -> "Composed":
        rest = [name for name in columns if name not in self._key]
        update = composed("UPDATE SET {}", equal(rest, "{0} = new.{0}", ", ")) if rest else composed("DO NOTHING")
        query = (
            "MERGE INTO {} AS old USING {} AS new ON {} WHEN MATCHED THEN {} "
            "WHEN NOT MATCHED THEN INSERT ({}) VALUES ({})"
        )
        new = equal(columns, "new.{0}", ", ")
        return composed(query, self._target, rows, equal(self._key), update, names_of(columns), new)

    # ------------------------------------------------------------------ the table

    def _check(self, connection: "Connection[Any]") -> None:
        """Read the columns of the table; raise PostgresError if it does not fit."""
        version = connection.info.server_version
        if version < _LEAST_VERSION:
            raise PostgresError(f"{self!r}: the server is Postgres {version // 10000}, and MERGE needs 15 or later")
        (table,) = one_row(connection, "SELECT to_regclass(%s)::oid", self._target.as_string(connection))
        if table is None:
            raise PostgresError(f"{self!r}: the database has no table {self._table!r} that this user sees. Create it")
        found = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped "
            "AND attgenerated = '' ORDER BY attnum",
            (table,),
        )
        columns = tuple(name for (name,) in found)
        if missing := [name for name in self._key if name not in columns]:
            raise PostgresError(f"{self!r}: key has {missing}, and the columns of the table are {list(columns)}")
        unique = connection.execute(
            "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
            "AND attnum = ANY (indkey[:indnkeyatts - 1]) WHERE indrelid = %s AND indisunique AND indpred IS NULL "
            "AND indexprs IS NULL GROUP BY indexrelid",
            (table,),
        )
        if self._key and not any(set(names) == set(self._key) for (names,) in unique):
            raise PostgresError(
                f"{self!r}: no primary key or unique index of the table has just the columns {list(self._key)}, so a "
                "key could have two rows. Create one, or give the columns of one as key="
            )
        self._columns = columns


def _is_of_a_record(error: Exception) -> bool:
    """Tell whether a record is at fault: its form, a value, or a value that has no form in SQL.

    The client raises TypeError or ValueError, as for a key that is a list, and for half a surrogate pair in a text.
    """
    from psycopg import DataError, IntegrityError, ProgrammingError

    has_no_form = isinstance(error, ProgrammingError) and error.sqlstate is None
    return has_no_form or isinstance(error, PostgresError | DataError | IntegrityError | TypeError | ValueError)


def _copy(connection: "Connection[Any]", table: "Identifier", columns: Sequence[str], rows: Any) -> None:
    if is_arrow(rows) and not all(map(_has_text, rows.schema.types)):
        rows = [tuple(row.values()) for row in records(rows)]
    form = "csv" if is_arrow(rows) else "text"
    query = composed("COPY {} ({}) FROM STDIN (FORMAT " + form + ")", table, names_of(columns))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        if is_arrow(rows):
            for piece in _as_csv(rows):
                copy.write(piece)
        else:
            for row in rows:
                copy.write_row(row)


def _has_text(kind: "pa.DataType") -> bool:
    """Tell whether Postgres can read the text that Arrow writes for values of this type."""
    from pyarrow import types

    tests = ("boolean", "integer", "floating", "decimal", "string", "large_string", "date", "timestamp", "null")
    return any(getattr(types, f"is_{name}")(kind) for name in tests)


def _as_csv(table: "pa.Table | pa.RecordBatch") -> Iterator[memoryview]:
    from pyarrow.csv import WriteOptions, write_csv

    for start in range(0, table.num_rows, _PIECE_ROWS):
        written = BytesIO()
        write_csv(table.slice(start, _PIECE_ROWS), written, WriteOptions(include_header=False))
        yield written.getbuffer()
