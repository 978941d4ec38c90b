"""Operators computed by Arrow."""

from typing import TYPE_CHECKING, Any

from tidewheel.batches.batches import is_schema, shown
from tidewheel.operators.base.stream_base import Record, StreamBase
from tidewheel.operators.epochs.fold import build_per_epoch
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.keys.columns import Expression, check_names, check_schema, is_expression, schema_after
from tidewheel.operators.tables.aggregation import COUNT_ROWS, FUNCTIONS, Aggregate, Aggregation
from tidewheel.operators.tables.grouped_epoch import groups_fold, rows_fold
from tidewheel.operators.tables.projection import Projection
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.operators.stream import Stream


class Grouping:
    """The rows of each epoch grouped by key; the result of ``stream.group_by(...)``."""

    __slots__ = ("_keys", "_name", "_stream")

    def __init__(self, stream: StreamBase[Any], keys: tuple[str, ...], name: str) -> None:
        if not keys:
            raise GraphError("operator 'group_by': name one column of the key or more")
        check_names("group_by", stream.schema, keys)
        if len(set(keys)) < len(keys):
            raise GraphError(f"operator 'group_by': a column of the key is named once, not as in {', '.join(keys)}")
        self._stream = stream
        self._keys = keys
        self._name = name

    def aggregate(self, **aggregates: tuple[str, str] | str) -> "Stream[dict[str, Any]]":
        """When an epoch is complete, send a table with a row for each key: the columns of the key and the aggregates.

        The worker that owns a key sends its row, as for `exchange`. Workers exchange only partial results by group,
        unless a count of distinct values or a mean of decimals needs all values.

        Args:
            aggregates: each is a pair (column, function), or ``"count_all"``, the number of rows. The functions are
                Arrow's: sum, count, min, max, mean, any, all, count_distinct. They ignore nulls. For a key with only
                nulls, counts are 0 and the others null. A sum of integers beyond 64 bits fails the job; a mean does
                not. The last digits of a sum of floats depend on how rows were split.

        Raises:
            GraphError: an aggregate has another form, has the name of a key column, or does not fit the stream's
                schema.

        >>> import pyarrow as pa
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("sales")
        >>> rows = pa.table({"shop": ["a", "b", "a"], "price": [3, 5, 4]})
        >>> sales = flow.source("sales", tw.IterableSource([[(0, rows)]]))
        >>> totals = sales.group_by("shop").aggregate(total=("price", "sum"), mean=("price", "mean"), n="count_all")
        >>> _ = totals.capture("totals")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch.to_pylist() for captured in job.captured("totals")]
        [[{'shop': 'a', 'total': 7, 'mean': 3.5, 'n': 2}, {'shop': 'b', 'total': 5, 'mean': 5.0, 'n': 1}]]
        """
        asked = tuple([self._checked(name, what) for name, what in aggregates.items()])
        return self._aggregated(Aggregation(self._keys, asked), self._name)

    @adds_operators(method="group_by")
    def _aggregated(self, aggregation: Aggregation, name: str) -> "Stream[dict[str, Any]]":
        schema = self._stream.schema
        check_names("group_by", schema, aggregation.columns)
        made = schema_after("group_by", lambda rows: aggregation.result([aggregation.of_rows(as_table(rows))]), schema)
        known = self._stream._unary(f"{name}: partial", build_per_epoch(rows_fold(aggregation)))
        groups = build_per_epoch(groups_fold(aggregation))
        return known._unary(name, groups, aggregation.exchange_key, schema=made)

    def _checked(self, name: str, what: object) -> Aggregate:
        if name in self._keys:
            raise GraphError(f"operator 'group_by': {name!r} is a column of the key, an aggregate needs another name")
        if what == COUNT_ROWS:
            return Aggregate(name, None, COUNT_ROWS)
        if not (isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], str) and what[1] in FUNCTIONS):
            raise GraphError(
                f"operator 'group_by': {name!r} is a pair (column, function), or {COUNT_ROWS!r}, where the function is "
                f"{', '.join(FUNCTIONS[:-1])} or {FUNCTIONS[-1]}, not {what!r}"
            )
        return Aggregate(name, *what)


