"""Columns computed from columns, and rows selected by a condition, with Arrow.

An execution plan with two nodes evaluates expressions in the calling thread, at about 50 µs for a batch. Columns that
are only named are passed on unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.batches.batches import Batch, is_numpy, shown
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.keys.columns import Expression, check_has

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a batch to keep, and the columns to add."""

    names: Sequence[str]
    expressions: Mapping[str, Expression]

    def of(self, batch: Batch) -> Batch:
        """Return the columns as a table; without expressions, a structured array stays a structured array.

        Raises:
            TypeError: a column is missing, or the batch has no columns.
            ValueError: an expression cannot be computed.
        """
        if not self.expressions and is_numpy(batch) and batch.dtype.names is not None:
            check_has(as_table(batch[:0]), self.names)
            return batch[list(self.names)]
        table = as_table(batch)
        check_has(table, self.names)
        kept = table.select(list(self.names))
        for name, made in zip(self.expressions, self._made(table), strict=True):
            kept = kept.append_column(name, made)
        return kept

    def _made(self, table: "pa.Table") -> "list[pa.ChunkedArray]":
        if not self.expressions:
            return []
        import pyarrow as pa
        from pyarrow import acero

        options = acero.ProjectNodeOptions(list(self.expressions.values()), list(self.expressions))
        try:
            columns: list[pa.ChunkedArray] = _run(table, acero.Declaration("project", options)).columns
        except pa.ArrowException as error:
            if len(self.expressions) > 1:
                for name, expression in self.expressions.items():
                    Projection((), {name: expression}).of(table)
            ((name, expression),) = self.expressions.items()
            raise _not_possible(f"{name} = {expression}", table, error) from error
        return columns


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows for which an expression is true; null counts as false."""

    condition: Expression

    def of(self, batch: Batch) -> "pa.Table":
        """Return the rows as a table.

        Raises:
            TypeError: the batch has no columns.
            ValueError: the expression cannot be computed, or is not a condition.
        """
        import pyarrow as pa
        from pyarrow import acero

        table = as_table(batch)
        try:
            return _run(table, acero.Declaration("filter", acero.FilterNodeOptions(self.condition)))
        except pa.ArrowException as error:
            raise _not_possible(str(self.condition), table, error) from error


def _run(table: "pa.Table", node: Any) -> "pa.Table":
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    return acero.Declaration.from_sequence([source, node]).to_table(use_threads=False)


def _not_possible(what: str, table: "pa.Table", error: Exception) -> ValueError:
    (reason,) = str(error).splitlines()[:1] or [""]
    if "not in range" in reason and "uint64" in map(str, table.schema.types):
        reason += ". Beside uint64, write whole numbers as pa.scalar(n, pa.uint64())"
    return ValueError(f"{what} is not possible with the columns {shown(table.schema)}: {reason}")
