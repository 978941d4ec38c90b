"""Rows found again by key: tables of earlier epochs, sorted by the hashes of their keys.

Each epoch adds a sorted table, and two of about the same size become one: there are few of them, and a row is sorted
anew O(log n) times. Looking up some rows costs a binary search in each table, however many rows there are.

Source: the log-structured merge tree (O'Neil et al., 1996), and the arrangements of differential dataflow that it leads
to (McSherry et al., "Shared Arrangements", VLDB 2020).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.joins.table_matching import Matches, have_same_keys, match_hashes
from tidewheel.operators.keys.join_keys import KeyColumns
from tidewheel.operators.records.arrow_rows import one_table
from tidewheel.runtime.description.stable_hash import hash_column, hash_tuples
from tidewheel.transport.batches import Batch, concatenate_tables

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Names = tuple[str, ...]


class SortedTable(NamedTuple):
    """Rows in order of the hashes of their keys, without those whose keys match nothing."""

    hashes: "npt.NDArray[np.uint64]"
    rows: "pa.Table"


def sort_by_key(table: "pa.Table", names: Names) -> SortedTable:
    """Return the rows of ``table`` in order of the hashes of what is in columns ``names``."""
    rows = _matchable(table, names)
    return _sorted(_hashes(rows, names), rows)


@dataclass(slots=True)
class TableIndex:
    """All rows that were added, by what is in columns ``names``."""

    names: Names
    tables: list[SortedTable] = field(default_factory=list)

    def add(self, new: SortedTable) -> None:
        """Add rows; over all calls each is sorted O(log n) times."""
        if len(new.rows):
            self.tables.append(new)
        while len(self.tables) > 1 and len(self.tables[-2].rows) <= 2 * len(self.tables[-1].rows):
            self.tables.append(_merged(self.tables.pop(), self.tables.pop()))

    def match(self, wanted: SortedTable, names: Names) -> "Iterator[tuple[pa.Table, Matches]]":
        """Yield tables with rows that have the keys of those in ``wanted``.

        Each comes with the pairs (row of ``wanted``, row there).
        """
        for known in self.tables:
            matches = match_hashes(wanted.hashes, known.hashes)
            same = have_same_keys(
                [wanted.rows.column(name).take(matches.left) for name in names],
                [known.rows.column(name).take(matches.right) for name in self.names],
            )
            if same.any():
                yield known.rows, Matches(matches.left[same], matches.right[same])


def _hashes(table: "pa.Table", names: Names) -> "npt.NDArray[np.uint64]":
    columns = [hash_column(table.column(name)) for name in names]
    return columns[0] if len(columns) == 1 else hash_tuples(columns)


def _matchable(table: "pa.Table", names: Names) -> "pa.Table":
    import pyarrow.compute as pc

    for name in names:
        missing = pc.is_null(table.column(name), nan_is_null=True)
        if pc.any(missing).as_py():
            table = table.filter(pc.invert(missing))
            break
    else:
        return table
    return _matchable(table, names)


def _sorted(hashes: "npt.NDArray[np.uint64]", rows: "pa.Table") -> SortedTable:
    import numpy as np

    order = np.argsort(hashes)
    return SortedTable(hashes[order], rows.take(order))


def _merged(one: SortedTable, other: SortedTable) -> SortedTable:
    import numpy as np

    return _sorted(np.concatenate([one.hashes, other.hashes]), concatenate_tables([one.rows, other.rows]))


@dataclass(slots=True)
class KeptTables:
    """All rows of earlier epochs on both sides."""

    lefts: TableIndex
    rights: TableIndex


@dataclass(frozen=True, slots=True)
class TableJoinAcrossEpochs:
    """Joins the tables of an epoch with each other and with those of all epochs before."""

    keys: KeyColumns
    suffix: str

    @property
    def columns(self) -> JoinedColumns:
        """What the result is made of."""
        return JoinedColumns(self.keys, self.suffix)

    def start(self) -> KeptTables:
        """Return what is kept before the first epoch."""
        return KeptTables(TableIndex(self.keys.left), TableIndex(self.keys.right))

    def process(self, kept: KeptTables, epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return the rows that an epoch brings; its tables are kept."""
        lefts, rights = epoch.batches
        columns = self.columns
        found: list[Batch] = []
        if (rows := one_table(rights)) is not None:
            right = sort_by_key(rows, self.keys.right)
            for known, (new, old) in kept.lefts.match(right, self.keys.right):
                found.append(columns.combine(known, right.rows, Matches(old, new)))
            kept.rights.add(right)
        if (rows := one_table(lefts)) is not None:
            left = sort_by_key(rows, self.keys.left)
            for known, matches in kept.rights.match(left, self.keys.left):
                found.append(columns.combine(left.rows, known, matches))
            kept.lefts.add(left)
        return (found,)
