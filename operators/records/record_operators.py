"""Operators that take one record, or one batch, at a time and look at nothing else."""

from collections.abc import Callable, Iterable
from itertools import compress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from tidewheel.operators.records.inspection import build_inspect_batches, build_inspect_with_time
from tidewheel.operators.records.parts import keep, with_keys_repeated
from tidewheel.operators.records.try_map import Caught, Failed, build_try_map
from tidewheel.operators.stream_base import Record, Result, StreamBase, check_function
from tidewheel.operators.tables.columns import Expression, is_expression, schema_after
from tidewheel.operators.tables.projection import Selection
from tidewheel.progress import GraphError
from tidewheel.transport.batches import Batch, records

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream


class Tried(NamedTuple, Generic[Result, Record]):
    """What `try_map` makes of a stream.

    Attributes:
        results: what the function returned.
        failures: a `Failed` for each record at which it raised.
    """

    results: "Stream[Result]"
    failures: "Stream[Failed[Record]]"


class RecordOperators(StreamBase[Record]):
    """What streams offer for single records and batches."""

    __slots__ = ()

    def map(self, function: Callable[[Record], Result]) -> "Stream[Result]":
        """Replace each record by ``function(record)``.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("doubles")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 2, 3])]]))
        >>> _ = numbers.map(lambda n: n * 2).capture("doubles")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("doubles")
        [Captured(time=0, batch=[2, 4, 6])]
        """
        check_function("map", function)
        return self._stage(
            "map",
            lambda batch: [function(record) for record in records(batch)],
            with_keys=lambda batch, keys: ([function(record) for record in records(batch)], keys),
        )

    def flat_map(self, function: Callable[[Record], Iterable[Result]]) -> "Stream[Result]":
        """Replace each record by all that ``function(record)`` yields.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> _ = (
        ...     flow.source("lines", tw.IterableSource([[(0, ["to be", "or not"])]]))
        ...     .flat_map(str.split)
        ...     .capture("words")
        ... )
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("words")
        [Captured(time=0, batch=['to', 'be', 'or', 'not'])]
        """
        check_function("flat_map", function)
        return self._stage(
            "flat_map",
            lambda batch: [result for record in records(batch) for result in function(record)],
            with_keys=lambda batch, keys: with_keys_repeated((function(record) for record in records(batch)), keys),
        )

    def filter(self, predicate: Callable[[Record], object] | Expression) -> "Stream[Record]":
        """Keep the records for which ``predicate(record)`` is true; what is left of a batch is of the batch's kind.

        On tables it may be an expression of `pyarrow.compute`, such as ``pc.field("n") > 1``, which runs on Arrow's
        kernels. Rows for which that is null are not kept.

        >>> import pyarrow as pa
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("even")
        >>> rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"n": [1, 2, 4]}))]]))
        >>> _ = rows.filter(lambda row: row["n"] % 2 == 0).capture("even")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch.to_pydict() for captured in job.captured("even")]
        [{'n': [2, 4]}]
        """
        if is_expression(predicate):
            selection = Selection(predicate)
            return self._stage("filter", selection.of, schema=schema_after("filter", selection.of, self.schema))
        if not callable(predicate):
            raise GraphError(
                f"filter takes a function of a record, or an expression such as pc.field('n') > 1, not {predicate!r}"
            )
        holds = predicate

        def keep_matching(batch: Batch) -> Batch:
            if isinstance(batch, list):
                return [record for record in batch if holds(record)]
            return keep(batch, [holds(record) for record in records(batch)])

        def keep_with_keys(batch: Batch, keys: list[Any]) -> tuple[Batch, list[Any]]:
            wanted = [bool(holds(record)) for record in records(batch)]
            return keep(batch, wanted), list(compress(keys, wanted))

        return self._stage("filter", keep_matching, schema=self.schema, with_keys=keep_with_keys)

    def filter_map(self, function: Callable[[Record], Result | None]) -> "Stream[Result]":
        """Replace each record by ``function(record)``, and drop it if that is None.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("ages")
        >>> people = flow.source("people", tw.IterableSource([[(0, [{"age": 7}, {}, {"age": 0}])]]))
        >>> _ = people.filter_map(lambda person: person.get("age")).capture("ages")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("ages")
        [Captured(time=0, batch=[7, 0])]
        """
        check_function("filter_map", function)
        return self._stage(
            "filter_map",
            lambda batch: [made for record in records(batch) if (made := function(record)) is not None],
        )

    def try_map(self, function: Callable[[Record], Result], catch: Caught = Exception) -> Tried[Result, Record]:
        """Replace each record by ``function(record)``, and put those at which it raises aside instead of failing.

        Args:
            function: of a record.
            catch: the exception, or a tuple of those, that make a record a failed one; any other fails the job.

        Returns:
            ``(results, failures)``; a failure is a `Failed`, ``(record, error, message)``.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("parsing")
        >>> parsed, failures = flow.source("texts", tw.IterableSource([[(0, ["1", "two"])]])).try_map(int)
        >>> _ = parsed.capture("parsed")
        >>> _ = failures.map(lambda failed: (failed.record, failed.error)).capture("failures")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("parsed"), job.captured("failures")
        ([Captured(time=0, batch=[1])], [Captured(time=0, batch=[('two', 'ValueError')])])
        """
        check_function("try_map", function)
        kinds = catch if isinstance(catch, tuple) else (catch,)
        if not (kinds and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)):
            raise GraphError(f"try_map: catch is an exception class, or a tuple of some, not {catch!r}")
        return Tried(*self._operator("try_map", [], 2, build_try_map(function, catch), notify=False, by_substream=True))

    def map_batches(self, function: Callable[[Any], Batch]) -> "Stream[Any]":
        """Replace each batch, as it is, by ``function(batch)``; an empty result is not sent.

        >>> import pyarrow as pa
        >>> import pyarrow.compute as pc
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("squares")
        >>> rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"n": [1, 2, 3]}))]]))
        >>> _ = rows.map_batches(lambda table: pa.table({"square": pc.multiply(table["n"], table["n"])})).capture(
        ...     "squares"
        ... )
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch.to_pydict() for captured in job.captured("squares")]
        [{'square': [1, 4, 9]}]
        """
        check_function("map_batches", function)
        return self._stage("map_batches", function)

    def inspect(self, function: Callable[[Record], object]) -> "Stream[Record]":
        """Call ``function`` with each record and pass the batch on unchanged.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("shown")
        >>> _ = flow.source("words", tw.IterableSource([[(0, ["tide", "wheel"])]])).inspect(print)
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        tide
        wheel
        """
        check_function("inspect", function)

        def look(batch: Batch) -> Batch:
            for record in records(batch):
                function(record)
            return batch

        return self._stage("inspect", look, schema=self.schema)

    def inspect_with_time(self, function: Callable[[Record, Any, int], object]) -> "Stream[Record]":
        """Call ``function(record, time, worker)`` for each record and pass the batch on unchanged.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("shown")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["tide"]), (1, ["wheel"])]]))
        >>> _ = words.inspect_with_time(lambda word, time, worker: print(word, "at", time, "on worker", worker))
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        tide at 0 on worker 0
        wheel at 1 on worker 0
        """
        check_function("inspect_with_time", function)
        return self._pass_on("inspect_with_time", build_inspect_with_time(function))[0]

    def inspect_batches(self, function: Callable[[Any, Any, int], object]) -> "Stream[Record]":
        """Call ``function(batch, time, worker)`` for each batch and pass the same object on.

        The batch must not be changed: other operators may read it too.

        >>> import pyarrow as pa
        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("shown")
        >>> rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"n": [1, 2, 3]}))]]))
        >>> _ = rows.inspect_batches(lambda table, time, worker: print(table.num_rows, "rows at", time))
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        3 rows at 0
        """
        check_function("inspect_batches", function)
        return self._pass_on("inspect_batches", build_inspect_batches(function))[0]
