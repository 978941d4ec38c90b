"""The source of the changes of tables: first a copy of them, then each transaction of the log.

The copy has the tables as they were when the slot was made, so no change is missing or doubled. The copy and each
transaction are units: no epoch ends within one. A copy that continues after a crash reads the remaining rows in their
current state. Its unit then also contains the changes made since the slot's creation. So all rows are of the same
moment when the unit ends.
"""

import logging
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidewheel.connectors.postgres.catalog import published_tables
from tidewheel.connectors.postgres.errors import PostgresError
from tidewheel.connectors.postgres.pgoutput import Begin, Commit, Message, lsn_of
from tidewheel.connectors.postgres.places import Copied, CopyPlace, LogPlace, Place
from tidewheel.connectors.postgres.server import Server, composed, one_row
from tidewheel.connectors.postgres.slot import Slot
from tidewheel.connectors.postgres.table_changes import Record, TableChanges
from tidewheel.connectors.postgres.table_copy import Texts, copy_tables
from tidewheel.host.retry import Retry
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Source, Unit
from tidewheel.runtime.description.secret import Secret
from tidewheel.runtime.errors import ConfigError

if TYPE_CHECKING:
    from psycopg import Connection

LOGGER: Final = logging.getLogger(__name__)

_MOST_RECORDS: Final = 2_000
_PAUSE_S: Final = 0.05
_MOVES_EVERY_S: Final = 1.0
_BEATS_EVERY_S: Final = 10.0
_WAITS_S: Final = 60.0
_TELLS_AFTER_S: Final = 5.0
_NAME: Final = re.compile(r"[a-z0-9_]{1,40}")

_Reading: TypeAlias = Generator[Fetched[Record] | Pause, None, LogPlace]
"""Yields batches, and returns the place after them."""


