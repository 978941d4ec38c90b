"""Stateless operators, which treat one record or batch at a time."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import compress
from math import inf
from typing import TYPE_CHECKING, Any, overload

from tidewheel.batches.batches import Batch, keep, records
from tidewheel.host.retry import Retry
from tidewheel.operators.base.batchwise import build_batchwise, with_keys_repeated
from tidewheel.operators.base.setting_aside import all_results_of, results_of, those_for_which, whole_batches
from tidewheel.operators.base.stream_base import (
    Record,
    Result,
    StreamBase,
    callback,
    caught_by,
    check_function,
    check_positive,
)
from tidewheel.operators.keys.columns import Expression, is_expression, schema_after
from tidewheel.operators.tables.projection import Selection
from tidewheel.progress import GraphError, Time
from tidewheel.progress.redaction import called
from tidewheel.runtime.description.origin import adds_operators

if TYPE_CHECKING:
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream


class RecordOperators(StreamBase[Record]):
    """The methods of streams for single records and batches."""

    __slots__ = ()

    @adds_operators("dead_letters")
    def map(
        self,
        function: Callable[[Record], Result],
        *,
        dead_letters: "DeadLetters | None" = None,
        name: str = "map",
    ) -> "Stream[Result]":
        """Replace each record by ``function(record)``.

        The function must return a new object, such as ``{**record, "n": 1}``, since other operators on the worker read
        the same record. With ``RuntimeConfig(check_records=True)``, or ``TIDEWHEEL_CHECK_RECORDS=1``, a function that
        changes a record fails the job. If the function raises, the record goes to ``dead_letters``, a stream made by
        `Dataflow.dead_letters`; without it, the job fails. This holds for all operators with this argument.

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
        if dead_letters is not None:
            return self._setting_aside(name, results_of(function), dead_letters)
        return self._stage(name, lambda batch: [function(record) for record in records(batch)], one_to_one=True)

    @adds_operators("dead_letters")
    def flat_map(
        self,
        function: Callable[[Record], Iterable[Result]],
        *,
        dead_letters: "DeadLetters | None" = None,
        name: str = "flat_map",
    ) -> "Stream[Result]":
        """Replace each record by all records of ``function(record)``.

        If the function raises, the record goes to ``dead_letters``, and none of its results is sent.

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
        if dead_letters is not None:
            return self._setting_aside(name, all_results_of(function), dead_letters)
        return self._stage(
            name,
            lambda batch: [result for record in records(batch) for result in function(record)],
            with_keys=lambda batch, keys: with_keys_repeated((function(record) for record in records(batch)), keys),
        )

    @adds_operators("dead_letters")
    def filter(
        self,
        predicate: Callable[[Record], object] | Expression,
        *,
        dead_letters: "DeadLetters | None" = None,
        name: str = "filter",
    ) -> "Stream[Record]":
        """Keep the records for which ``predicate(record)`` is true; each batch keeps its kind.

        For tables ``predicate`` may be an expression of `pyarrow.compute`, such as ``pc.field("n") > 1``, which Arrow
        computes. Null counts as false. If Arrow cannot compute it for a table, the whole table goes to
        ``dead_letters``.

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
            schema = schema_after("filter", selection.of, self.schema)
            if dead_letters is not None:
                return self._setting_aside(name, whole_batches(selection.of), dead_letters, schema=schema)
            return self._stage(name, selection.of, schema=schema)
        if not callable(predicate):
            raise GraphError(
                f"filter takes a function of a record, or an expression such as pc.field('n') > 1, not {predicate!r}"
            )
        check_function("filter", predicate)
        holds = predicate
        if dead_letters is not None:
            return self._setting_aside(name, those_for_which(holds), dead_letters, schema=self.schema)

        def keep_matching(batch: Batch) -> Batch:
            if isinstance(batch, list):
                return [record for record in batch if holds(record)]
            return keep(batch, [holds(record) for record in records(batch)])

        def keep_with_keys(batch: Batch, keys: list[Any]) -> tuple[Batch, list[Any]]:
            wanted = [bool(holds(record)) for record in records(batch)]
            return keep(batch, wanted), list(compress(keys, wanted))

        return self._stage(name, keep_matching, schema=self.schema, with_keys=keep_with_keys)

    @adds_operators("dead_letters")
    def map_batches(
        self,
        function: Callable[[Any], Batch],
        *,
        dead_letters: "DeadLetters | None" = None,
        name: str = "map_batches",
    ) -> "Stream[Any]":
        """Replace each batch by ``function(batch)``; an empty result is not sent.

        If the function raises, the whole batch goes to ``dead_letters``, as one record.

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
        if dead_letters is not None:
            return self._setting_aside(name, whole_batches(function), dead_letters)
        return self._stage(name, function)

    @adds_operators("dead_letters")
    def inspect(
        self,
        function: Callable[[Record], object],
        *,
        dead_letters: "DeadLetters | None" = None,
        name: str = "inspect",
    ) -> "Stream[Record]":
        """Call ``function`` with each record and pass the batch on unchanged; `inspect_batches` also gets the time.

        If the function raises, the record goes to ``dead_letters`` instead of the output.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("shown")
        >>> _ = flow.source("words", tw.IterableSource([[(0, ["tide", "wheel"])]])).inspect(print)
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        tide
        wheel
        """
        call = callback("inspect", function)
        if dead_letters is not None:
            seen = those_for_which(lambda record: (call(record), True))
            return self._setting_aside(name, seen, dead_letters, schema=self.schema)._for_effect()

        def look(batch: Batch) -> Batch:
            for record in records(batch):
                call(record)
            return batch

        return self._stage(name, look, schema=self.schema)._for_effect()

    @adds_operators()
    def inspect_batches(
        self, function: Callable[[Any, Any, int], object], *, name: str = "inspect_batches"
    ) -> "Stream[Record]":
        """Call ``function(batch, time, worker)`` for each batch, and pass the batch on.

        Do not change the batch: other operators may read it too.

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

    @overload
    def map_async(
        self,
        function: Callable[[Record], Awaitable[Result]],
        *,
        concurrency: int = ...,
        ordered: bool = ...,
        timeout_s: float | None = ...,
        retry: Retry | None = ...,
        per_second: float | None = ...,
        batch_size: None = None,
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @overload
    def map_async(
        self,
        function: Callable[[list[Record]], Awaitable[Sequence[Result]]],
        *,
        concurrency: int = ...,
        ordered: bool = ...,
        timeout_s: float | None = ...,
        retry: Retry | None = ...,
        per_second: float | None = ...,
        batch_size: int,
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @adds_operators("concurrency", "ordered", "timeout_s", "retry", "per_second", "batch_size", "dead_letters")
    def map_async(  # noqa: PLR0913 - each limits something of its own
        self,
        function: Callable[[Any], Awaitable[Any]],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        timeout_s: float | None = None,
        retry: Retry | None = None,
        per_second: float | None = None,
        batch_size: int | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = "map_async",
    ) -> "Stream[Any]":
        """Replace each record by the result of ``await function(record)``, with many calls at a time.

        Calls run on an event loop in a thread of each worker. A time is complete once its last call is done. While
        ``concurrency`` calls are in progress, a worker reads no more records; this eventually holds back sources.

        Args:
            function: a coroutine function, or an asynchronous context manager that opens what the calls share, such as
                a session with a server. Each worker enters a copy of the manager before the first call, calls the
                object that this returns, and exits the manager at the end.
            concurrency: the greatest number of calls in progress on a worker.
            ordered: whether results leave a worker in the order of their records; otherwise in order of completion.
            timeout_s: the seconds after which an attempt fails with TimeoutError. Entering the manager has the same
                limit; a timeout there fails the job.
            retry: the number of attempts at a call that raises, and the pauses between them; the error of the last
                attempt fails the job. None for one attempt.
            per_second: how many attempts begin per second, on all workers together; None for no limit. Each worker
                begins an equal share of them, evenly spaced. In any t seconds there are at most ``per_second * t``
                attempts, plus one for each worker. Waiting for this limit does not count towards ``within_s`` of
                ``retry``.
            batch_size: calls ``function`` with lists of up to so many records, of one or several epochs; it returns a
                list with the result of each. A call takes the records that wait when it begins, and does not wait for
                more.
            dead_letters: receives records whose last attempt has raised, or all records of such a list; None fails the
                job.
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
        # Importing asyncio takes a fifth as long as importing everything else.
        from tidewheel.operators.records.call_forms import ListOfRecords, SingleRecord
        from tidewheel.operators.records.map_async import CallPolicy, build_map_async

        if not callable(function):
            raise GraphError(f"map_async takes a function, not {function!r}")
        check_positive("map_async", "concurrency", concurrency)
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise GraphError(f"map_async: timeout_s is a number of seconds above 0, or None, not {timeout_s!r}")
        if per_second is not None and not (_is_number(per_second) and 0 < per_second < inf):
            raise GraphError(f"map_async: per_second is a number of attempts above 0, or None, not {per_second!r}")
        if batch_size is not None:
            check_positive("map_async", "batch_size", batch_size)
        form = SingleRecord() if batch_size is None else ListOfRecords(batch_size)
        policy = CallPolicy(concurrency, timeout_s, _checked("map_async", retry), per_second, form)
        caught = caught_by(self._description, "map_async", dead_letters)
        build = build_map_async(function, policy, ordered=ordered, caught=caught)
        results = self._unary(name, build, notify=False, by_substream=True)._for_effect()
        return results if dead_letters is None else results._without_letters(name, dead_letters)

    @adds_operators("replicas", "resources", "batch_size", "within_ms", "ordered", "retry", "dead_letters")
    def map_actors(  # noqa: PLR0913 - each is of its own
        self,
        model: Callable[[], Callable[[Any], Batch]],
        *,
        replicas: int,
        resources: Mapping[str, float] | None = None,
        batch_size: int = 1024,
        within_ms: float = 0,
        ordered: bool = False,
        retry: Retry | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = "map_actors",
    ) -> "Stream[Any]":
        """Replace each record by its result of a model, which actors beside the workers call with whole batches.

        The job starts ``replicas`` Ray actors, shared by all workers, and makes a model in each. An actor makes one
        call at a time. A worker has two calls in progress at each actor; of a fast model up to 16, with 8 MiB
        together. While it has so many, it reads no more records, which in the end holds back sources. An actor that
        dies is replaced, and its calls are repeated, so a model may get a batch twice; each record has one result. The
        actors end with the job. On the local engine, each model has a thread of this process.

        The job fails at its start if the model cannot be made, or if no actor comes up within
        `RuntimeConfig.deploy_timeout_s`.

        Args:
            model: a class whose objects are called with a batch, such as ``Model`` or, with arguments,
                ``functools.partial(Model, "weights.npz")``. A batch is a list of records, an Arrow table or a NumPy
                array, as it arrives. The object returns a list, table or array with the result of each record, in
                order. It keeps no state that results depend on.
            replicas: the number of actors.
            resources: what each actor reserves on its node, by Ray's names, such as ``{"GPU": 1}``. Without it an actor
                reserves no CPU.
            batch_size: the greatest number of records in a batch, which may be of one or several epochs.
            within_ms: the milliseconds that a batch waits to become full. With 0, a call takes the records that wait
                when it begins.
            ordered: whether results leave a worker in the order of their records; otherwise in order of completion.
            retry: the attempts at a batch for which the model raises, and the pauses between them; the error of the
                last one fails the job. None is one attempt. The death of an actor is no failed attempt. But if a batch
                is alone in three actors that die, it fails with RuntimeError.
            dead_letters: receives the records of a batch whose last attempt has raised, each by itself. Those of a
                table or array are one record, part of what has arrived. None fails the job.
            name: the operator's name.

        >>> import tidewheel as tw
        >>> class Doubles:
        ...     def __call__(self, numbers):
        ...         return [2 * number for number in numbers]
        >>> flow = tw.Dataflow("doubles")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 2, 3])]]))
        >>> _ = numbers.map_actors(Doubles, replicas=2, batch_size=2, ordered=True).capture("doubles")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [number for captured in job.captured("doubles") for number in captured.batch]
        [2, 4, 6]
        """
        # asyncio takes a fifth of the time that all else takes to import.
        from tidewheel.operators.pools.actor_pool import ActorPool, pool_name
        from tidewheel.operators.pools.members import MOST_BYTES, MOST_CALLS, SURE_CALLS
        from tidewheel.operators.pools.model import check_maker
        from tidewheel.operators.records.call_forms import PieceOfBatches
        from tidewheel.operators.records.map_actors import build_map_actors
        from tidewheel.operators.records.map_async import CallPolicy, Room

        check_maker(model)
        check_positive("map_actors", "replicas", replicas)
        check_positive("map_actors", "batch_size", batch_size)
        if not _is_number(within_ms) or not 0 <= within_ms < inf:
            raise GraphError(f"map_actors: within_ms is a number of milliseconds, 0 or more, not {within_ms!r}")
        policy = CallPolicy(
            MOST_CALLS * replicas,
            retry=_checked("map_actors", retry),
            form=PieceOfBatches(batch_size, called(model)),
            fills_within_s=within_ms / 1000,
            unfull=SURE_CALLS * replicas,
            limited=Room(SURE_CALLS * replicas * batch_size, MOST_CALLS * replicas * batch_size, MOST_BYTES * replicas),
        )
        caught = caught_by(self._description, "map_actors", dead_letters)
        build = build_map_actors(policy, ordered=ordered, caught=caught)
        results = self._unary(name, build, notify=False, by_substream=True)._for_effect()
        operator = self._description.operators[results._outlet.source.operator].name
        self._description.attach(
            pool_name(operator), ActorPool(operator, model, replicas, _checked_resources("map_actors", resources))
        )
        return results if dead_letters is None else results._without_letters(name, dead_letters)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked_resources(what: str, resources: Mapping[str, float] | None) -> dict[str, float]:
    given = {} if resources is None else resources
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and name and _is_number(amount) and 0 <= amount < inf for name, amount in given.items()
    ):
        raise GraphError(
            f"{what}: resources has an amount, 0 or more, for each of Ray's names, such as {{'GPU': 1}}, not "
            f"{resources!r}"
        )
    return {name: amount for name, amount in given.items() if amount}


def _checked(what: str, retry: Retry | None) -> Retry:
    if retry is None:
        return Retry(attempts=1)
    if not isinstance(retry, Retry):
        raise GraphError(f"{what}: retry is a tw.Retry, such as tw.Retry(attempts=3), not {retry!r}")
    if retry.attempts is None and retry.within_s == inf:
        raise GraphError(
            f"{what}: give retry attempts or within_s, as a call that always fails would be tried for ever"
        )
    return retry
