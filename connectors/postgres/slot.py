"""A replication slot, read by SQL functions instead of the replication protocol.

The server keeps the log from the slot's place on. The source reads through a copy of the slot, a temporary slot that
ends with its connection. Reading moves the copy; the slot itself moves only when a snapshot has saved a place.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from select import select
from typing import TYPE_CHECKING, Any, Final

from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.pgoutput import Message, decode, lsn_of, lsn_text
from tidewheel.connectors.postgres.places import Place
from tidewheel.connectors.postgres.server import Server, composed, one_row
from tidewheel.connectors.postgres.table_changes import AGAIN

if TYPE_CHECKING:
    from psycopg import Connection

_MOST_CHANGES: Final = 20_000
"""The number of messages after which a reading ends, at the end of a transaction."""

_FETCH: Final = 2_000
_LOOK_S: Final = 0.5
_CANCEL_S: Final = 2.0
_SESSION: Final = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}
"""The settings of a session on which the texts of values depend."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported snapshot: the state of all tables at one LSN, which other connections can read."""

    name: str
    lsn: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot of a server, and the publication to read through it.

    Attributes:
        name: its name in ``pg_replication_slots``.
    """

    server: Server
    name: str
    publication: str

    def __str__(self) -> str:
        return f"slot {self.name!r}"

    @contextmanager
    def session(self) -> "Iterator[Connection[Any]]":
        """Connect for a ``with`` block, with settings that make the texts of values the same everywhere."""
        with self.server.connected(f"PostgresChanges, {self}") as connection:
            for name, value in _SESSION.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            yield connection

    def is_mine(self, connection: "Connection[Any]") -> bool:
        """Reserve the slot for this connection until it ends; return False if another one has reserved it."""
        return bool(one_row(connection, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", self.name)[0])

    def create(self, connection: "Connection[Any]") -> "Generator[Exported | None]":
        """Make the slot anew; yield the state of the tables where it begins, valid until this generator goes on.

        The server waits until open transactions have ended; meanwhile this yields None twice a second.
        """
        from psycopg.errors import error_from_result
        from psycopg.pq import ExecStatus

        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        connection.execute(query, (self.name,))
        with self.server.connect(replicates=True) as walsender:
            sender = walsender.pgconn
            sender.send_query(f"CREATE_REPLICATION_SLOT {self.name} LOGICAL pgoutput (SNAPSHOT 'export')".encode())
            try:
                while sender.is_busy():
                    if not select([sender.socket], [], [], _LOOK_S)[0]:
                        yield None
                    sender.consume_input()
            except GeneratorExit:
                walsender.cancel_safe(timeout=_CANCEL_S)
                select([sender.socket], [], [], _CANCEL_S)  # until the server has let the slot go
                raise
            made = sender.get_result()
            assert made is not None, "a command has a result"
            if made.status != ExecStatus.TUPLES_OK:
                raise error_from_result(made)
            while sender.get_result() is not None:
                pass
            place, name = made.get_value(0, 1) or b"", made.get_value(0, 2) or b""
            yield Exported(name.decode(), lsn_of(place.decode()))

    def check(self, connection: "Connection[Any]", place: Place) -> None:
        """Raise PostgresError if the slot no longer has the complete log from a place on."""
        query = "SELECT system_identifier, pg_current_wal_flush_lsn() FROM pg_control_system()"
        system, end = one_row(connection, query)
        if system != place.copied.system:
            raise PostgresError(f"{self}: the job has read another server: its number is not {system}. {AGAIN}")
        query = (
            "SELECT confirmed_flush_lsn, wal_status, database = current_database() AND plugin = 'pgoutput' "
            "FROM pg_replication_slots WHERE slot_name = %s"
        )
        found = connection.execute(query, (self.name,)).fetchone()
        if found is None:
            raise PostgresError(f"{self}: it was dropped, and changes since then are lost. {AGAIN}")
        confirmed, status, fits = found
        if not fits:
            raise PostgresError(f"{self}: it is one of another database or plugin. {AGAIN}")
        if status == "lost" or confirmed is None:
            raise PostgresError(
                f"{self}: the server has removed the log that it needs, which was longer than max_slot_wal_keep_size. "
                f"{AGAIN}"
            )
        if lsn_of(confirmed) > place.lsn:
            raise PostgresError(
                f"{self}: it is at {confirmed}, and the job at {lsn_text(place.lsn)}: it was made anew, or another job "
                f"has moved it, and the changes between are lost. {AGAIN}"
            )
        if lsn_of(end) < place.lsn:
            raise PostgresError(
                f"{self}: the log of the server ends at {end}, and the job is at {lsn_text(place.lsn)}: it was "
                f"restored from an older state. {AGAIN}"
            )

    def end_of_log(self, connection: "Connection[Any]") -> int:
        """Return the place after everything that is durable in the log of the server."""
        return lsn_of(one_row(connection, "SELECT pg_current_wal_flush_lsn()")[0])

    def advance(self, lsn: int) -> None:
        """Let the server delete the log before an LSN; an LSN earlier than the slot's has no effect."""
        with self.server.connected(f"PostgresChanges, {self}") as connection:
            query = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
            found = connection.execute(query, (self.name,)).fetchone()
            if found is None:
                raise PostgresError(f"{self}: it was dropped, and changes since then are lost. {AGAIN}")
            if found[0] is not None and lsn_of(found[0]) < lsn:
                connection.execute("SELECT pg_replication_slot_advance(%s, %s)", (self.name, lsn_text(lsn)))

    def copy(self, connection: "Connection[Any]", lsn: int) -> "SlotCopy":
        """Return a copy of the slot that begins at an LSN; the copy ends with the connection."""
        name = f"{self.name}_{connection.info.backend_pid}"
        made = one_row(connection, "SELECT lsn FROM pg_copy_logical_replication_slot(%s, %s, true)", self.name, name)
        if lsn_of(made[0]) < lsn:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s)", (name, lsn_text(lsn)))
        return SlotCopy(connection, name, self.publication)


@dataclass(slots=True)
class SlotCopy:
    """A temporary slot, which moves as it is read.

    Attributes:
        has_more: whether the last call of `read` has ended before the end of the log.
    """

    connection: "Connection[Any]"
    name: str
    publication: str
    has_more: bool = False

    def read(self, end: int) -> Iterator[Message]:
        """Yield the messages of complete transactions, after the last read transaction and up to an LSN."""
        query = composed(
            "SELECT data FROM pg_logical_slot_get_binary_changes({}, {}, {}, 'proto_version', '1', "
            "'publication_names', {})",
            self.name,
            lsn_text(end),
            _MOST_CHANGES,
            '"' + self.publication.replace('"', '""') + '"',
        )
        count = 0
        with self.connection.transaction(), self.connection.cursor(name="tidewheel") as cursor:
            cursor.itersize = _FETCH
            for (data,) in cursor.execute(query, binary=True):
                count += 1
                message = decode(data)
                if message is not None:
                    yield message
        self.has_more = count >= _MOST_CHANGES

    def beat(self) -> None:
        """Write a message of a few bytes into the log, so that the slot can move while all tables are idle."""
        self.connection.execute("SELECT pg_logical_emit_message(false, 'tidewheel', '')")
