"""Joins of the tables of an epoch by names of columns.

In an outer join, a worker may have to fill a side's columns with nulls without having rows of that side. So the schema
of a stream is sent to all workers at the first times with rows. For each time, all workers know the schema or none
does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tidewheel.batches.batches import Batch, shown, take_slice
from tidewheel.operators.base.division import everywhere
from tidewheel.operators.epochs.gathered_epochs import build_gathered
from tidewheel.operators.joins.join_keys import JoinKeys
from tidewheel.operators.joins.record_join import How
from tidewheel.operators.joins.table_matching import Matches, match_equal, number_keys
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.operators.keys.arrow_rows import as_table, one_table
from tidewheel.operators.keys.columns import check_names
from tidewheel.progress import GraphError, Time, TimeDomain
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class JoinedColumns:
    """The columns of a join's result: those of this side, then those of the other side without its keys.

    Attributes:
        suffix: appended to the other side's column names that this side has, too.
        takes_either: whether a result may lack this side's row, so that its key comes from the other side's row.
    """

    keys: JoinKeys
    suffix: str = ""
    takes_either: bool = False

    def combine(self, left: "pa.Table", right: "pa.Table", matches: Matches) -> "pa.Table":
        """Return a row for each pair of row numbers; -1 stands for a row of nulls.

        Raises:
            ValueError: both sides have a column with the same name.
        """
        import pyarrow as pa

        left_rows, right_rows = (pa.array(rows, mask=rows < 0) for rows in matches)
        taken, others = left.take(left_rows), right.take(right_rows)
        columns = {name: taken.column(name) for name in left.column_names}
        if self.takes_either:
            for name, other_name in zip(self.keys.left.names, self.keys.right.names, strict=True):
                columns[name] = _either(name, columns[name], other_name, others.column(other_name))
        for name in right.column_names:
            if name not in self.keys.right.names:
                columns[self._free_name(name, left.column_names, columns)] = others.column(name)
        return pa.table(columns)

    def schema_of(self, operator: str, left: "pa.Schema | None", right: "pa.Schema | None") -> "pa.Schema | None":
        """Return the schema of the result; None if a side's schema is not known.

        Raises:
            GraphError: a key is missing, keys cannot be compared, or both sides have a column with the same name.
        """
        import pyarrow as pa

        check_names(operator, left, self.keys.left.names)
        check_names(operator, right, self.keys.right.names)
        if left is None or right is None:
            return None
        one, other = as_table(left.empty_table()), as_table(right.empty_table())
        try:
            return self.combine(one, other, match_equal(number_keys(self.keys, one, other))).schema
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise GraphError(
                f"operator {operator!r}: {error}; one side has {shown(left)}, the other {shown(right)}"
            ) from error

    def _free_name(self, name: str, lefts: Sequence[str], columns: dict[str, Any]) -> str:
        free = f"{name}{self.suffix}" if name in lefts else name
        if free in columns:
            raise ValueError(
                f"both sides of the join have a column {free!r}. Rename one before, or give the join another "
                "suffix= to put behind the names of the other side's"
            )
        return free


def _either(name: str, left: "pa.ChunkedArray", other_name: str, right: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa
    import pyarrow.compute as pc

    left, right = (
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in (left, right)
    )
    try:
        return pc.coalesce(left, right)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"the key columns {name!r} of {left.type} and {other_name!r} of {right.type} do not go into one column: "
            "cast one of them before"
        ) from error


def build_table_join(columns: JoinedColumns, how: How, promised: "Sequence[pa.Schema | None]", inputs: int) -> Build:
    """Build an operator that joins the tables of each epoch; O(n log n), with n rows.

    ``promised`` has the known schemas of both sides. An inner join has two inputs; other joins have two more, with
    schemas from other workers.
    """

    def process(
        kept: tuple[list[KnownSchemas], UnlikeKeys], batches: list[list[Batch]], token: TimestampToken
    ) -> Sequence[list[Batch]]:
        sides, unlike_keys = kept
        for known, announcements in zip(sides, batches[2:], strict=False):
            for schema in [schema for batch in announcements for schema in batch]:
                known.learn(token.domain, token.time, schema)
        if not (batches[0] or batches[1]):
            return ([],)
        left, right = (
            one_table(side) if side else known.empty_table(token.domain, token.time)
            for side, known in zip(batches, sides, strict=False)
        )
        table = _join(columns, how, left, right)
        unlike_keys.compare_tables(columns.keys, left, right)
        return ([] if table is None else [table],)

    def keep(context: OperatorContext) -> tuple[list[KnownSchemas], UnlikeKeys]:
        made = everywhere(KnownSchemas.merge)
        sides = [made.state(context, f"side {n}", partial(KnownSchemas, side)) for n, side in enumerate(promised)]
        return sides, UnlikeKeys(context)

    return build_gathered(inputs, process, keep)


def _join(columns: JoinedColumns, how: How, left: "pa.Table | None", right: "pa.Table | None") -> "pa.Table | None":
    if left is None and right is not None and columns.takes_either:
        left = right.select(columns.keys.right.names).slice(0, 0).rename_columns(columns.keys.left.names)
    if right is None and left is not None and how in {"left", "outer"}:
        return left
    if left is None or right is None:
        return None
    matches = match_equal(number_keys(columns.keys, left, right))
    return columns.combine(left, right, _with_lonely(matches, how, len(left), len(right)))


def _with_lonely(matches: Matches, how: How, lefts: int, rights: int) -> Matches:
    import numpy as np

    lonely_left = _missing(matches.left, lefts) if how in {"left", "outer"} else np.empty(0, np.int64)
    lonely_right = _missing(matches.right, rights) if how in {"right", "outer"} else np.empty(0, np.int64)
    return Matches(
        np.concatenate([matches.left, lonely_left, np.full(len(lonely_right), -1)]),
        np.concatenate([matches.right, np.full(len(lonely_left), -1), lonely_right]),
    )


def _missing(rows: Any, count: int) -> Any:
    import numpy as np

    missing = np.ones(count, np.bool_)
    missing[rows] = False
    return np.flatnonzero(missing)


@dataclass(slots=True)
class KnownSchemas:
    """The schemas of a stream, with the times from which they are known."""

    promised: "pa.Schema | None" = None
    schemas: "dict[Time, pa.Schema]" = field(default_factory=dict)

    def learn(self, domain: TimeDomain, time: Time, schema: "pa.Schema") -> bool:
        """Record that the stream has ``schema`` at ``time``; return whether this was not known before."""
        if self._at(domain, time) is not None:
            return False
        for later in [known for known in self.schemas if domain.less_equal(time, known)]:
            del self.schemas[later]
        self.schemas[time] = schema
        return True

    def merge(self, other: "KnownSchemas") -> "KnownSchemas":
        self.schemas.update(other.schemas)
        return self

    def empty_table(self, domain: TimeDomain, time: Time) -> "pa.Table | None":
        """Return an empty table with the columns known at ``time``; None if they are not known."""
        schema = self._at(domain, time)
        return None if schema is None else as_table(schema.empty_table())

    def _at(self, domain: TimeDomain, time: Time) -> "pa.Schema | None":
        if self.promised is not None:
            return self.promised
        return next((schema for known, schema in self.schemas.items() if domain.less_equal(known, time)), None)


def build_announce(domain: TimeDomain) -> Build:
    """Build an operator that sends the schema of a stream to workers that do not know it."""

    def build(context: OperatorContext) -> Schedule:
        known = everywhere(KnownSchemas.merge).state(context, "known", KnownSchemas)

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                schema = as_table(take_slice(batch, 0, 0)).schema
                if known.learn(domain, lent.time, schema):
                    output.send(lent, [schema])

        return schedule

    return build
