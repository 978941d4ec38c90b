"""Stateless operators, which treat one record or batch at a time."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import compress
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from tidewheel.batches.batches import Batch, keep, records
from tidewheel.host.retry import Retry
from tidewheel.operators.base.batchwise import build_batchwise, with_keys_repeated
from tidewheel.operators.base.failed_record import FailedRecord
from tidewheel.operators.base.side_by_side import no_stream_itself
from tidewheel.operators.base.stream_base import Record, Result, StreamBase, callback, check_function, check_positive
from tidewheel.operators.keys.columns import Expression, is_expression, schema_after
from tidewheel.operators.tables.projection import Selection
from tidewheel.progress import GraphError, Time
from tidewheel.runtime.description.origin import adds_operators

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream


Caught: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""The exceptions that make a record a failed one."""


@no_stream_itself
class Tried(NamedTuple, Generic[Result, Record]):
    """The two outputs of `try_map`.

    Attributes:
        results: the values that the function returned.
        failures: a `FailedRecord` for each record at which it raised.
    """

    results: "Stream[Result]"
    failures: "Stream[FailedRecord[Record]]"


class RecordOperators(StreamBase[Record]):
    """Methods of streams for single records and batches."""

    __slots__ = ()

    @adds_operators()
    def map(self, function: Callable[[Record], Result], *, name: str = "map") -> "Stream[Result]":
        """Replace each record by ``function(record)``.

        The function must return a new object, such as ``{**record, "n": 1}``: other operators on the worker read the
        same record. ``RuntimeConfig(check_records=True)``, or ``TIDEWHEEL_CHECK_RECORDS=1``, fails an operator that
        changes a record.

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
        return self._stage(name, lambda batch: [function(record) for record in records(batch)], one_to_one=True)

    @adds_operators()
    def flat_map(self, function: Callable[[Record], Iterable[Result]], *, name: str = "flat_map") -> "Stream[Result]":
        """Replace each record by all records of ``function(record)``.

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
            name,
            lambda batch: [result for record in records(batch) for result in function(record)],
            with_keys=lambda batch, keys: with_keys_repeated((function(record) for record in records(batch)), keys),
        )

    @adds_operators()
    def filter(self, predicate: Callable[[Record], object] | Expression, *, name: str = "filter") -> "Stream[Record]":
        """Keep the records for which ``predicate(record)`` is true; each batch keeps its kind.

        On tables it may be an expression of `pyarrow.compute`, such as ``pc.field("n") > 1``, which Arrow computes.
        Null counts as false.

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
            return self._stage(name, selection.of, schema=schema_after("filter", selection.of, self.schema))
        if not callable(predicate):
            raise GraphError(
                f"filter takes a function of a record, or an expression such as pc.field('n') > 1, not {predicate!r}"
            )
        check_function("filter", predicate)
        holds = predicate

        def keep_matching(batch: Batch) -> Batch:
            if isinstance(batch, list):
                return [record for record in batch if holds(record)]
            return keep(batch, [holds(record) for record in records(batch)])

        def keep_with_keys(batch: Batch, keys: list[Any]) -> tuple[Batch, list[Any]]:
            wanted = [bool(holds(record)) for record in records(batch)]
            return keep(batch, wanted), list(compress(keys, wanted))

        return self._stage(name, keep_matching, schema=self.schema, with_keys=keep_with_keys)

    @adds_operators()
    def try_map(
        self, function: Callable[[Record], Result], catch: Caught = Exception, *, name: str = "try_map"
    ) -> Tried[Result, Record]:
        """Replace each record by ``function(record)``; divert records at which it raises.

        Args:
            function: a function of a record.
            catch: the exception, or a tuple of them, that diverts a record; any other fails the job.
            name: the operator's name.

        Returns:
            ``(results, failures)``; a failure is a `FailedRecord`, ``(record, error, message)``.

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
        build = build_batchwise(partial(_try_each, function, catch))
        results, failures = self._operator(name, [], 2, build, notify=False, by_substream=True)
        self._note_side_by_side({".results": results, ".failures": failures})
        return Tried(results, failures)

    @adds_operators()
    def map_batches(self, function: Callable[[Any], Batch], *, name: str = "map_batches") -> "Stream[Any]":
        """Replace each batch by ``function(batch)``; an empty result is not sent.

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
        return self._stage(name, function)

    @adds_operators()
    def inspect(self, function: Callable[[Record], object], *, name: str = "inspect") -> "Stream[Record]":
        """Call ``function`` with each record and pass the batch on unchanged; `inspect_batches` tells the time, too.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("shown")
        >>> _ = flow.source("words", tw.IterableSource([[(0, ["tide", "wheel"])]])).inspect(print)
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        tide
        wheel
        """
        call = callback("inspect", function)

        def look(batch: Batch) -> Batch:
            for record in records(batch):
                call(record)
            return batch

        return self._stage(name, look, schema=self.schema)._for_effect()

    @adds_operators()
    def inspect_batches(
        self, function: Callable[[Any, Any, int], object], *, name: str = "inspect_batches"
    ) -> "Stream[Record]":
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
        call = callback("inspect_batches", function)

        def look(batch: Batch, time: Time, worker: int) -> tuple[Batch]:
            call(batch, time, worker)
            return (batch,)

        return self._pass_on(name, build_batchwise(look))[0]._for_effect()

    @adds_operators("concurrency", "ordered", "timeout_s", "retry")
    def map_async(
        self,
        function: Callable[[Record], Awaitable[Result]],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        name: str = "map_async",
    ) -> "Stream[Result]":
        """Replace each record by the result of ``await function(record)``, with many calls at a time.

        Calls run on an event loop in a thread of each worker. A time is complete once its last call is done. At
        ``concurrency`` calls a worker reads no more, which in the end holds back sources.

        Args:
            function: a coroutine function, or an asynchronous context manager that opens what its calls share, such as
                a session with a server. Each worker enters a copy of the manager before the first call, calls the
                object that this returns, and leaves it in the end.
            concurrency: the greatest number of calls in progress on a worker.
            ordered: whether results leave a worker in the order of their records; otherwise in order of completion.
            timeout_s: the seconds after which an attempt fails with TimeoutError; entering the manager has the same
                limit, and fails the job.
            retry: the attempts at a call that raises, and the pauses between them; the error of the last one fails the
                job. None is one attempt.
            name: the operator's name.

        >>> import asyncio
        >>> import tidewheel as tw
        >>> async def look_up(word):
        ...     await asyncio.sleep(0.01)
        ...     return word, len(word)
        >>> flow = tw.Dataflow("lengths")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["tide", "wheel"])]]))
        >>> _ = words.map_async(look_up, ordered=True, timeout_s=5, retry=tw.Retry(attempts=3)).capture("lengths")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [length for captured in job.captured("lengths") for length in captured.batch]
        [('tide', 4), ('wheel', 5)]
        """
        # asyncio takes a fifth of the time that all else takes to import.
        from tidewheel.operators.records.map_async import CallPolicy, build_map_async

        if not callable(function):
            raise GraphError(f"map_async takes a function, not {function!r}")
        check_positive("map_async", "concurrency", concurrency)
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise GraphError(f"map_async: timeout_s is a number of seconds above 0, or None, not {timeout_s!r}")
        policy = CallPolicy(concurrency, timeout_s, _checked(retry))
        build = build_map_async(function, policy, ordered=ordered)
        return self._unary(name, build, notify=False, by_substream=True)._for_effect()


def _checked(retry: Retry | None) -> Retry:
    if retry is None:
        return Retry(attempts=1)
    if not isinstance(retry, Retry):
        raise GraphError(f"map_async: retry is a tw.Retry, such as tw.Retry(attempts=3), not {retry!r}")
    if retry.attempts is None and retry.within_s == inf:
        raise GraphError(
            "map_async: give retry attempts or within_s, as a call that always fails would be tried for ever"
        )
    return retry


def _try_each(
    function: Callable[[Any], Any], caught: Caught, batch: Batch, *_: object
) -> tuple[list[Any], list[FailedRecord[Any]]]:
    made, failed = [], []
    for record in records(batch):
        try:
            made.append(function(record))
        except caught as error:
            failed.append(FailedRecord(record, type(error).__name__, str(error)))
    return made, failed
