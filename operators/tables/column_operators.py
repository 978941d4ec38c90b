"""Operators that run on the kernels of Arrow."""

from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.operators.stream_base import StreamBase
from tidewheel.operators.tables.columns import Expression, check_names, check_schema, is_expression, is_schema, shown
from tidewheel.operators.tables.grouping import Grouping
from tidewheel.operators.tables.projection import Projection
from tidewheel.progress import GraphError

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.operators.stream import Stream

Record = TypeVar("Record")


class ColumnOperators(StreamBase[Record]):
    """What streams offer for Arrow tables; they also take structured NumPy arrays."""

    __slots__ = ()

    def with_schema(self, schema: "pa.Schema") -> "Stream[dict[str, Any]]":
        """Promise that batches are Arrow tables of ``schema``, so that what is built on it is checked beforehand.

        One that comes with other columns fails the job, with an error that names the first that is wrong. Which columns
        may have nulls is not looked at. ``flow.input(name, schema)`` makes the same promise.

        Raises:
            GraphError: it is no schema, or the stream is known to have another.

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
        return self._stage("with_schema", lambda batch: check_schema(batch, schema), schema=schema)

    def select(self, *names: str, **expressions: "Expression") -> "Stream[dict[str, Any]]":
        """Replace each table by one with the columns ``names``, and those that ``expressions`` make of its columns.

        Args:
            names: columns that go on as they are, without being touched.
            expressions: for the name of each other column what it is, such as ``pc.field("n") * 2`` or
                ``pc.utf8_upper(pc.field("word"))`` of `pyarrow.compute`. They run on Arrow's kernels.

        Raises:
            GraphError: two columns have one name, what is asked for is no expression, or does not fit the schema of
                the stream.

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
        projection = Projection(names, expressions)
        return self._stage("select", projection.of, schema=projection.schema_of(self.schema))

    def group_by(self, *keys: str) -> Grouping:
        """Group the rows of each epoch by the columns ``keys``, one or more; `Grouping.aggregate` says what for.

        Raises:
            GraphError: there are none, one is named twice, or the schema of the stream does not have one.

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
        return Grouping(self, keys)
