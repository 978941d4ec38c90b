"""The epochs of a grouping: workers aggregate their rows, and the owners of groups merge the partial results.

A worker holds the partial results of an epoch, and up to about as many rows.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidewheel.batches.batches import Batch, concatenate_tables
from tidewheel.operators.epochs.fold import Fold, Gathered
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.keys.columns import check_alike, check_has
from tidewheel.operators.tables.aggregation import Aggregation

if TYPE_CHECKING:
    import pyarrow as pa

ENOUGH_ROWS = 1 << 17
"""The least number of rows for which a call of Arrow is worth its time."""


@dataclass(slots=True)
class Rows:
    """The state of an epoch on a worker that receives rows."""

    waiting: "list[pa.Table]" = field(default_factory=list)
    count: int = 0
    known: Gathered = field(default_factory=Gathered)
    schema: "pa.Schema | None" = None


def rows_fold(aggregation: Aggregation) -> Fold:
    """Return the fold of an epoch's rows, on the workers that receive them, into partial results.

    Raise TypeError if batches have different columns.
    """

    def add(state: Rows, batch: Batch) -> Rows:
        table = as_table(batch)
        check_has(table, aggregation.columns)
        rows = table.select(aggregation.columns)
        state.schema = state.schema or rows.schema
        check_alike(rows.schema, state.schema)
        state.waiting.append(rows)
        state.count += rows.num_rows
        if state.count >= max(state.known.records, ENOUGH_ROWS):
            aggregate(state)
        return state

    def aggregate(state: Rows) -> None:
        rows, state.waiting, state.count = state.waiting, [], 0
        if rows:
            state.known.add(aggregation.of_rows(concatenate_tables(rows)), aggregation.merged, ENOUGH_ROWS)

    def finish(state: Rows) -> "pa.Table":
        aggregate(state)
        return aggregation.merged(state.known.batches)

    def merge(one: Rows, other: Rows) -> Rows:
        count = one.count + other.count
        return Rows(one.waiting + other.waiting, count, one.known.merge(other.known), one.schema or other.schema)

    return Fold(Rows, add, finish, merge=merge)


def groups_fold(aggregation: Aggregation) -> Fold:
    """Return the fold of all workers' partial results into the result, on the workers that own the groups."""

    def add(state: Gathered, batch: Batch) -> Gathered:
        state.add(batch, aggregation.merged, ENOUGH_ROWS)
        return state

    def finish(state: Gathered) -> "pa.Table":
        return aggregation.result(state.batches)

    return Fold(Gathered, add, finish, split=Gathered.split, merge=Gathered.merge)
