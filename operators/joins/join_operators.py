"""Operators that bring the records of several streams together by key."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args, overload

from tidewheel.batches.batches import Batch, concatenate
from tidewheel.operators.base.stream_base import Other, Record, StreamBase, check_stream
from tidewheel.operators.epochs.gathered_epochs import arrays_as_tables, build_gathered
from tidewheel.operators.joins.join_keys import JoinKeys, make_keys
from tidewheel.operators.joins.record_join import How, build_cogroup, build_pair_join, build_pair_join_across_epochs
from tidewheel.operators.joins.table_index import build_table_join_across_epochs
from tidewheel.operators.joins.table_join import JoinedColumns, build_announce, build_table_join
from tidewheel.operators.keys.columns import common_schema
from tidewheel.operators.keys.record_hash import GatherPact
from tidewheel.operators.keys.record_order import Order, check_order
from tidewheel.operators.keys.total_order import check_total_order
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import BroadcastPact, Key, Pact

if TYPE_CHECKING:
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream

KeyValue = TypeVar("KeyValue", bound=Hashable)


Match: TypeAlias = Callable[[Record], Hashable]
"""Returns the key of a record, by which a join matches both sides."""


class JoinOperators(StreamBase[Record]):
    """The methods of streams for joins."""

    __slots__ = ()

    @overload
    def join(
        self,
        other: "Stream[Any]",
        on: str | tuple[str, ...],
        other_on: str | tuple[str, ...] | None = None,
        *,
        how: How = "inner",
        suffix: str = "",
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Any]": ...

    @overload
    def join(
        self,
        other: "Stream[Other]",
        on: Match[Record],
        other_on: Match[Other] | None = None,
        *,
        how: Literal["inner"] = "inner",
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[Record, Other]]": ...

    @overload
    def join(
        self,
        other: "Stream[Other]",
        on: Match[Record],
        other_on: Match[Other] | None = None,
        *,
        how: Literal["left"],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[Record, Other | None]]": ...

    @overload
    def join(
        self,
        other: "Stream[Other]",
        on: Match[Record],
        other_on: Match[Other] | None = None,
        *,
        how: Literal["right"],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[Record | None, Other]]": ...

    @overload
    def join(
        self,
        other: "Stream[Other]",
        on: Match[Record],
        other_on: Match[Other] | None = None,
        *,
        how: Literal["outer"],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[Record | None, Other | None]]": ...

    @adds_operators("dead_letters")
    def join(
        self,
        other: "Stream[Any]",
        on: Key,
        other_on: Key | None = None,
        *,
        how: How = "inner",
        suffix: str = "",
        dead_letters: "DeadLetters | None" = None,
        name: str = "join",
    ) -> "Stream[Any]":
        """Pair the records of each epoch with those of ``other`` that have equal keys, in no particular order.

        With functions of a record the results are pairs (this side's record, the other's). With names of columns both
        sides are Arrow tables or structured arrays, and so is the result: this side's columns, then the other's without
        its key. A side's columns are known from its schema (`with_schema`), or from its first row on. Until then, a
        left, right or outer join leaves out the columns that it would fill with nulls.

        As in SQL, None, null, NaN and tuples with one of them match nothing. Other keys match if they are equal in
        Python, whatever their types. The join logs a warning if the first keys of both sides can never be equal, such
        as 1 and "1". In a loop each round is an epoch.

        Args:
            other: the other side, of the same scope.
            on: the key of this side's records: a function, or the name or names of columns.
            other_on: the key of the other side's records; ``on`` by default.
            how: "inner" drops records without a partner. The others keep those of this side ("left"), of the other side
                ("right") or of both ("outer"), with None or nulls in the partner's place.
            suffix: appended to the other side's column names that this side has, too; without it they are an error.
            dead_letters: receives records of both sides for which ``on`` or ``other_on`` raises; None fails the job.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used.

        Complexity: linear in records and pairs with functions, O(n log n) with tables.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("prices")
        >>> orders, prices = flow.input("orders"), flow.input("prices")
        >>> _ = orders.join(prices, lambda order: order[0], lambda price: price[0], how="left").capture("priced")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("orders") as feed:
        ...         feed.send([("tea", 2), ("salt", 1)])
        ...     with job.input("prices") as feed:
        ...         feed.send([("tea", 0.5)])
        ...     job.wait()
        ...     job.captured("priced")
        [Captured(time=0, batch=[(('tea', 2), ('tea', 0.5)), (('salt', 1), None)])]
        """
        if how not in get_args(How):
            raise GraphError(f"operator 'join': how is one of {', '.join(map(repr, get_args(How)))}, not {how!r}")
        keys = make_keys("join", on, other_on, suffix)
        check_stream(name, other)
        left, other = self._with_good_sides(name, keys, other, dead_letters)
        if not keys.are_columns:
            return left._operator(name, [other], 1, build_pair_join(keys, how), keys.exchanges)[0]
        columns = JoinedColumns(keys, suffix, takes_either=how in {"right", "outer"})
        schema = columns.schema_of("join", self.schema, other.schema)
        others: list[StreamBase[Any]] = [other]
        pacts: list[Key | Pact | None] = [*keys.exchanges]
        if how != "inner":
            announce = build_announce(self.nesting.domain)
            others += [side._unary(f"{name} schema", announce, notify=False) for side in (left, other)]
            pacts += [BroadcastPact(), BroadcastPact()]
        build = build_table_join(columns, how, (self.schema, other.schema), len(pacts))
        return left._operator(name, others, 1, build, pacts, schema=schema)[0]

    @overload
    def join_across_epochs(
        self,
        other: "Stream[Any]",
        on: str | tuple[str, ...],
        other_on: str | tuple[str, ...] | None = None,
        *,
        suffix: str = "",
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Any]": ...

    @overload
    def join_across_epochs(
        self,
        other: "Stream[Other]",
        on: Match[Record],
        other_on: Match[Other] | None = None,
        *,
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[Record, Other]]": ...

    @adds_operators("dead_letters")
    def join_across_epochs(
        self,
        other: "Stream[Any]",
        on: Key,
        other_on: Key | None = None,
        *,
        suffix: str = "",
        dead_letters: "DeadLetters | None" = None,
        name: str = "join_across_epochs",
    ) -> "Stream[Any]":
        """Pair records with equal keys, of any epochs; send each pair once, at the later epoch.

        Keys and results are as for `join`. All records are kept until the dataflow ends; `interval_join` keeps only
        records that can still have partners.

        Args:
            other: the other side, of the same scope.
            on: the key of this side's records: a function, or the name or names of columns.
            other_on: the key of the other side's records; ``on`` by default.
            suffix: appended to the other side's column names that this side has, too; without it they are an error.
            dead_letters: receives records of both sides for which ``on`` or ``other_on`` raises; None fails the job.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used, or the stream is in a loop, where times have no total order.

        Complexity: linear in the epoch's records and pairs; with tables, times O(log n) for n kept rows.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("follow")
        >>> users, clicks = flow.input("users"), flow.input("clicks")
        >>> _ = clicks.join_across_epochs(users, lambda c: c[0], lambda u: u[0]).capture("known")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("users") as feed:
        ...         feed.send([(7, "ann")])
        ...     with job.input("clicks") as feed:
        ...         feed.advance_to(3)
        ...         feed.send([(7, "/home")])
        ...     job.wait()
        ...     job.captured("known")
        [Captured(time=3, batch=[((7, '/home'), (7, 'ann'))])]
        """
        check_total_order(name, self._outlet.scope)
        keys = make_keys(name, on, other_on, suffix)
        check_stream(name, other)
        left, other = self._with_good_sides(name, keys, other, dead_letters)
        if not keys.are_columns:
            return left._operator(name, [other], 1, build_pair_join_across_epochs(keys), keys.exchanges)[0]
        columns = JoinedColumns(keys, suffix)
        schema = columns.schema_of(name, self.schema, other.schema)
        return left._operator(name, [other], 1, build_table_join_across_epochs(columns), keys.exchanges, schema=schema)[
            0
        ]

    @adds_operators("dead_letters")
    def cogroup(
        self,
        other: "Stream[Other]",
        on: Callable[[Record], KeyValue] | str | tuple[str, ...],
        other_on: Callable[[Other], KeyValue] | str | tuple[str, ...] | None = None,
        *,
        dead_letters: "DeadLetters | None" = None,
        name: str = "cogroup",
    ) -> "Stream[tuple[KeyValue, list[Record], list[Other]]]":
        """Gather the records of each epoch by key: send (key, this side's records, the other's records) for each key.

        Keys and lists are in no particular order; one list may be empty. None and NaN are keys like others. In a loop
        each round is an epoch.

        Args:
            other: the other side, of the same scope.
            on: the key of this side's records: a function, or the name or names of columns; rows of Arrow become dicts.
            other_on: the key of the other side's records; ``on`` by default.
            dead_letters: receives records of both sides for which ``on`` or ``other_on`` raises; None fails the job.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("both")
        >>> _ = flow.input("left").cogroup(flow.input("right"), lambda n: n % 2).capture("groups")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("left") as left, job.input("right") as right:
        ...         left.send([1, 2, 3])
        ...         right.send([5])
        ...     job.wait()
        ...     job.captured("groups")
        [Captured(time=0, batch=[(1, [1, 3], [5]), (0, [2], [])])]
        """
        keys = make_keys("cogroup", on, other_on)
        check_stream(name, other)
        left, right = self._with_good_sides(name, keys, other, dead_letters)
        return left._operator(name, [right], 1, build_cogroup(keys), keys.exchanges)[0]

    @adds_operators()
    def merge(
        self, *others: "Stream[Record]", by: Callable[[Record], Any] | str | tuple[str, ...], name: str = "merge"
    ) -> "Stream[Record]":
        """Merge all streams in order: each epoch is one sorted batch on worker 0.

        Records are ordered by epoch, then ``by``, then stream, then content. If later epochs have later values of
        ``by``, the result is sorted as a whole.

        Args:
            others: the other streams, of the same scope and with the same kind of records.
            by: the sort key: a function of a record, or the name or names of columns.
            name: the operator's name.

        Raises:
            GraphError: an argument cannot be used.

        Worker 0 holds an epoch in memory and sorts it, in O(n log n).

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("one log")
        >>> _ = flow.input("web").merge(flow.input("db"), by=lambda line: line[0]).capture("log")
        >>> with tw.run(flow, engine="local") as job:
        ...     with job.input("web") as web, job.input("db") as db:
        ...         web.send([(3, "GET"), (1, "PUT")])
        ...         db.send([(2, "commit")])
        ...     job.wait()
        ...     job.captured("log")
        [Captured(time=0, batch=[(1, 'PUT'), (2, 'commit'), (3, 'GET')])]
        """
        if by is None:
            raise GraphError("operator 'merge': by says what records are compared by, and is not None")
        check_order("merge", by, self.schema)
        inputs = 1 + len(others)
        for other in others:
            check_stream("merge", other)
        schema = common_schema("merge", [self.schema, *(other.schema for other in others)])
        build = build_gathered(inputs, lambda _, batches, __: ([_merged(Order(by), batches)],))
        return self._operator(name, others, 1, build, [GatherPact()] * inputs, schema=schema)[0]

    def _with_good_sides(
        self, name: str, keys: JoinKeys, other: "Stream[Any]", dead_letters: "DeadLetters | None"
    ) -> "tuple[StreamBase[Any], Stream[Any]]":
        """Return both sides of a join without the records that have no key, if there are dead letters."""
        if dead_letters is None:
            return self, other
        key, other_key = keys.of_sides
        left = self._with_good_keys(name, key, dead_letters)
        return left, other._with_good_keys(name, other_key, dead_letters, part=": other keys")


def _merged(order: Order, batches: list[list[Batch]]) -> Batch:
    every = [batch for side in batches for batch in side]
    return order.merged([concatenate(arrays_as_tables(side, every)) for side in batches if side])
