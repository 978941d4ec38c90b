"""The position of a reader of changes, in the copy of the tables or in the log. Snapshots contain it."""

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        type_oid: the OID of its type.
        value_oid: the OID of the type of its values: the base type of a domain; otherwise ``type_oid``.
    """

    name: str
    type_oid: int
    value_oid: int


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a publication, as it was when the copy began.

    Attributes:
        oid: its OID, which stays the same when the table is renamed.
        name: its schema and name, as in records.
        columns: the columns of rows in records.
        key: the indexes of the columns by which the log identifies a row.
        row_filter: the publication's row filter, as SQL; None if all rows are published.
    """

    oid: int
    schema: str
    table: str
    columns: tuple[TableColumn, ...]
    key: tuple[int, ...]
    row_filter: str | None

    @property
    def name(self) -> str:
        """The name of the table with its schema."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Copied:
    """The tables that a reader copies first and then follows in the log.

    Attributes:
        system: the number that identifies the server's data.
        slot_lsn: the place in the log where the slot begins.
    """

    system: int
    slot_lsn: int
    tables: tuple[PublishedTable, ...]


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """A place in the copy: the index of a table, and the last key read; None before the first row."""

    copied: Copied
    table: int = 0
    key: tuple[Any, ...] | None = None

    @property
    def lsn(self) -> int:
        """The LSN from which the log is still needed."""
        return self.copied.slot_lsn


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log.

    Attributes:
        lsn: the LSN after a transaction.
        records: the number of records of the next transaction already read.
        whole_lsn: the copy may contain changes up to this LSN. From there on, the records agree with the database.
    """

    copied: Copied
    lsn: int
    records: int = 0
    whole_lsn: int = 0

    @property
    def is_whole(self) -> bool:
        """True if the records so far make the tables as they were at one moment."""
        return self.records == 0 and self.lsn >= self.whole_lsn


Place: TypeAlias = CopyPlace | LogPlace
