"""The operators of collections that look at each record by itself, or at the columns of many at once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from tidewheel.operators.base.stream_base import check_function
from tidewheel.operators.collections.collection_base import CollectionBase
from tidewheel.operators.keys.columns import Expression, is_expression
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators


class ColumnCollection(CollectionBase):
    """The methods of collections for records one by one, and for columns.

    Columns have names if the collection is made with `as_collection(columns=...)`, `select` or `map(columns=...)`. The
    first is the key. A record of more than two columns is a pair (key, tuple of the others).
    """

    __slots__ = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, the key first; empty if they have no names, as after a function of records."""
        return self._columns

    @adds_operators()
    def map(self, function: Callable[..., Any], *, columns: bool | Sequence[str] = False, name: str = "map") -> Self:
        """Replace each record by ``function(record)``, which has to return the same each time.

        Args:
            function: a function of a record.
            columns: whether it takes and returns columns instead, NumPy arrays with a value for each record. It then
                gets one array for each column; without names it gets one, or the keys and the values if the records
                of a batch are all pairs. It returns an array, or a pair of them for pairs. A list of names lets it
                return a tuple with a column for each. Columns may also be lists or tuples, whose values stay as they
                are, or one value for all records.
            name: what errors, statistics and drawings call it.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("arcs")
        >>> edges = flow.source("edges", tw.IterableSource([[(0, [(1, 2), (2, 3)])]])).as_collection()
        >>> _ = edges.map(lambda start, end: (end, start), columns=True).changes().capture("arcs")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("arcs")
        [Captured(time=0, batch=[((2, 1), 1), ((3, 2), 1)])]
        """
        from tidewheel.operators.collections import stages

        check_function(f"operator {name!r}", function)
        if columns is False:
            return self._stage(name, partial(stages.mapped, function))
        names = () if columns is True else checked_columns(name, columns)
        return self._stage(name, partial(stages.mapped_columns, function, self._columns, names), names)

    @adds_operators()
    def filter(
        self, predicate: Callable[..., object] | Expression, *, columns: bool = False, name: str = "filter"
    ) -> Self:
        """Keep the records for which ``predicate(record)`` is true, which has to return the same each time.

        With ``columns=True`` the predicate takes columns, as for `map`, and returns an array of bools. Where columns
        have names it may be an expression of `pyarrow.compute`, such as ``pc.field("price") > 1``. Records for which
        that is null are not kept.

        Raises:
            GraphError: an expression needs a column that this collection does not have.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("loops")
        >>> edges = flow.source("edges", tw.IterableSource([[(0, [(1, 2), (2, 2)])]])).as_collection()
        >>> _ = edges.filter(lambda edge: edge[0] == edge[1]).changes().capture("loops")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("loops")
        [Captured(time=0, batch=[((2, 2), 1)])]
        """
        from tidewheel.operators.collections import rows, stages

        if is_expression(predicate):
            self._check_fields(name, [predicate])
            return self._stage(name, partial(rows.kept_by, predicate, self._columns), self._columns)
        check_function(f"operator {name!r}", predicate)
        assert callable(predicate), "it has been checked"
        kept = partial(stages.kept_columns, predicate, self._columns) if columns else partial(stages.kept, predicate)
        return self._stage(name, kept, self._columns)

    @adds_operators()
    def select(self, *names: str, **expressions: "Expression | str") -> Self:
        """Replace each record by one of the columns ``names``, and those that ``expressions`` make of its columns.

        The first of them is the key of the operators that follow. So ``select`` also chooses another key, or what a
        reduction is about: ``rows.select("user", "price").reduce_sum()``.

        Args:
            names: columns that stay as they are.
            expressions: for the name of each other column what it is, such as ``pc.field("n") * 2`` of
                `pyarrow.compute`. A text as ``name`` is no column but the name of the operator.

        Raises:
            GraphError: the columns have no names, there is no such column, two have one name, or what is asked for is
                no expression.

        >>> import pyarrow as pa
        >>> import pyarrow.compute as pc
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("takings")
        >>> table = pa.table({"user": ["ann", "ann", "bob"], "price": [3, 4, 5], "number": [2, 1, 1]})
        >>> rows = flow.source("rows", tw.IterableSource([[(0, table)]])).as_collection(columns=table.column_names)
        >>> takings = rows.select("user", paid=pc.field("price") * pc.field("number")).reduce_sum()
        >>> _ = takings.changes().capture("takings")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(job.captured("takings")[0].batch)
        [(('ann', 10), 1), (('bob', 5), 1)]
        """
        from tidewheel.operators.collections import rows
        from tidewheel.operators.tables.projection import Projection

        name = str(expressions.pop("name")) if isinstance(expressions.get("name"), str) else "select"
        made = {column: one for column, one in expressions.items() if is_expression(one)}
        for column, one in expressions.items():
            if column not in made:
                raise GraphError(
                    f"operator {name!r}: {column!r} is an expression of pyarrow.compute, such as pc.field('n') * 2, "
                    f"not {one!r}"
                )
        columns = checked_columns(name, (*names, *made))
        self._check_fields(name, list(made.values()))
        for column in names:
            if column not in self._columns:
                raise GraphError(f"operator {name!r}: there is no column {column!r}; {self._with_columns()}")
        return self._stage(name, partial(rows.selected, Projection(names, made), self._columns), columns)

    def _check_fields(self, name: str, expressions: Sequence[Expression]) -> None:
        """Raise GraphError if the columns have no names, or one that an expression needs is not there."""
        import pyarrow as pa

        from tidewheel.operators.tables.projection import Projection

        if not self._columns:
            raise GraphError(
                f"operator {name!r}: {self._with_columns()}: name them, as in map(function, columns=['user', 'item']) "
                "or as_collection(columns=['user', 'item'])"
            )
        empty = pa.table({column: pa.nulls(0) for column in self._columns})
        for expression in expressions:
            try:
                Projection((), {"made": expression}).of(empty)
            except ValueError as error:
                if "FieldRef" in str(error):
                    missing = str(error).partition("FieldRef.Name(")[2].partition(")")[0]
                    raise GraphError(
                        f"operator {name!r}: there is no column {missing!r}, which {expression} needs; "
                        f"{self._with_columns()}"
                    ) from error


def checked_columns(name: str, columns: object) -> tuple[str, ...]:
    """Return the names of the columns of a record; raise GraphError if these cannot be the argument."""
    names = (columns,) if isinstance(columns, str) else columns
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(isinstance(one, str) and one for one in names)
        or len(set(names)) < len(names)
    ):
        raise GraphError(
            f"operator {name!r}: columns= has the names of the columns of a record, the key first and each once, "
            f"not {columns!r}"
        )
    return tuple(names)
