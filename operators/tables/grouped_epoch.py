"""The epochs of a grouping: rows are aggregated where they came, and what is known of them where their groups belong.

What a worker keeps of an epoch is what is known of its groups, about as many rows again that wait until there are
enough of them to be aggregated at once, and no more than twice that while it is put together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewheel.operators.records.arrow_rows import as_table
from tidewheel.operators.tables.aggregation import Aggregation
from tidewheel.operators.tables.columns import check_alike, check_has
from tidewheel.transport.batches import Batch, concatenate_tables

if TYPE_CHECKING:
    import pyarrow as pa

ENOUGH_ROWS = 1 << 17
"""So many rows are worth a call of Arrow's."""


@dataclass(slots=True)
class Known:
    """Tables of what is known of the groups of an epoch.

    Attributes:
        tables: a group may be in several.
        rows: how many rows they have together.
        groups: how many groups there were when tables were put together.
    """

    tables: "list[pa.Table]" = field(default_factory=list)
    rows: int = 0
    groups: int = 0

    def add(self, aggregation: Aggregation, table: "pa.Table") -> None:
        """Add a table; put all together when they are twice as many rows as groups, so that it takes linear time."""
        if self.tables:
            aggregation.check(table.schema, self.tables[0].schema)
        self.tables.append(table)
        self.rows += table.num_rows
        if self.rows >= max(2 * self.groups, ENOUGH_ROWS) and len(self.tables) > 1:
            self.tables = [aggregation.merged(self.tables)]
            self.rows = self.groups = self.tables[0].num_rows


@dataclass(slots=True)
class Rows:
    """What is kept of an epoch where its rows come.

    Attributes:
        schema: that of the columns that are used, once it is known.
        known: what is known of the rows.
        waiting: rows that are not part of that yet.
        count: how many these are.
    """

    schema: "pa.Schema | None"
    known: Known = field(default_factory=Known)
    waiting: "list[pa.Table]" = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True, slots=True)
class RowsFold:
    """Makes of the rows of an epoch, where they came, a table of what is known of their groups.

    Attributes:
        aggregation: what is asked.
        schema: that of the columns that are used, None if it is not known.
    """

    aggregation: Aggregation
    schema: "pa.Schema | None"

    def start(self) -> Rows:
        """Return no rows."""
        return Rows(self.schema)

    def add(self, state: Rows, batch: Batch) -> Rows:
        """Take in a batch; raise TypeError if its columns are not those of the others, or of the stream."""
        table = as_table(batch)
        check_has(table, self.aggregation.columns)
        rows = table.select(self.aggregation.columns)
        if state.schema is None:
            state.schema = rows.schema
        check_alike(rows.schema, state.schema)
        state.waiting.append(rows)
        state.count += rows.num_rows
        if state.count >= max(state.known.rows, ENOUGH_ROWS):
            self._aggregate(state)
        return state

    def finish(self, state: Rows) -> "Iterable[pa.Table]":
        """Return what is known of the rows."""
        self._aggregate(state)
        return [self.aggregation.merged(state.known.tables)]

    def _aggregate(self, state: Rows) -> None:
        if not state.waiting:
            return
        rows = concatenate_tables(state.waiting)
        state.waiting, state.count = [], 0
        state.known.add(self.aggregation, self.aggregation.of_rows(rows))


@dataclass(frozen=True, slots=True)
class GroupsFold:
    """Makes of what is known of an epoch's groups, where they belong, the result."""

    aggregation: Aggregation

    def start(self) -> Known:
        """Return nothing."""
        return Known()

    def add(self, state: Known, batch: Batch) -> Known:
        """Take in what one worker knows; raise TypeError if the columns it had were not those of the others."""
        state.add(self.aggregation, batch)
        return state

    def finish(self, state: Known) -> "Iterable[pa.Table]":
        """Return a row for each group."""
        return [self.aggregation.result(state.tables)]
