"""An index that finds the rows of earlier epochs by key: tables sorted by the hashes of keys.

Each epoch adds a sorted table, and two tables of similar size are merged, so each row is sorted O(log n) times. A
look-up is a binary search in each table.

Source: the log-structured merge tree (O'Neil et al., 1996), and the arrangements of McSherry et al., "Shared
Arrangements" (VLDB 2020).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidewheel.batches.batches import Batch, concatenate_tables
from tidewheel.operators.base.division import Division, split_batches
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.joins.table_join import JoinedColumns
from tidewheel.operators.joins.table_matching import Matches, have_same_keys, match_hashes
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.operators.keys.arrow_rows import one_table
from tidewheel.operators.keys.key_columns import hash_rows
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.runtime.description.pacts import Exchange
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.worker.operator_context import OperatorContext

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


class SortedTable(NamedTuple):
    """Rows sorted by the hashes of their keys, without rows whose key matches nothing."""

    hashes: "npt.NDArray[np.uint64]"
    rows: "pa.Table"


def sort_by_key(table: "pa.Table", keys: Keys) -> SortedTable:
    """Return the rows of ``table`` sorted by the hashes of their keys."""
    import pyarrow.compute as pc

    for name in keys.names:
        missing = pc.is_null(table.column(name), nan_is_null=True)
        if pc.any(missing).as_py():
            table = table.filter(pc.invert(missing))
    return _sorted(hash_rows(table, keys), table)


@dataclass(slots=True)
class TableIndex:
    """Finds all added rows by their keys."""

    keys: Keys
    tables: list[SortedTable] = field(default_factory=list)

    @property
    def some_rows(self) -> "pa.Table | None":
        return self.tables[0].rows if self.tables else None

    def add(self, new: SortedTable) -> None:
        """Add rows; over all calls, each row is sorted O(log n) times."""
        if len(new.rows):
            self.tables.append(new)
        while len(self.tables) > 1 and len(self.tables[-2].rows) <= 2 * len(self.tables[-1].rows):
            self.tables.append(_merged(self.tables.pop(), self.tables.pop()))

    def split(self, workers: int) -> "list[TableIndex]":
        assert self.keys.key is not None, "keys stand in columns"
        shares = [TableIndex(self.keys) for _ in range(workers)]
        for worker, tables in enumerate(split_batches([t.rows for t in self.tables], Exchange(self.keys.key), workers)):
            for rows in tables:
                shares[worker].add(sort_by_key(rows, self.keys))
        return shares

    def merge(self, other: "TableIndex") -> "TableIndex":
        for table in other.tables:
            self.add(table)
        return self

    def match(self, wanted: SortedTable, keys: Keys) -> "Iterator[tuple[pa.Table, Matches]]":
        """Yield the tables that have keys of ``wanted``, with the pairs (row of ``wanted``, row of the table)."""
        for known in self.tables:
            matches = match_hashes(wanted.hashes, known.hashes)
            same = have_same_keys(
                [wanted.rows.column(name).take(matches.left) for name in keys.names],
                [known.rows.column(name).take(matches.right) for name in self.keys.names],
            )
            if same.any():
                yield known.rows, Matches(matches.left[same], matches.right[same])


def _sorted(hashes: "npt.NDArray[np.uint64]", rows: "pa.Table") -> SortedTable:
    import numpy as np

    order = np.argsort(hashes)
    return SortedTable(hashes[order], rows.take(order))


def _merged(one: SortedTable, other: SortedTable) -> SortedTable:
    import numpy as np

    return _sorted(np.concatenate([one.hashes, other.hashes]), concatenate_tables([one.rows, other.rows]))


def build_table_join_across_epochs(columns: JoinedColumns) -> Build:
    """Build an operator that joins new tables with each other and with all earlier tables."""
    keys, other_keys = columns.keys

    def process(
        kept: tuple[TableIndex, TableIndex, UnlikeKeys], batches: list[list[Batch]], token: object
    ) -> list[list[Batch]]:
        kept_lefts, kept_rights, unlike_keys = kept
        found: list[Batch] = []
        if (rows := one_table(batches[1])) is not None:
            right = sort_by_key(rows, other_keys)
            for known, (new, old) in kept_lefts.match(right, other_keys):
                found.append(columns.combine(known, right.rows, Matches(old, new)))
            kept_rights.add(right)
        if (rows := one_table(batches[0])) is not None:
            left = sort_by_key(rows, keys)
            for known, matches in kept_rights.match(left, keys):
                found.append(columns.combine(left.rows, known, matches))
            kept_lefts.add(left)
        unlike_keys.compare_tables(columns.keys, kept_lefts.some_rows, kept_rights.some_rows)
        return [found]

    def keep(context: OperatorContext) -> tuple[TableIndex, TableIndex, UnlikeKeys]:
        made = Division(TableIndex.split, TableIndex.merge)
        sides = (("lefts", keys), ("rights", other_keys))
        lefts, rights = (made.state(context, name, partial(TableIndex, side)) for name, side in sides)
        return lefts, rights, UnlikeKeys(context)

    return build_gathered(2, process, keep)