class PostgresChanges(Source[Record]):
    """The tables of a publication in Postgres 15 or later, and all their changes, for `Dataflow.source`.

    A record is a pair ``(key, row)``, for `Stream.as_collection(upserts=True)`. The key is a tuple of the table's name
    and the values of the key columns, such as ``("public.tides", 7)``. The row is a tuple of all columns, None if the
    row was deleted. A table needs a primary key, or an index as its replica identity.

    The first epoch is a copy of all tables. Later epochs have one or more complete transactions. In a job with
    snapshots, a run continues from the last snapshot. Otherwise it copies the tables anew. The source has no end.

    Args:
        conninfo: a connection string of libpq, or a URI, without a password; its user has the attribute REPLICATION.
        slot: the source makes a replication slot with the name ``tidewheel_<slot>``, for which the server keeps its
            log. Drop the slot with `pg_drop_replication_slot` when no job needs it any more.
        publication: the name of the publication; by default the slot's name.
        password: the password, as a `Secret`; None if a password file or service file has it, or none is needed.

    Raises:
        ConfigError: an argument is wrong, or the extra ``postgres`` is missing.
    """

    endless = True

    def __init__(
        self, conninfo: str, slot: str, *, publication: str | None = None, password: Secret | None = None
    ) -> None:
        server = Server("PostgresChanges", conninfo, password)
        if not (isinstance(slot, str) and _NAME.fullmatch(slot)):
            raise ConfigError(f"PostgresChanges: slot has up to 40 letters a-z, digits and underscores, not {slot!r}")
        self._slot = Slot(server, f"tidewheel_{slot}", slot if publication is None else publication)
        self.retry = Retry(within_s=60, first_pause_s=0.1, longest_pause_s=5, jitter=0.5, on=server.passing_errors)

    def __repr__(self) -> str:
        return f"PostgresChanges({self._slot.name!r}, {self._slot.server!r})"

    def partitions(self) -> list[Partition]:
        """Return the slot as the only partition, since transactions have one order."""
        return [self._slot.name]

    def open(self, partition: Partition, position: Place | None) -> Iterator[Fetched[Record] | Pause]:
        """Read from a place on; without one, copy the tables first."""
        with self._slot.session() as connection:
            yield from self._wait_for_turn(connection)
            if position is not None:
                self._slot.check(connection, position)
            if isinstance(position, LogPlace):
                place = position
            else:
                copying = self._copy_anew(connection) if position is None else self._copy_rest(position)
                place = yield from copying
                yield Fetched([], place, is_whole=place.is_whole)
            yield from self._follow(connection, place)

    def saved(self, partition: Partition, position: Place) -> None:
        """Let the server forget the log before this place."""
        if isinstance(position, LogPlace):
            self._slot.advance(position.lsn)

    def behind(self, partition: Partition, position: Place | None) -> Mapping[Unit, float] | None:
        """Return how many bytes the log of the server has after a place; None until the slot is made."""
        if position is None:
            return None
        with self._slot.session() as connection:
            return {"bytes": max(0, self._slot.end_of_log(connection) - position.lsn)}

    def _wait_for_turn(self, connection: "Connection[Any]") -> Iterator[Pause]:
        until_s = time.monotonic() + _WAITS_S
        while not self._slot.is_mine(connection):
            if time.monotonic() > until_s:
                raise PostgresError(
                    f"{self._slot}: another connection reads it, since {_WAITS_S:g} s at least. Each job needs a slot "
                    "of its own"
                )
            yield Pause(_PAUSE_S)

    # ------------------------------------------------------------------ the copy

    def _copy_anew(self, connection: "Connection[Any]") -> _Reading:
        (level,) = one_row(connection, "SHOW wal_level")
        if level != "logical":
            raise PostgresError(
                f"PostgresChanges: the server has wal_level = {level}. Set wal_level = logical, and restart the server"
            )
        published_tables(connection, self._slot.publication)  # so that a wrong one leaves no slot behind
        (system,) = one_row(connection, "SELECT system_identifier FROM pg_control_system()")
        began_s, is_told = time.monotonic(), False
        with closing(self._slot.create(connection)) as making:
            while (exported := next(making)) is None:
                if not is_told and time.monotonic() - began_s > _TELLS_AFTER_S:
                    is_told = True
                    LOGGER.warning("%s waits until all open transactions have ended: see pg_stat_activity", self)
                yield Pause(0)
            with self._slot.session() as copying, copying.transaction():
                copying.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                copying.execute(composed("SET TRANSACTION SNAPSHOT {}", exported.name))
                making.close()
                copied = Copied(system, exported.lsn, published_tables(copying, self._slot.publication))
                return (yield from copy_tables(copying, CopyPlace(copied), exported.lsn))

    def _copy_rest(self, place: CopyPlace) -> _Reading:
        with self._slot.session() as copying, copying.transaction():
            copying.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            (end,) = one_row(copying, "SELECT pg_current_wal_insert_lsn() FROM (SELECT pg_current_snapshot()) AS taken")
            return (yield from copy_tables(copying, place, lsn_of(end)))

    # ------------------------------------------------------------------ the log

    def _follow(self, connection: "Connection[Any]", place: LogPlace) -> Iterator[Fetched[Record] | Pause]:
        changes = TableChanges(place.copied.tables, Texts(connection))
        copy = self._slot.copy(connection, place.lsn)
        read_to, told = place.lsn, set[str]()
        moved_s = beaten_s = time.monotonic()
        while True:
            end, began_s = self._slot.end_of_log(connection), time.monotonic()
            if end > read_to:
                before = place
                place = yield from _transactions(copy.read(end), changes, place)
                read_to = place.lsn if copy.has_more else max(end, place.lsn)
                moved_s = moved_s if place == before else began_s
                self._tell_of(changes.left_out - told)
                told |= changes.left_out
            if copy.has_more:
                continue
            if read_to > place.lsn and (began_s - moved_s > _MOVES_EVERY_S or not place.is_whole):
                moved_s = began_s
                place = LogPlace(place.copied, read_to, 0, place.whole_lsn)
                yield Fetched([], place, is_whole=place.is_whole)
            if began_s - beaten_s > _BEATS_EVERY_S:
                beaten_s = began_s
                copy.beat()
            yield Pause(max(_PAUSE_S, time.monotonic() - began_s))

    def _tell_of(self, names: set[str]) -> None:
        for name in sorted(names):
            LOGGER.warning("%s: %s is new, so nothing of it was copied, and records leave it out", self, name)


def _transactions(messages: Iterable[Message], changes: TableChanges, place: LogPlace) -> _Reading:
    """Yield records, of several transactions or of a part of one at a time; return the place after them."""
    batch: list[Record] = []
    sent, seen = place, 0
    for message in messages:
        if isinstance(message, Begin):
            continue
        if isinstance(message, Commit):
            place, seen = LogPlace(place.copied, message.end_lsn, 0, place.whole_lsn), 0
        else:
            found = changes.records(message)
            batch += found[max(0, place.records - seen) :]
            seen += len(found)
        if len(batch) >= _MOST_RECORDS:
            place = LogPlace(place.copied, place.lsn, seen, place.whole_lsn)
            yield Fetched(batch, place, is_whole=place.is_whole)
            batch, sent = [], place
    if place != sent:
        yield Fetched(batch, place, is_whole=place.is_whole)
    return place
