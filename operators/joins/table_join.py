"""Joins by names of columns: what comes in and what comes out are Arrow tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch
from tidewheel.operators.joins.known_schemas import KnownSchemas
from tidewheel.operators.joins.pair_join import How
from tidewheel.operators.joins.table_matching import Matches, match_equal, number_rows
from tidewheel.operators.keys.join_keys import KeyColumns
from tidewheel.operators.records.arrow_rows import as_table, one_table
from tidewheel.operators.tables.columns import check_names, shown
from tidewheel.progress import GraphError
from tidewheel.transport.batches import Batch

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class JoinedColumns:
    """The columns of a result: this side's, then those of the other that are no keys.

    Attributes:
        keys: the key columns; in the result they have this side's names.
        suffix: what is put behind the names of the other side's columns that this side has too.
        takes_either: whether a row may come from the other side alone, whose keys are in it then.
    """

    keys: KeyColumns
    suffix: str = ""
    takes_either: bool = False

    def combine(self, left: "pa.Table", right: "pa.Table", matches: Matches) -> "pa.Table":
        """Return a row for each pair of rows; -1 in place of a row makes nulls.

        Raises:
            ValueError: both sides have a column of one name.
        """
        import pyarrow as pa

        left_rows, right_rows = (pa.array(rows, mask=rows < 0) for rows in matches)
        taken, others = left.take(left_rows), right.take(right_rows)
        columns = {name: taken.column(name) for name in left.column_names}
        if self.takes_either:
            for name, other_name in zip(self.keys.left, self.keys.right, strict=True):
                columns[name] = _either(name, columns[name], other_name, others.column(other_name))
        for name in right.column_names:
            if name not in self.keys.right:
                columns[self._free_name(name, left.column_names, columns)] = others.column(name)
        return pa.table(columns)

    def schema_of(self, operator: str, left: "pa.Schema | None", right: "pa.Schema | None") -> "pa.Schema | None":
        """Return the schema that comes of those of both sides; None if one is not known.

        Raises:
            GraphError: a key is missing, keys cannot be compared, or both sides have a column of one name.
        """
        import pyarrow as pa

        check_names(operator, left, self.keys.left)
        check_names(operator, right, self.keys.right)
        if left is None or right is None:
            return None
        one, other = as_table(left.empty_table()), as_table(right.empty_table())
        try:
            keys = number_rows(self.keys, one, other)
            return self.combine(one, other, match_equal(keys)).schema
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
    """Return the key of each row, from this side or else from the other."""
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


@dataclass(frozen=True, slots=True)
class TableJoin:
    """Joins the tables of an epoch; O(n log n) in its rows.

    Attributes:
        keys: the columns that keys stand in.
        how: which rows without a partner are kept.
        suffix: is put behind names that both sides have.
        promised: the schemas of both sides, where they are known beforehand.
    """

    keys: KeyColumns
    how: How
    suffix: str
    promised: "tuple[pa.Schema | None, pa.Schema | None]" = (None, None)

    def start(self) -> tuple[KnownSchemas, KnownSchemas]:
        """Return what is kept: what is known of the columns of both sides."""
        left, right = self.promised
        return KnownSchemas(left), KnownSchemas(right)

    @property
    def columns(self) -> JoinedColumns:
        """What the result is made of."""
        return JoinedColumns(self.keys, self.suffix, takes_either=self.how in {"right", "outer"})

    def process(self, kept: tuple[KnownSchemas, KnownSchemas], epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return the table of an epoch; unless the join is inner there are inputs with the schemas of both sides."""
        for known, announcements in zip(kept, epoch.batches[2:], strict=False):
            for schema in [schema for batch in announcements for schema in batch]:
                known.learn(epoch.domain, epoch.time, schema)
        if not (epoch.batches[0] or epoch.batches[1]):
            return ([],)
        left, right = (
            one_table(batches) if batches else known.empty_table(epoch.domain, epoch.time)
            for batches, known in zip(epoch.batches, kept, strict=False)
        )
        return ([] if (table := self._join(left, right)) is None else [table],)

    def _join(self, left: "pa.Table | None", right: "pa.Table | None") -> "pa.Table | None":
        columns = self.columns
        if left is None and right is not None and columns.takes_either:
            pairs = zip(self.keys.left, self.keys.right, strict=True)
            left = right.select([]).slice(0, 0)
            for name, other_name in pairs:
                left = left.append_column(name, right.column(other_name).slice(0, 0))
        if right is None and left is not None and self.how in {"left", "outer"}:
            return left
        if left is None or right is None:
            return None
        keys = number_rows(self.keys, left, right)
        return columns.combine(left, right, self._with_lonely(match_equal(keys), len(left), len(right)))

    def _with_lonely(self, matches: Matches, lefts: int, rights: int) -> Matches:
        """Add a pair with -1 for each row without a partner that is to be kept."""
        import numpy as np

        lonely_left = _missing(matches.left, lefts) if self.how in {"left", "outer"} else np.empty(0, np.int64)
        lonely_right = _missing(matches.right, rights) if self.how in {"right", "outer"} else np.empty(0, np.int64)
        return Matches(
            np.concatenate([matches.left, lonely_left, np.full(len(lonely_right), -1)]),
            np.concatenate([matches.right, np.full(len(lonely_left), -1), lonely_right]),
        )


def _missing(rows: Any, count: int) -> Any:
    import numpy as np

    missing = np.ones(count, np.bool_)
    missing[rows] = False
    return np.flatnonzero(missing)
