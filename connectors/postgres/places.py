"""Where a reader of changes is: in the copy of the tables, or in the log. Snapshots keep these."""

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        type_oid: the number of its type.
        value_oid: the type of its values: that on which a domain stands, else the same.
    """

    name: str
    type_oid: int
    value_oid: int


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a publication, as it was when the copy began.

    Attributes:
        oid: its number, which it keeps under another name.
        name: with its schema; records have it.
        columns: those of its rows in records.
        key: the places of the columns by which the log identifies a row.
        row_filter: the condition of published rows, as SQL; None for all.
    """

    oid: int
    schema: str
    table: str
    columns: tuple[TableColumn, ...]
    key: tuple[int, ...]
    row_filter: str | None

    @property
    def name(self) -> str:
        """Its name with its schema."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Copied:
    """What a reader copies, and then follows.

    Attributes:
        system: the number of the server's data, which other servers do not have.
        slot_lsn: the place in the log from which the slot was made.
    """

    system: int
    slot_lsn: int
    tables: tuple[PublishedTable, ...]


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """A place in the copy: in the table of a number, behind a key, or at its begin."""

    copied: Copied
    table: int = 0
    key: tuple[Any, ...] | None = None

    @property
    def lsn(self) -> int:
        """What the log must still have."""
        return self.copied.slot_lsn


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log.

    Attributes:
        lsn: behind a transaction.
        records: how many records of the next transaction are behind the reader.
        whole_lsn: before it, the records lag behind the copy, parts of which are younger than the slot.
    """

    copied: Copied
    lsn: int
    records: int = 0
    whole_lsn: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the records up to here are the tables as they were at one moment."""
        return self.records == 0 and self.lsn >= self.whole_lsn


Place: TypeAlias = CopyPlace | LogPlace
