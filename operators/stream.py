"""Streams, whose methods add operators, and loops."""

from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidewheel.operators.base.batchwise import build_pass
from tidewheel.operators.base.stream_base import Record, check_positive, check_stream
from tidewheel.operators.collections.collection_operators import CollectionOperators
from tidewheel.operators.epochs.epoch_operators import EpochOperators
from tidewheel.operators.epochs.keyed_operators import KeyedOperators
from tidewheel.operators.joins.interval_join_operators import IntervalJoinOperators
from tidewheel.operators.joins.join_operators import JoinOperators
from tidewheel.operators.records.loop_operators import LoopOperators
from tidewheel.operators.records.record_operators import RecordOperators
from tidewheel.operators.records.routing_operators import RoutingOperators
from tidewheel.operators.records.time_operators import TimeOperators
from tidewheel.operators.sinks.output_operators import OutputOperators
from tidewheel.operators.substreams.substream_operators import Bound, SubstreamOperators, ends_wanted
from tidewheel.operators.tables.column_operators import ColumnOperators
from tidewheel.operators.windows.window_operators import WindowOperators
from tidewheel.progress import GraphError, IntegerDomain, PathSummary
from tidewheel.runtime.description.dataflow_description import Outlet, description_of
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import Key
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.description.scope import Scope

if TYPE_CHECKING:
    from tidewheel.operators.dataflow import Dataflow

Other = TypeVar("Other")

_ELSEWHERE = {
    "agg": "use group_by(...).aggregate(...)",
    "collect": "use capture(name) here, and job.captured(name) after job.wait()",
    "drop_duplicates": "use distinct() within an epoch, deduplicate() over all",
    "dropDuplicates": "use distinct() within an epoch, deduplicate() over all",
    "flatMap": "use flat_map(...)",
    "foreach": "use inspect(...) for each record, for_each_epoch(...) for whole epochs",
    "foreachBatch": "use for_each_epoch(...)",
    "groupBy": "use group_by(...) on tables, aggregate(...) with a function of a record",
    "groupby": "use group_by(...) on tables, aggregate(...) with a function of a record",
    "key_by": "use exchange(...), or the key= of the operator that follows",
    "mapPartitions": "use map_batches(...)",
    "orderBy": "use sort(...), or top_k(...)",
    "order_by": "use sort(...), or top_k(...)",
    "print": "use inspect(print)",
    "reduce": "use aggregate(key, add=function)",
    "repartition": "use rebalance(), or exchange(key)",
    "show": "use inspect(print)",
    "union": "use concat(...)",
    "where": "use filter(...)",
    "withColumn": "use select(...)",
    "write": "use write_files(...), capture_to(...) or publish(...)",
}
"""What to call instead of methods known from Spark or Flink."""


