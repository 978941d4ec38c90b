"""The operators of collections that look at all records with one key: joins and reductions."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self

from tidewheel.operators.base.stream_base import check_function, check_positive
from tidewheel.operators.collections.collection_base import CollectionBase
from tidewheel.operators.collections.column_collection import checked_columns
from tidewheel.operators.collections.pacts import SameWorkerPact
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators


class KeyedCollection(CollectionBase):
    """The methods of collections for records with equal keys.

    All of them keep sorted columns of what they have received, and work in proportion to the keys that change.
    """

    __slots__ = ()

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

        A record of the result is there as often as the product of the counts of the two.

        Args:
            other: the other collection. Of two in different scopes the outer one enters the loop of the inner one.
            function: ``function(key, left, right)`` returns a record; by default it is ``(key, (left, right))``. Where
                the columns of both have names, the default is the key, the other columns of the left side and those of
                the right side.
            columns: whether ``function`` takes and returns columns, as for `Collection.map`: the key, those of the left
                side and those of the right side.
            name: what errors, statistics and drawings call it.

        Raises:
            GraphError: ``other`` is no collection of this dataflow, or in a loop beside the one of this collection, or
                both have a column of one name and there is no function.
            JobError: when the job runs, if a record is no pair.

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

        self._check_other(name, other)
        left, right = self._columns, other._columns
        if function is None and left and right:
            together = (*left, *right[1:])
            twice = [column for column in right[1:] if column in left]
            if twice:
                raise GraphError(
                    f"operator {name!r}: {self._with_columns()}, and {other._with_columns()}, so two columns would be "
                    f"named {twice[0]!r}: rename one before, as in select({right[0]!r}, other=pc.field({twice[0]!r}))"
                )
            return self._join(name, other, partial(rows.project_rows, left, right), together)
        if function is None:
            return self._join(name, other, stages.project_pairs)
        check_function(f"operator {name!r}", function)
        if columns is False:
            return self._join(name, other, partial(stages.project_by, function))
        names = () if columns is True else checked_columns(name, columns)
        return self._join(name, other, partial(stages.project_columns, function, left, right, names), names)

    @adds_operators()
    def semijoin(self, keys: Self, *, name: str = "semijoin") -> Self:
        """Keep the records (key, value) whose key is a record of ``keys``, however often it is there.

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
        from tidewheel.differential.records import as_keys
        from tidewheel.operators.collections import stages

        self._check_other(name, keys)
        if self._columns and len(keys._columns) > 1:
            raise GraphError(
                f"operator {name!r} takes the keys alone, and {keys._with_columns()}: choose the key before, as in "
                f"select({keys._columns[0]!r})"
            )
        known = keys._once("keys", lambda: keys.distinct(name=f"{name}: keys")._stage(f"{name}: pairs", as_keys))
        return self._join(name, known, stages.project_left, self._columns)

    @adds_operators()
    def antijoin(self, keys: Self, *, name: str = "antijoin") -> Self:
        """Keep the records (key, value) whose key is no record of ``keys``.

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
        return self._concat(name, (known._stage(f"{name}: negate", stages.negated, self._columns),))

    def lookups(self, name: str) -> Self:
        """Let ``job.lookup(name, key)`` read the values of keys while the job runs. Returns this collection.

        Each worker keeps the records (key, value) of the keys that it owns, sorted by key.

        Raises:
            GraphError: the collection is in a loop, or the name is taken or none.
            JobError: when the job runs, if a record is no pair.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> _ = flow.input("words").as_collection().count().lookups("counts")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("words") as words:
        ...         words.send(["to", "be", "to"])
        ...         words.advance_to(1)
        ...         job.lookup("counts", "to")
        LookedUp(time=0, counts={'to': {2: 1}})
        """
        from tidewheel.operators.collections.builds import build_lookups

        if self._depth > 1:
            raise GraphError(f"look-ups {name!r} are in a loop, where times have rounds, too: use its result")
        description = self._stream._description
        with description.all_or_nothing():
            side = self._arranged(f"lookup {name}")
            description.register("lookup", name, description.size)
            side._stream._operator(f"lookup {name}", [], 0, build_lookups(side._described.name), [SameWorkerPact()])
        return self

    @adds_operators()
    def distinct(self, *, name: str = "distinct") -> Self:
        """Keep each record once, as long as its count is above 0.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["to", "be", "to"])]])).as_collection()
        >>> _ = words.distinct().changes().capture("words")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(job.captured("words")[0].batch)
        [('be', 1), ('to', 1)]
        """
        return self._reduce(name, lambda of: of.Threshold(), self._columns)

    @adds_operators()
    def threshold(self, function: Callable[[Any, int], int], *, name: str = "threshold") -> Self:
        """Keep each record as often as ``function(record, count)`` says; it is asked for counts that are not 0.

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
        return self._reduce(name, lambda of: of.Threshold(function), self._columns)

    @adds_operators()
    def count(self, *, name: str = "count") -> Self:
        """Make pairs (record, count) of the records and how often each is there.

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
        """Replace the records (key, value) of each key by (key, result) for each result of a function.

        Args:
            function: ``function(key, values)`` returns any number of results for a list of values, in no order, each as
                often as it is there. It is called for keys that have a value, and has to depend on nothing else.
            name: what errors, statistics and drawings call it.

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
        return self._reduce(name, lambda of: of.Extreme(greatest=False), self._columns)

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
        return self._reduce(name, lambda of: of.Extreme(greatest=True), self._columns)

    @adds_operators()
    def reduce_sum(self, *, name: str = "reduce_sum") -> Self:
        """Replace the values of each key by their sum.

        Sums of whole numbers are exact. A sum of floats is the float next to the exact sum, whatever their order.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("takings")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9)])]])).as_collection()
        >>> _ = prices.reduce_sum().changes().capture("takings")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("takings")
        [Captured(time=0, batch=[(('a', 12), 1)])]
        """
        return self._reduce(name, lambda of: of.Sum(mean=False), self._one_value(name))

    @adds_operators()
    def reduce_mean(self, *, name: str = "reduce_mean") -> Self:
        """Replace the values of each key by their mean, a float.

        It is the quotient of the sum, as `reduce_sum` returns it, and the count.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("means")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9)])]])).as_collection()
        >>> _ = prices.reduce_mean().changes().capture("means")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("means")
        [Captured(time=0, batch=[(('a', 6.0), 1)])]
        """
        return self._reduce(name, lambda of: of.Sum(mean=True), self._one_value(name))

    @adds_operators()
    def top_k(self, most: int, *, greatest: bool = True, name: str = "top_k") -> Self:
        """Keep the greatest values of each key, or the least ones with ``greatest=False``; at most ``most`` of each.

        A value that is there twice counts twice.

        Raises:
            GraphError: ``most`` is no whole number from 1 on.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("dearest")
        >>> prices = flow.source("prices", tw.IterableSource([[(0, [("a", 3), ("a", 9), ("a", 4)])]])).as_collection()
        >>> _ = prices.top_k(2).changes().capture("dearest")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(job.captured("dearest")[0].batch)
        [(('a', 4), 1), (('a', 9), 1)]
        """
        check_positive(f"operator {name!r}", "most", most)
        return self._reduce(name, lambda of: of.TopK(most, greatest=greatest), self._columns)

    def _one_value(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns if these are a key and one value, or have no names."""
        if len(self._columns) > 2:
            raise GraphError(
                f"operator {name!r} adds up one column for each key, and {self._with_columns()}: choose the key and "
                f"the column before, as in select({self._columns[0]!r}, {self._columns[-1]!r})"
            )
        return self._columns
