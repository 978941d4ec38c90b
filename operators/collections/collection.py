"""Collections: records with counts that change over time, and operators that do work in proportion to the changes."""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload

from tidewheel.batches.batches import is_schema
from tidewheel.operators.base.stream_base import check_function, check_positive
from tidewheel.operators.collections.collection_base import CollectionBase, lies_in
from tidewheel.operators.collections.column_collection import ColumnCollection, checked_columns
from tidewheel.operators.collections.keyed_collection import KeyedCollection
from tidewheel.progress import GraphError, PathSummary
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.plan import Transform

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.operators.stream import Stream

_BODY: ContextVar[tuple[Any, int | None]] = ContextVar("_BODY", default=(None, None))
"""A collection in the scope of the loop whose body is being called, None outside of all, and its ``max_rounds``."""


class Collection(ColumnCollection, KeyedCollection):
    """Records, each with a count that changes over time; made by ``stream.as_collection()``.

    At each epoch, an operator's result is what plain Python would make of the records that its inputs have at that
    epoch. The operators compute changes of the result from changes of the inputs.

    Records are hashable values. Operators that look at keys need pairs (key, value). Pairs of whole numbers or floats
    are the fastest, as they stay in columns from end to end. Before an operator that compares records, keys and values
    have to be what `Stream.exchange` can hash.
    """

    __slots__ = ()

    @adds_operators()
    def flat_map(self, function: Callable[[Any], Iterable[Any]], *, name: str = "flat_map") -> Self:
        """Replace each record by all records that ``function(record)`` yields, the same each time.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("nodes")
        >>> edges = flow.source("edges", tw.IterableSource([[(0, [(1, 2), (2, 3)])]])).as_collection()
        >>> _ = edges.flat_map(lambda edge: edge).changes().capture("nodes")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("nodes")
        [Captured(time=0, batch=[(1, 1), (2, 2), (3, 1)])]
        """
        from tidewheel.operators.collections.stages import flat_mapped

        check_function(f"operator {name!r}", function)
        return self._stage(name, partial(flat_mapped, function))

    @adds_operators()
    def concat(self, *others: Self, name: str = "concat") -> Self:
        """Add collections up: a record is there as often as in all of them together.

        Those of outer scopes enter the loop of the innermost.

        Raises:
            GraphError: one is no collection of this dataflow, or two are in loops beside each other.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("both")
        >>> one = flow.source("one", tw.IterableSource([[(0, ["a"])]])).as_collection()
        >>> _ = one.concat(one).changes().capture("both")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("both")
        [Captured(time=0, batch=[('a', 2)])]
        """
        return self._concat(name, others)

    @adds_operators()
    def negate(self, *, name: str = "negate") -> Self:
        """Turn the sign of all counts, so that ``a.concat(b.negate())`` is what ``a`` has more than ``b``.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("less")
        >>> one = flow.source("one", tw.IterableSource([[(0, ["a", "b"])]])).as_collection()
        >>> less = one.filter(lambda letter: letter == "a")
        >>> _ = one.concat(less.negate()).changes().capture("rest")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("rest")
        [Captured(time=0, batch=[('b', 1)])]
        """
        from tidewheel.operators.collections.stages import negated

        return self._stage(name, negated, self._columns)

    @adds_operators()
    def consolidate(self, *, name: str = "consolidate") -> Self:
        """Add up the changes of each record at each time, once that is complete, and drop those that come to nothing.

        The collection stays the same. Fewer changes reach what follows.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("nothing")
        >>> one = flow.source("one", tw.IterableSource([[(0, ["a", "b"])]])).as_collection()
        >>> _ = one.concat(one.negate()).consolidate().changes().capture("nothing")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("nothing")
        []
        """
        from tidewheel.operators.collections.builds import build_consolidate

        owned_by = self._owned_by or "record"  # equal records have one owner in any case
        stream = self._stream._unary(name, build_consolidate(), self._pact(name, owned_by))
        return type(self)(stream, self._columns, is_summed=True, owned_by=owned_by)

    @adds_operators()
    def changes(self, columns: "bool | Sequence[str] | pa.Schema" = False, *, name: str = "changes") -> "Stream[Any]":
        """Return the stream of changes: at each time (record, count) for each record whose count changes, once.

        The count is added to what it was before, and is negative where records go. The sum of all changes until an
        epoch is the collection at that epoch. ``changes().as_collection(diff=True)`` makes the same collection again.

        Args:
            columns: the names of as many columns as the records have, the key first: the stream then has Arrow tables
                with these columns and a column ``diff``. True for the names that the columns have. Types are those of
                the values of each batch; a `pyarrow.Schema` instead of names says which types all tables have.
            name: what errors, statistics and drawings call it.

        Raises:
            GraphError: there are more or fewer columns than names, or one is named twice or ``diff``.
            JobError: when the job runs, if no type of Arrow's has the values of a column as they are.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("arcs")
        >>> edges = flow.source("edges", tw.IterableSource([[(0, [(1, 2), (1, 2)])]])).as_collection()
        >>> _ = edges.changes().capture("records")
        >>> _ = edges.changes(columns=["start", "end"]).capture("tables")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     print(job.captured("records")[0].batch, job.captured("tables")[0].batch.to_pylist())
        [((1, 2), 2)] [{'start': 1, 'end': 2, 'diff': 2}]
        """
        from tidewheel.operators.collections import rows, stages

        transform: Transform = stages.with_diffs
        schema = None
        if columns is not False:
            types: Any = columns if is_schema(columns) else None
            names = checked_columns(name, self._columns if columns is True else types.names if types else columns)
            if "diff" in names or len(names) != len(self._columns or names):
                raise GraphError(
                    f"operator {name!r}: columns= has a name for each column, none of them 'diff', not {columns!r}; "
                    f"{self._with_columns()}"
                )
            transform = partial(rows.as_table, names, types)
            schema = None if types is None else rows.schema_with_diff(types)
        summed = self if self._is_summed else self.consolidate(name=f"{name}: sums")
        changed: Stream[Any] = summed._stream._stage(name, transform, schema=schema)
        return changed

    @adds_operators()
    def empty(self, *, name: str = "empty") -> Self:
        """Keep no record, such as for a loop that begins with nothing.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("nothing")
        >>> one = flow.source("one", tw.IterableSource([[(0, ["a", "b"])]])).as_collection()
        >>> _ = one.empty().changes().capture("nothing")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("nothing")
        []
        """
        from tidewheel.operators.collections.stages import nothing

        return type(self)(self._stream._stage(name, nothing), self._columns, is_empty=True)

    @adds_operators()
    def enter_at(self, function: Callable[..., Any], *, columns: bool = False, name: str = "enter_at") -> Self:
        """Let each record enter the loop in the round that a function of it returns.

        Call it in the body of `iterate`. It changes the order in which the loop comes to its result, and so the work.
        Let records enter first to which most others give way. The loop ends when all have entered and nothing changes
        any more. Rounds in which nothing happens cost nothing, so their numbers may lie far apart.

        Args:
            function: a function of a record that returns a whole number, the same each time. The first round is 0, and
                numbers below count as 0. A record whose round is not below ``max_rounds`` never enters.
            columns: whether it takes and returns columns instead, as for `map`.
            name: what errors, statistics and drawings call it.

        Raises:
            GraphError: this is no body of a loop, or the collection is in another loop.
            JobError: when the job runs, if the function returns something else.

        >>> import tidewheel as tw
        >>> def least(labels):
        ...     offers = labels.join(edges, lambda node, label, neighbour: (neighbour, label))
        ...     return offers.concat(nodes.enter_at(lambda node: 10 * node[1])).reduce_min()
        >>> flow = tw.Dataflow("components")
        >>> edges = flow.source("edges", tw.IterableSource([[(0, [(3, 2), (2, 1), (5, 4)])]])).as_collection()
        >>> edges = edges.flat_map(lambda edge: [edge, edge[::-1]])
        >>> nodes = edges.map(lambda edge: (edge[0], edge[0])).distinct()
        >>> _ = nodes.empty().iterate(least).changes().capture("components")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(record for record, count in job.captured("components")[0].batch)
        [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]
        """
        from tidewheel.operators.base.batchwise import build_delay
        from tidewheel.operators.collections import stages

        check_function(f"operator {name!r}", function)
        around, most = _BODY.get()
        if around is None:
            raise GraphError(f"operator {name!r} is for loops: call it in the function that iterate() takes")
        stream = self._in_one_scope(name, [around])[0]._stream
        rounds = partial(stages.mapped, function)
        if columns:
            rounds = partial(stages.mapped_columns, function, self._columns, ("round",))
        (entered,) = stream._pass_on(name, build_delay(name, partial(stages.entering, rounds, most)))
        return type(self)(entered, self._columns)

    @overload
    def iterate(
        self, body: Callable[[Self], Self], *, max_rounds: int | None = None, name: str = "iterate"
    ) -> Self: ...

    @overload
    def iterate(
        self,
        body: Callable[..., tuple[Self, ...]],
        *others: Self,
        max_rounds: int | None = None,
        name: str = "iterate",
    ) -> tuple[Self, ...]: ...

    def iterate(
        self, body: Callable[..., Any], *others: Self, max_rounds: int | None = None, name: str = "iterate"
    ) -> Any:
        """Apply ``body`` to this collection again and again until nothing changes, and keep the result up to date.

        The result at an epoch is what ``body(...body(body(collection)))`` has at that epoch in the end. If the input
        changes, only what differs, round by round, is computed again. ``body`` may iterate, too.

        Args:
            body: a function of a collection that returns the collection of the next round. It may use collections from
                outside. It must reach a fixed point, or the epoch never ends.
            others: the initial values of further variables. Then ``body`` gets a collection for each, and returns a
                tuple of as many, and so does `iterate`.
            max_rounds: how often ``body`` is applied at most.
            name: the name of the loop; errors show it.

        Raises:
            GraphError: ``body`` returns something else.

        >>> import tidewheel as tw
        >>> def least(labels):
        ...     offers = labels.join(edges, lambda node, label, neighbour: (neighbour, label))
        ...     return offers.concat(nodes).reduce_min()
        >>> flow = tw.Dataflow("components")
        >>> edges = flow.source("edges", tw.IterableSource([[(0, [(3, 2), (2, 1), (5, 4)])]])).as_collection()
        >>> edges = edges.flat_map(lambda edge: [edge, edge[::-1]])
        >>> nodes = edges.map(lambda edge: (edge[0], edge[0])).distinct()
        >>> _ = nodes.iterate(least).changes().capture("components")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(record for record, count in job.captured("components")[0].batch)
        [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]
        """
        from tidewheel.operators.collections.builds import build_rounds
        from tidewheel.operators.stream import Loop

        check_function(f"iterate {name!r}", body)
        if max_rounds is not None:
            check_positive(f"iterate {name!r}", "max_rounds", max_rounds)
        # A loop in the body of another one may begin with a collection from outside, and use variables of that one.
        around, _ = _BODY.get()
        is_within = around is not None and around._stream.flow is self._stream.flow
        initial = self._in_one_scope(name, [*others, around] if is_within else others)[: 1 + len(others)]
        loop = Loop(self._stream.flow, initial[0]._scope.inside(name))
        with self._stream._description.all_or_nothing():
            entered = [one._entered(loop._scope) for one in initial]
            feedbacks = [loop.feedback() for _ in entered]
            variables = [
                one.concat(type(self)(back, one._columns)) for one, back in zip(entered, feedbacks, strict=True)
            ]
            for variable in variables:
                variable._stream.ignore()  # whether the body reads it is its own affair
            outside = _BODY.set((entered[0], max_rounds))
            try:
                made = body(*variables)
            finally:
                _BODY.reset(outside)
            results = self._results(name, loop, made, len(entered))
            for one, back, result, begun in zip(entered, feedbacks, results, (self, *others), strict=True):
                if begun._is_empty and result._is_summed:
                    changed = result._stream
                else:  # an update and its contrary would go round forever
                    changed = result.concat(one.negate()).consolidate(name="feedback: sums")._stream
                if max_rounds is not None:
                    (changed,) = changed._pass_on("rounds", build_rounds(max_rounds))
                back.connect(changed)
            to, path = initial[0]._scope, PathSummary.leave(loop._scope.nesting)
            left = tuple(result._moved("leave", to, path) for result in results)
            loop._scope.is_over = True
        return left if others else left[0]

    def _results(self, name: str, loop: Any, made: Any, count: int) -> list[Self]:
        """Return what the body of a loop has returned, in the scope of the loop."""
        parts = list(made) if isinstance(made, tuple) and count > 1 else [made]
        if len(parts) != count or not all(isinstance(one, CollectionBase) for one in parts):
            wanted = "a collection" if count == 1 else f"a tuple of {count} collections, one for each variable"
            raise GraphError(f"the body of {name!r} must return {wanted}, not {made!r}")
        if not all(lies_in(loop._scope, one._scope) for one in parts):
            raise GraphError(
                f"the body of {name!r} must return a collection of {loop._scope.describe()}, and this one is in "
                "another loop: return the result of iterate()"
            )
        return [one._entered(loop._scope) for one in parts]
