"""Collections: records with counts that change over time; operators compute changes from changes."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Self, overload

from tidewheel.batches.batches import is_schema
from tidewheel.operators.base.stream_base import check_function, check_positive
from tidewheel.operators.collections.named_columns import (
    check_fields,
    checked_columns,
    joined_columns,
    key_and_value,
    selected,
)
from tidewheel.operators.collections.scopes import check_input, concatenated
from tidewheel.operators.collections.update_stream import UpdateStream
from tidewheel.operators.keys.columns import Expression, is_expression
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.plan import Transform

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.differential.reductions import Reduction
    from tidewheel.operators.collections.builds import Project
    from tidewheel.operators.stream import Stream

_FOLDS = {"accumulate", "aggregate", "stateful_map"}
"""The operators of streams that fold records by key. On a collection's changes they would fold pairs (record,
count)."""


class Collection:
    """Records, each with a count that changes over time; made by ``stream.as_collection()``.

    At each epoch, the result of an operator equals the result of plain Python on the operator's inputs at that epoch.

    Records are hashable values. Operators that look at keys need pairs (key, value). Pairs of whole numbers or floats
    are the fastest, since they stay in columns all the way. Operators that compare records need keys and values that
    `Stream.exchange` can hash.

    Columns have names if the collection was made with `as_collection(columns=...)`, `select` or `map(columns=...)`. The
    first column is the key. A record of more than two columns is a pair (key, tuple of the others).
    """

    __slots__ = ("_updates",)

    def __init__(self, updates: UpdateStream) -> None:
        self._updates = updates

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._updates.describe()}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _FOLDS:
                raise AttributeError(
                    f"a collection has no {name}(): reduce(function), reduce_sum() and others keep the result of each "
                    "key up to date"
                )
            if not name.startswith("_") and hasattr(type(self._updates.stream), name):
                raise AttributeError(
                    f"a collection has no {name}(), and a stream has: write collection.changes().{name}(...), whose "
                    "records are (record, count)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    # ------------------------------------------------------------------ each record by itself, and columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, the key first; empty if they have no names."""
        return self._updates.columns

    @adds_operators()
    def map(self, function: Callable[..., Any], *, columns: bool | Sequence[str] = False, name: str = "map") -> Self:
        """Replace each record by ``function(record)``, which must always return the same for equal records.

        Args:
            function: a function of a record.
            columns: whether the function takes and returns NumPy arrays, one for each column, instead of a record. The
                function receives columns without names as one array, or as keys and values if all records of a batch
                are pairs. The function returns one array, or two for pairs. A list of names lets it return a tuple with
                one column for each name. A column may also be a list or tuple, or one value for all records.
            name: the operator's name.

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
        return self._stage(name, partial(stages.mapped_columns, function, self.columns, names), names)

    @adds_operators()
    def filter(
        self, predicate: Callable[..., object] | Expression, *, columns: bool = False, name: str = "filter"
    ) -> Self:
        """Keep the records for which ``predicate(record)`` is true; it must always return the same for equal records.

        With ``columns=True`` the predicate takes columns, as for `map`, and returns an array of bools. Where columns
        have names it may be an expression of `pyarrow.compute`, such as ``pc.field("price") > 1``. Null counts as
        false.

        Raises:
            GraphError: an expression needs a column that the collection does not have.

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
            check_fields(name, self._updates, [predicate])
            return self._stage(name, partial(rows.kept_by, predicate, self.columns), self.columns)
        check_function(f"operator {name!r}", predicate)
        assert callable(predicate), "it has been checked"
        kept = partial(stages.kept_columns, predicate, self.columns) if columns else partial(stages.kept, predicate)
        return self._stage(name, kept, self.columns)

    @adds_operators()
    def select(self, *names: str, **expressions: "Expression | str") -> Self:
        """Replace each record by the columns ``names`` and the columns that ``expressions`` compute.

        The first column is the key. ``select`` also chooses another key or value: ``rows.select("user",
        "price").reduce_sum()``.

        Args:
            names: columns that stay as they are.
            expressions: the name of each new column with its expression, such as ``pc.field("n") * 2`` of
                `pyarrow.compute`. A string as ``name`` is the operator's name, not a column.

        Raises:
            GraphError: the columns have no names, a column is missing or named twice, or an argument is not an
                expression.

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
        name = str(expressions.pop("name")) if isinstance(expressions.get("name"), str) else "select"
        return type(self)(selected(name, self._updates, names, expressions))

    @adds_operators()
    def flat_map(self, function: Callable[[Any], Iterable[Any]], *, name: str = "flat_map") -> Self:
        """Replace each record by all records of ``function(record)``, which must return the same for equal records.

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

    # ------------------------------------------------------------------ whole collections

    @adds_operators()
    def concat(self, *others: Self, name: str = "concat") -> Self:
        """Add collections: the count of a record is the sum of its counts in all of them.

        A collection outside a loop enters the loop of the others.

        Raises:
            GraphError: an argument is not a collection of this dataflow, or two are in separate loops.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("both")
        >>> one = flow.source("one", tw.IterableSource([[(0, ["a"])]])).as_collection()
        >>> _ = one.concat(one).changes().capture("both")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("both")
        [Captured(time=0, batch=[('a', 2)])]
        """
        return type(self)(concatenated(name, self._updates, [self._read(name, other) for other in others]))

    @adds_operators()
    def negate(self, *, name: str = "negate") -> Self:
        """Negate all counts: ``a.concat(b.negate())`` is the difference of ``a`` and ``b``.

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

        return self._stage(name, negated, self.columns)

    @adds_operators()
    def consolidate(self, *, name: str = "consolidate") -> Self:
        """Send the changes of each time when it is complete, added up by record, without those that cancel out.

        The collection stays the same; later operators receive fewer changes.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("nothing")
        >>> one = flow.source("one", tw.IterableSource([[(0, ["a", "b"])]])).as_collection()
        >>> _ = one.concat(one.negate()).consolidate().changes().capture("nothing")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("nothing")
        []
        """
        from tidewheel.operators.collections.arranging import consolidated

        return type(self)(consolidated(self._updates, name))

    @adds_operators()
    def changes(self, columns: "bool | Sequence[str] | pa.Schema" = False, *, name: str = "changes") -> "Stream[Any]":
        """Return the stream of changes: at each time, one pair (record, count) for each record whose count changes.

        The count in a pair is the change of the record's count, negative if records are removed.
        ``changes().as_collection(diff=True)`` makes the same collection again.

        Args:
            columns: the names of the columns, the key first: the stream then has Arrow tables with these columns and
                ``diff``. True keeps the columns' own names. Each batch's values decide the types, unless you pass a
                `pyarrow.Schema` instead of names.
            name: the operator's name.

        Raises:
            GraphError: the number of names is wrong, or a name occurs twice or is ``diff``.
            JobError: when the job runs, if no Arrow type holds the values of a column.

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
            names = checked_columns(name, self.columns if columns is True else types.names if types else columns)
            if "diff" in names or len(names) != len(self.columns or names):
                raise GraphError(
                    f"operator {name!r}: columns= has a name for each column, none of them 'diff', not {columns!r}; "
                    f"{self._updates.with_columns()}"
                )
            transform = partial(rows.as_table, names, types)
            schema = None if types is None else rows.schema_with_diff(types)
        summed = self if self._updates.is_summed else self.consolidate(name=f"{name}: sums")
        changed: Stream[Any] = summed._updates.stream._stage(name, transform, schema=schema)
        return changed

    @adds_operators()
    def upserts(self, *, name: str = "upserts") -> "Stream[tuple[Any, Any]]":
        """Return the stream of pairs (key, value), each replacing the key's previous pair, for sinks that update rows.

        At each time it has one pair for each key whose value changes. The value is None when the key is removed; values
        of the collection are never None. ``upserts().as_collection(upserts=True)`` makes the same collection again.

        Raises:
            GraphError: the collection is in a loop.
            JobError: when the job runs, if a record is no pair, or a key has more than one value.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("prices")
        >>> bids = [(0, [(("tea", 3), 1)]), (1, [(("tea", 5), 1), (("milk", 1), 1)]), (2, [(("milk", 1), -1)])]
        >>> best = flow.source("bids", tw.IterableSource([bids])).as_collection(diff=True).reduce_max()
        >>> _ = best.upserts().capture("best")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     for one in job.captured("best"):
        ...         print(one.time, sorted(one.batch))
        0 [('tea', 3)]
        1 [('milk', 1), ('tea', 5)]
        2 [('milk', None)]
        """
        from tidewheel.operators.collections.upserts import build_to_upserts

        if self._updates.depth > 1:
            raise GraphError(f"operator {name!r}: upserts() is for what leaves the loop, whose times have no rounds")
        sent: Stream[Any] = self._updates.stream._unary(name, build_to_upserts, self._updates.pact(name, "key"))
        return sent

    @adds_operators()
    def empty(self, *, name: str = "empty") -> Self:
        """Keep no record, for example for a loop that begins with nothing.

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

        made = self._updates.stream._stage(name, nothing)
        return type(self)(UpdateStream(made, self.columns, is_empty=True))

    # ------------------------------------------------------------------ records with equal keys

    @adds_operators()
    def join(
        self,
        other: Self,
        function: Callable[[Any, Any, Any], Any] | None = None,
        *,
        columns: bool | Sequence[str] = False,
        name: str = "join",
    ) -> Self:
        """Pair the records (key, left) of this collection with the records (key, right) of another by key.

        The count of a pair is the product of both counts.

        Args:
            other: the right collection. If only one of the two is in a loop, the other enters that loop.
            function: ``function(key, left, right)`` returns a record; the default is ``(key, (left, right))``. If both
                have named columns, the default is the key, the left side's other columns and the right side's.
            columns: whether ``function`` takes and returns columns, as for `Collection.map`.
            name: the operator's name.

        Raises:
            GraphError: ``other`` is not a collection of this dataflow, or both are in separate loops; or both have a
                column with the same name and there is no function.
            JobError: when the job runs, if a record is not a pair.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("names")
        >>> names = flow.source("names", tw.IterableSource([[(0, [(1, "ann"), (2, "bob")])]])).as_collection()
        >>> ages = flow.source("ages", tw.IterableSource([[(0, [(1, 41)]), (1, [(2, 17)])]])).as_collection()
        >>> _ = names.join(ages, lambda number, name, age: (name, age)).changes().capture("ages")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("ages")
        [Captured(time=0, batch=[(('ann', 41), 1)]), Captured(time=1, batch=[(('bob', 17), 1)])]
        """
        from tidewheel.operators.collections import rows, stages

        right = self._read(name, other)
        names = self.columns, right.columns
        if function is None and all(names):
            together = joined_columns(name, self._updates, right)
            return self._join(name, right, partial(rows.project_rows, *names), together)
        if function is None:
            return self._join(name, right, stages.project_pairs)
        check_function(f"operator {name!r}", function)
        if columns is False:
            return self._join(name, right, partial(stages.project_by, function))
        made = () if columns is True else checked_columns(name, columns)
        return self._join(name, right, partial(stages.project_columns, function, *names, made), made)

    @adds_operators()
    def semijoin(self, keys: Self, *, name: str = "semijoin") -> Self:
        """Keep the records (key, value) whose key is a record of ``keys``, whatever its count there.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("adults")
        >>> ages = flow.source("ages", tw.IterableSource([[(0, [("ann", 41), ("bob", 17)])]])).as_collection()
        >>> members = flow.source("members", tw.IterableSource([[(0, ["bob"])]])).as_collection()
        >>> _ = ages.semijoin(members).changes().capture("members")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("members")
        [Captured(time=0, batch=[(('bob', 17), 1)])]
        """
        from tidewheel.operators.collections import stages
        from tidewheel.operators.collections.arranging import known_keys

        right = self._read(name, keys)
        if self.columns and len(right.columns) > 1:
            raise GraphError(
                f"operator {name!r} takes the keys alone, and {right.with_columns()}: choose the key before, as in "
                f"select({right.columns[0]!r})"
            )
        return self._join(name, known_keys(right, name), stages.project_left, self.columns)

    @adds_operators()
    def antijoin(self, keys: Self, *, name: str = "antijoin") -> Self:
        """Keep the records (key, value) whose key is not a record of ``keys``.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("guests")
        >>> ages = flow.source("ages", tw.IterableSource([[(0, [("ann", 41), ("bob", 17)])]])).as_collection()
        >>> members = flow.source("members", tw.IterableSource([[(0, ["bob"])]])).as_collection()
        >>> _ = ages.antijoin(members).changes().capture("guests")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("guests")
        [Captured(time=0, batch=[(('ann', 41), 1)])]
        """
        from tidewheel.operators.collections import stages

        known = self.semijoin(keys, name=f"{name}: semijoin")
        others = known._updates.stage(f"{name}: negate", stages.negated, self.columns)
        return type(self)(concatenated(name, self._updates, [others]))

    def lookup(self, name: str) -> Self:
        """Let ``job.lookup(name, key)`` read the values of keys while the job runs. Returns this collection.

        Each worker keeps the records (key, value) of the keys that it owns, sorted by key.

        Raises:
            GraphError: the collection is in a loop, or the name is empty or taken.
            JobError: when the job runs, if a record is not a pair.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> _ = flow.input("words").as_collection().count().lookup("counts")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("words") as words:
        ...         words.send(["to", "be", "to"])
        ...         words.advance_to(1)
        ...         job.lookup("counts", "to")
        LookedUp(time=0, counts={'to': {2: 1}})
        """
        from tidewheel.operators.collections.arranging import look_up

        look_up(self._updates, name)
        return self

    @adds_operators()
    def distinct(self, *, name: str = "distinct") -> Self:
        """Keep each record with a count above 0 once.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["to", "be", "to"])]])).as_collection()
        >>> _ = words.distinct().changes().capture("words")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(job.captured("words")[0].batch)
        [('be', 1), ('to', 1)]
        """
        return self._reduce(name, lambda of: of.Threshold(), self.columns)

    @adds_operators()
    def threshold(self, function: Callable[[Any, int], int], *, name: str = "threshold") -> Self:
        """Set the count of each record to ``function(record, count)``, called for counts other than 0.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["to", "be", "to"])]])).as_collection()
        >>> _ = words.threshold(lambda word, count: count if count > 1 else 0).changes().capture("frequent")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("frequent")
        [Captured(time=0, batch=[('to', 2)])]
        """
        check_function(f"operator {name!r}", function)
        return self._reduce(name, lambda of: of.Threshold(function), self.columns)

    @adds_operators()
    def count(self, *, name: str = "count") -> Self:
        """Return pairs (record, count).

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["to", "be"]), (1, ["to"])]])).as_collection()
        >>> _ = words.count().changes().capture("counts")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     for one in job.captured("counts"):
        ...         print(one.time, sorted(one.batch))
        0 [(('be', 1), 1), (('to', 1), 1)]
        1 [(('to', 1), -1), (('to', 2), 1)]
        """
        return self._reduce(name, lambda of: of.Count())

    @adds_operators()
    def reduce(self, function: Callable[[Any, list[Any]], Iterable[Any]], *, name: str = "reduce") -> Self:
        """Replace the records (key, value) of each key by records (key, result), one for each result of ``function``.

        Args:
            function: ``function(key, values)`` returns any number of results. The list has each value as often as its
                count, in no particular order. The function is called for keys that have a value. Its results must
                depend only on its arguments.
            name: the operator's name.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("medians")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9), ("a", 4)])]])).as_collection()
        >>> _ = prices.reduce(lambda shop, found: [sorted(found)[len(found) // 2]]).changes().capture("medians")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("medians")
        [Captured(time=0, batch=[(('a', 4), 1)])]
        """
        check_function(f"operator {name!r}", function)
        return self._reduce(name, lambda of: of.Grouped(function))

    @adds_operators()
    def reduce_min(self, *, name: str = "reduce_min") -> Self:
        """Keep the least value of each key, once.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("cheapest")
        >>> changes = tw.IterableSource([[(0, [(("a", 3), 1), (("a", 9), 1)]), (1, [(("a", 3), -1)])]])
        >>> prices = flow.source("prices", changes).as_collection(diff=True)
        >>> _ = prices.reduce_min().changes().capture("cheapest")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     for one in job.captured("cheapest"):
        ...         print(one.time, sorted(one.batch))
        0 [(('a', 3), 1)]
        1 [(('a', 3), -1), (('a', 9), 1)]
        """
        return self._reduce(name, lambda of: of.Extreme(greatest=False), self.columns)

    @adds_operators()
    def reduce_max(self, *, name: str = "reduce_max") -> Self:
        """Keep the greatest value of each key, once.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("dearest")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9)])]])).as_collection()
        >>> _ = prices.reduce_max().changes().capture("dearest")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("dearest")
        [Captured(time=0, batch=[(('a', 9), 1)])]
        """
        return self._reduce(name, lambda of: of.Extreme(greatest=True), self.columns)

    @adds_operators()
    def reduce_sum(self, *, name: str = "reduce_sum") -> Self:
        """Replace the values of each key by their sum.

        Sums of whole numbers are exact. A sum of floats is the exact sum, rounded once, whatever their order.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("takings")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9)])]])).as_collection()
        >>> _ = prices.reduce_sum().changes().capture("takings")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("takings")
        [Captured(time=0, batch=[(('a', 12), 1)])]
        """
        return self._reduce(name, lambda of: of.Sum(mean=False), key_and_value(name, self._updates))

    @adds_operators()
    def reduce_mean(self, *, name: str = "reduce_mean") -> Self:
        """Replace the values of each key by their mean, a float: `reduce_sum` divided by the count.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("means")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9)])]])).as_collection()
        >>> _ = prices.reduce_mean().changes().capture("means")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("means")
        [Captured(time=0, batch=[(('a', 6.0), 1)])]
        """
        return self._reduce(name, lambda of: of.Sum(mean=True), key_and_value(name, self._updates))

    @adds_operators()
    def top_k(self, k: int, *, greatest: bool = True, name: str = "top_k") -> Self:
        """Keep the ``k`` greatest values of each key; with ``greatest=False``, the least.

        A value with count 2 counts as two values.

        Raises:
            GraphError: ``k`` is not a whole number of at least 1.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("dearest")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9), ("a", 4)])]])).as_collection()
        >>> _ = prices.top_k(2).changes().capture("dearest")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(job.captured("dearest")[0].batch)
        [(('a', 4), 1), (('a', 9), 1)]
        """
        check_positive(f"operator {name!r}", "k", k)
        return self._reduce(name, lambda of: of.TopK(k, greatest=greatest), self.columns)

    # ------------------------------------------------------------------ loops

    @adds_operators()
    def enter_at(self, function: Callable[..., Any], *, columns: bool = False, name: str = "enter_at") -> Self:
        """Let each record enter the loop in the round that ``function(record)`` returns.

        Call it in the body of `iterate`. It changes the order of the work, not the result. It saves work if the records
        that replace most others enter first. The loop ends when all records have entered and a round changes nothing.
        Rounds without changes cost nothing.

        Args:
            function: a function of a record that returns a whole number, the same each time. Numbers below 0 count as
                0. A record whose round is ``max_rounds`` or more never enters.
            columns: whether ``function`` takes and returns columns instead, as for `map`.
            name: the operator's name.

        Raises:
            GraphError: it is not called in the body of a loop, or the collection is in another loop.
            JobError: when the job runs, if the function returns something other than a whole number.

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
        from tidewheel.operators.collections import iterating, stages

        check_function(f"operator {name!r}", function)
        rounds = partial(stages.mapped, function)
        if columns:
            rounds = partial(stages.mapped_columns, function, self.columns, ("round",))
        return type(self)(iterating.entering(name, self._updates, rounds))

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
        """Apply ``body`` again and again until nothing changes, and keep the result up to date.

        The result at an epoch is the fixed point ``body(...body(body(collection)))`` at that epoch. After a change of
        the input, only the differences in each round are computed. ``body`` may itself call `iterate`.

        Args:
            body: a function of a collection that returns the collection of the next round. It may use collections from
                outside. It must reach a fixed point, or the epoch never ends.
            others: the initial values of further variables. ``body`` then gets and returns one collection for each
                variable, and so does `iterate`.
            max_rounds: the greatest number of rounds.
            name: the name of the loop; errors show it.

        Raises:
            GraphError: ``body`` does not return one collection for each variable.

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
        from tidewheel.operators.collections.iterating import iterated

        check_function(f"iterate {name!r}", body)
        if max_rounds is not None:
            check_positive(f"iterate {name!r}", "max_rounds", max_rounds)
        for other in others:
            self._read(name, other)
        results = iterated(name, [self, *others], body, max_rounds)
        return results if others else results[0]

    # ------------------------------------------------------------------ for the methods above

    def _stage(self, name: str, transform: Transform, columns: tuple[str, ...] = ()) -> Self:
        return type(self)(self._updates.stage(name, transform, columns))

    def _join(self, name: str, other: UpdateStream, project: "Project", columns: tuple[str, ...] = ()) -> Self:
        from tidewheel.operators.collections.arranging import joined

        return type(self)(joined(self._updates, other, name, project, columns))

    def _reduce(self, name: str, make: "Callable[[Any], Reduction]", columns: tuple[str, ...] = ()) -> Self:
        from tidewheel.differential import reductions
        from tidewheel.operators.collections.arranging import reduced

        return type(self)(reduced(self._updates, name, make(reductions), columns))

    def _read(self, name: str, other: object) -> UpdateStream:
        if not isinstance(other, Collection):
            raise GraphError(f"operator {name!r} takes a collection, from as_collection(), not {short(other)}")
        check_input(name, self._updates, other._updates)
        return other._updates
