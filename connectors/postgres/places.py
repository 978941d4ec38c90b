"""The place of a reader of changes, in the copy of the tables or in the log. Snapshots keep it."""

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        type_oid: the number of its type.
        value_oid: the number of the type of its values: for a domain, its base type; otherwise the same.
    """

    name: str
    type_oid: int
    value_oid: int


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a publication, as it was when the copy began.

    Attributes:
        oid: its number, which stays when it is renamed.
        name: its name with its schema, as records have it.
        columns: the columns that rows in records have.
        key: the indexes of the columns by which the log identifies a row.
        row_filter: the condition that published rows meet, as SQL; None if all rows are published.
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
    """The tables that a reader copies, and whose changes it then follows.

    Attributes:
        system: the number that identifies the server's data.
        slot_lsn: the place in the log where the slot begins.
    """

    system: int
    slot_lsn: int
    tables: tuple[PublishedTable, ...]


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """A place in the copy: in the table with a number, after a key, or at the table's beginning."""

    copied: Copied
    table: int = 0
    key: tuple[Any, ...] | None = None

    @property
    def lsn(self) -> int:
        """The place from which on the log is still needed."""
        return self.copied.slot_lsn


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log.

    Attributes:
        lsn: the place after a transaction.
        records: how many records of the next transaction the reader has passed.
        whole_lsn: the copy may contain changes up to this place; only after it do the records agree with the database.
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