class ColumnOperators(StreamBase[Record]):
    """The methods of streams for Arrow tables; they also accept structured NumPy arrays."""

    __slots__ = ()

    @adds_operators()
    def with_schema(self, schema: "pa.Schema", *, name: str = "with_schema") -> "Stream[dict[str, Any]]":
        """Promise that batches are Arrow tables with ``schema``, to check later operators before the job runs.

        A batch with other columns fails the job, with an error that names the first wrong column. Nullability does not
        matter. ``flow.input(name, schema)`` makes the same promise.

        Raises:
            GraphError: the argument is not a schema, or the stream is known to have another schema.

        >>> import pyarrow as pa
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("rows")
        >>> rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"n": [1, 2]}))]]))
        >>> rows.with_schema(pa.schema({"n": pa.int64()})).select("m")
        Traceback (most recent call last):
            ...
        tidewheel.progress.errors.GraphError: operator 'select': there is no column 'm'; the stream has (n: int64)
        """
        if not is_schema(schema):
            raise GraphError(f"operator 'with_schema' takes a pyarrow.Schema, not {schema!r}")
        known = self.schema
        if known is not None and (known.names, known.types) != (schema.names, schema.types):
            raise GraphError(f"operator 'with_schema': the stream has {shown(known)}, and not {shown(schema)}")
        return self._stage(name, lambda batch: check_schema(batch, schema), schema=schema)

    @adds_operators()
    def select(self, *names: str, **expressions: "Expression | str") -> "Stream[dict[str, Any]]":
        """Replace each table by a table with the columns ``names`` and the columns that ``expressions`` compute.

        Args:
            names: columns that stay as they are.
            expressions: the name of each new column with its expression, such as ``pc.field("n") * 2`` or
                ``pc.utf8_upper(pc.field("word"))`` of `pyarrow.compute`. A string as ``name`` is the operator's name,
                not a column.

        Raises:
            GraphError: two columns have the same name, or an argument is not an expression or does not fit the stream's
                schema.

        >>> import pyarrow as pa
        >>> import pyarrow.compute as pc
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("doubles")
        >>> rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"n": [1, 2], "word": ["a", "b"]}))]]))
        >>> _ = rows.select("word", double=pc.field("n") * 2).capture("doubles")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch.to_pydict() for captured in job.captured("doubles")]
        [{'word': ['a', 'b'], 'double': [2, 4]}]
        """
        called = str(expressions.pop("name")) if isinstance(expressions.get("name"), str) else "select"
        check_names("select", self.schema, names)
        twice = [name for number, name in enumerate(names) if name in names[:number] or name in expressions]
        if twice or not (names or expressions):
            what = f"{twice[0]!r} is asked for twice" if twice else "no column is asked for"
            raise GraphError(f"operator 'select': {what}")
        for name, expression in expressions.items():
            if not is_expression(expression):
                raise GraphError(
                    f"operator 'select': {name!r} is an expression of pyarrow.compute, such as pc.field('n') * 2, "
                    f"not {expression!r}"
                )
        projection = Projection(names, {column: made for column, made in expressions.items() if is_expression(made)})
        return self._stage(called, projection.of, schema=schema_after("select", projection.of, self.schema))

    def group_by(self, *keys: str, name: str = "group_by") -> Grouping:
        """Group the rows of each epoch by one or more columns, for `Grouping.aggregate`.

        Raises:
            GraphError: no column is given, or a column is given twice or missing in the stream's schema.

        >>> import pyarrow as pa
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("counts")
        >>> rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"word": ["to", "be", "to"]}))]]))
        >>> _ = rows.group_by("word").aggregate(n="count_all").capture("counts")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch.to_pydict() for captured in job.captured("counts")]
        [{'word': ['to', 'be'], 'n': [2, 1]}]
        """
        return Grouping(self, keys, name)