class Stream(
    RecordOperators[Record],
    RoutingOperators[Record],
    TimeOperators[Record],
    LoopOperators[Record],
    EpochOperators[Record],
    KeyedOperators[Record],
    WindowOperators[Record],
    JoinOperators[Record],
    IntervalJoinOperators[Record],
    ColumnOperators[Record],
    SubstreamOperators[Record],
    CollectionOperators[Record],
    OutputOperators[Record],
):
    """The timestamped records that one output of an operator sends.

    A message carries a batch: a list, an Arrow table or record batch, or a NumPy array. An operator calls a function of
    a record for each record of a batch; a row of Arrow is a dict. `map_batches` gets whole batches.

    Every operator takes ``name=``, which errors, statistics and drawings show; the default is the method's name. Names
    are unique within their scope: the second "parse" that you add becomes "parse-2". Within the loop "rounds" the name
    is "rounds/parse". If an operator has several parts, they are named after it, such as "parse: partial".
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know that there are no others

        def __getattr__(self, name: str) -> Any:
            from tidewheel.operators.collections.collection import Collection

            hint = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            if not hint and not name.startswith("_") and hasattr(Collection, name):
                hint = f": a collection has it, use as_collection().{name}(...)"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    @adds_operators()
    def unary(
        self,
        build: Build,
        exchange: Key | None = None,
        *,
        name: str,
        bound: Bound | None = None,
        ordered: bool = False,
    ) -> "Stream[Any]":
        """Add an operator with one input and one output, which may hold tokens and look at its frontier.

        On a stream with substreams, a batch belongs to the substream of the token with which it is sent. So the
        operator must keep records by ``(token.time, token.key)``, or read `without_substreams`.

        Args:
            build: called once on each worker with an `OperatorContext`; returns ``schedule(input, output)``.
            exchange: the key by which records are exchanged among workers; None leaves them on their workers.
            name: the operator's name.
            bound: how the operator learns the ends of substreams. With ``"soft"`` it finds ended substreams in
                ``input.ended``. With ``"firm"`` it receives each substream in one piece, then its end, and then the
                next. Substreams that have not ended wait before the operator and hold their epochs open. In a loop with
                ``"firm"``, no operator may keep tokens until a time is complete.
            ordered: whether substreams end in the order in which they were closed.

        >>> import tidewheel as tw
        >>> def build(context):  # called on each worker
        ...     def schedule(input, output):  # called when there is something to do
        ...         for token, batch in input:
        ...             output.send(token, [max(batch)])
        ...
        ...     return schedule
        >>> flow = tw.Dataflow("greatest")
        >>> _ = flow.input("numbers").unary(build, name="greatest").capture("greatest")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("numbers") as numbers:
        ...         numbers.send([3, 1])
        ...     job.wait()
        ...     job.captured("greatest")
        [Captured(time=0, batch=[3])]
        """
        wanted = ends_wanted(name, bound, ordered=ordered)
        return self._unary(name, build, exchange, by_substream=wanted)._for_effect()

    @adds_operators()
    def binary(
        self,
        other: "Stream[Other]",
        build: Build,
        exchange: tuple[Key | None, Key | None] = (None, None),
        *,
        name: str,
        bound: Bound | None = None,
        ordered: bool = False,
    ) -> "Stream[Any]":
        """Add an operator with two inputs and one output, which may hold tokens and look at its frontiers.

        Args:
            other: the other stream, of the same scope.
            build: called once on each worker with an `OperatorContext`; returns ``schedule(left, right, output)``.
            exchange: the key by which each side's records are exchanged among workers; None leaves them on their
                workers.
            name: the operator's name.
            bound: how the operator learns the ends of substreams, as for `unary`.
            ordered: whether it learns the ends in order, as for `unary`.

        >>> import tidewheel as tw
        >>> def build(context):
        ...     def schedule(left, right, output):
        ...         for side, port in (("left", left), ("right", right)):
        ...             for token, batch in port:
        ...                 output.send(token, [(side, record) for record in batch])
        ...
        ...     return schedule
        >>> flow = tw.Dataflow("sides")
        >>> _ = flow.input("a").binary(flow.input("b"), build, name="tag").capture("tagged")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("a") as a, job.input("b") as b:
        ...         a.send([1])
        ...         b.send([2])
        ...     job.wait()
        ...     job.captured("tagged")
        [Captured(time=0, batch=[('left', 1)]), Captured(time=0, batch=[('right', 2)])]
        """
        if not isinstance(exchange, tuple) or len(exchange) != 2:
            raise GraphError(
                f"operator {name!r}: exchange has a key for each side, (left, right), None for none, not {exchange!r}"
            )
        wanted = ends_wanted(name, bound, ordered=ordered)
        return self._operator(name, [other], 1, build, exchange, by_substream=wanted)[0]._for_effect()


class Feedback(Stream[Record]):
    """The stream of records that come back in a loop; operators can read it before it is connected."""

    __slots__ = ("_feedback",)

    def __init__(self, flow: "Dataflow", outlet: Outlet, operator: int) -> None:
        super().__init__(flow, outlet)
        self._feedback = operator

    def connect(self, stream: Stream[Record]) -> None:
        """Close the loop: records of ``stream`` come back here a round later.

        Raises:
            GraphError: the feedback is connected already, or ``stream`` is in another scope or dataflow.
        """
        self._description.connect(self._feedback, check_stream("feedback", stream))


class Loop:
    """A scope whose streams have times ``(outer, round)``.

    Its ``with`` block has no effect; it shows the loop's extent.
    """

    __slots__ = ("_flow", "_scope")

    def __init__(self, flow: "Dataflow", scope: Scope) -> None:
        self._flow = flow
        self._scope = scope

    def feedback(self, advance: int = 1, *, name: str = "feedback") -> Feedback[Any]:
        """Return the stream of the records that come back; connect it later by `Feedback.connect`."""
        scope = self._scope
        if not isinstance(scope.nesting.coordinate_domains[-1], IntegerDomain):
            raise GraphError(
                f"a feedback in {scope.describe()} would advance times that are no integers; put the cycle in a loop, "
                "flow.scope(name), whose rounds are"
            )
        check_positive(f"a feedback in {scope.describe()}", "advance", advance, least=0)
        summary = PathSummary.advance(scope.nesting, advance)
        operator, outlet = description_of(self._flow).add_open_operator(name, scope, build_pass, summary)
        return Feedback(self._flow, outlet, operator)

    def inner(self, name: str) -> "Loop":
        """Return a loop within this one, with times ``((outer, round), inner round)``."""
        return Loop(self._flow, self._scope.inside(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
