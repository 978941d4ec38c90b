"""Operators that decide where records go."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from operator import index
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, overload

from tidewheel.batches.batches import Batch, records, scatter
from tidewheel.operators.base.batchwise import build_batchwise, build_pass, by_time
from tidewheel.operators.base.side_by_side import no_stream_itself
from tidewheel.operators.base.stream_base import Record, StreamBase, check_function, check_positive, check_stream
from tidewheel.operators.keys.columns import common_schema
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import BroadcastPact, Key, RebalancePact

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream


Owners: TypeAlias = Callable[[list[Any]], Sequence[int]]
"""Returns the number of the output of each record."""


@no_stream_itself
class Branches(NamedTuple, Generic[Record]):
    """The two outputs of a branch: the matching records, and the rest."""

    matching: "Stream[Record]"
    rest: "Stream[Record]"


@no_stream_itself
class NamedBranches(Generic[Record]):
    """The outputs of a branch by name, then ``rest``; they unpack in this order."""

    def __init__(self, streams: "Mapping[str, Stream[Record]]") -> None:
        vars(self).update(streams)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> "Stream[Record]": ...

    def __iter__(self) -> "Iterator[Stream[Record]]":
        return iter(vars(self).values())

    def __len__(self) -> int:
        return len(vars(self))


class RoutingOperators(StreamBase[Record]):
    """The methods of streams that divide and combine streams, and spread records over workers."""

    __slots__ = ()

    @adds_operators()
    def exchange(self, key: Key, *, name: str = "exchange") -> "Stream[Record]":
        """Send each record to the worker that owns its key. The owner is the same for every stream and kind of batch.

        Args:
            key: a function of a record, the name of a column (fast for Arrow), or a tuple of names.
            name: the operator's name.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("together")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["tide", "wheel"])], [(0, ["wheel", "tide"])]]))
        >>> _ = words.exchange(lambda word: word).capture("together")
        >>> with tw.run(flow, workers=2, engine="local") as job:
        ...     job.wait()
        ...     sorted(captured.batch for captured in job.captured("together"))
        [['tide'], ['tide'], ['wheel'], ['wheel']]
        """
        if key is None:
            raise GraphError("operator 'exchange': exchange by a function of a record, a name or names, not None")
        return self._stage(name, _unchanged, key, schema=self.schema, one_to_one=True)

    @adds_operators()
    def broadcast(self, *, name: str = "broadcast") -> "Stream[Record]":
        """Send all records to every worker.

        Each worker receives a batch as one message; the sending worker keeps the same object.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("everywhere")
        >>> _ = flow.source("words", tw.IterableSource([[(0, ["tide"])]])).broadcast().capture("everywhere")
        >>> with tw.run(flow, workers=2, engine="local") as job:
        ...     job.wait()
        ...     job.captured("everywhere")
        [Captured(time=0, batch=['tide']), Captured(time=0, batch=['tide'])]
        """
        return self._stage(name, _unchanged, BroadcastPact(), schema=self.schema, one_to_one=True)

    @adds_operators()
    def rebalance(self, *, name: str = "rebalance") -> "Stream[Record]":
        """Spread the records evenly over all workers, in slices of the batches in turn.

        The numbers of records that workers receive from one sender differ by at most one. Do not rely on which worker
        gets a record: `exchange` brings records together.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("shares")
        >>> _ = flow.source("numbers", tw.IterableSource([[(0, [1, 2, 3, 4])]])).rebalance().capture("shares")
        >>> with tw.run(flow, workers=2, engine="local") as job:
        ...     job.wait()
        ...     job.captured("shares")
        [Captured(time=0, batch=[1, 2]), Captured(time=0, batch=[3, 4])]
        """
        return self._stage(name, _unchanged, RebalancePact(), schema=self.schema, one_to_one=True)

    @adds_operators()
    def concat(self, *others: "Stream[Record]", name: str = "concat") -> "Stream[Record]":
        """Combine this stream with others of the same scope; each record stays on its worker.

        Raises:
            GraphError: scopes, dataflows or known columns differ.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("both")
        >>> one, other = (flow.source(name, tw.IterableSource([[(0, [name])]])) for name in ("one", "other"))
        >>> _ = one.concat(other).capture("both")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [captured.batch for captured in job.captured("both")]
        [['one'], ['other']]
        """
        for other in others:
            check_stream("concat", other)
        schema = common_schema("concat", [self.schema, *(other.schema for other in others)])
        return self._operator(name, others, 1, build_pass, notify=False, schema=schema, by_substream=True)[0]

    @overload
    def branch(self, predicate: Callable[[Record], object], /, *, name: str = ...) -> Branches[Record]: ...

    @overload
    def branch(
        self, /, *, name: "str | Callable[[Record], object]" = ..., **predicates: Callable[[Record], object]
    ) -> NamedBranches[Record]: ...

    @adds_operators()
    def branch(
        self, predicate: Callable[[Record], object] | None = None, /, **predicates: Any
    ) -> Branches[Record] | NamedBranches[Record]:
        """Send each record to the branch of the first predicate that is true for it, or to the rest.

        Args:
            predicate: makes two branches, ``(matching, rest)``.
            predicates: make any number of branches, each with the name of its predicate, and ``rest``. A string as
                ``name`` is the operator's name, not a branch.

        Raises:
            GraphError: there are no predicates, or both kinds, or a name is "rest" or begins with "_".

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("sizes")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 5, 20, 300])]]))
        >>> sizes = numbers.branch(small=lambda n: n < 10, large=lambda n: n >= 100)
        >>> for name, stream in [("small", sizes.small), ("large", sizes.large), ("others", sizes.rest)]:
        ...     _ = stream.capture(name)
        >>> even, odd = numbers.branch(lambda n: n % 2 == 0)
        >>> _ = odd.capture("odd"), even.ignore()
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [job.captured(name)[0].batch for name in ("small", "large", "others", "odd")]
        [[1, 5], [300], [20], [1, 5]]
        """
        name = predicates.pop("name") if isinstance(predicates.get("name"), str) else "branch"
        if predicate is not None:
            if predicates:
                raise GraphError("branch takes one predicate, or predicates by name, not both")
            return self._branches(*self._branch(name, [predicate]))
        for way in predicates:
            if way == "rest" or way.startswith("_"):
                raise GraphError(f"branch: a branch cannot be named {way!r}; rest is what no predicate is true for")
        if not predicates:
            raise GraphError("branch takes a predicate, or predicates by name")
        ways = dict(zip([*predicates, "rest"], self._branch(name, list(predicates.values())), strict=True))
        self._note_side_by_side({f".{way}": stream for way, stream in ways.items()})
        return NamedBranches(ways)

    def _branch(self, name: str, predicates: list[Callable[[Record], object]]) -> "tuple[Stream[Record], ...]":
        for predicate in predicates:
            check_function("branch", predicate)
        return self._divide(name, first_match(predicates), len(predicates) + 1)

    def _branches(self, matching: "Stream[Record]", rest: "Stream[Record]") -> Branches[Record]:
        self._note_side_by_side({".matching": matching, ".rest": rest})
        return Branches(matching, rest)

    def _divide(self, name: str, owners: Owners, outputs: int) -> "tuple[Stream[Record], ...]":
        def parts(batch: Batch, *_: object) -> list[Batch | None]:
            return scatter(batch, owners(records(batch)), outputs)

        return self._pass_on(name, build_batchwise(parts), outputs)

    @adds_operators()
    def branch_when(self, predicate: Callable[[Any], object], *, name: str = "branch_when") -> Branches[Record]:
        """Send a batch to one stream if ``predicate(time)`` is true, else to another.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("phases")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1]), (1, [2]), (2, [3])]]))
        >>> start, later = numbers.branch_when(lambda time: time < 1)
        >>> _ = start.capture("start"), later.capture("later")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [[captured.batch for captured in job.captured(name)] for name in ("start", "later")]
        [[[1]], [[2], [3]]]
        """
        check_function("branch_when", predicate)
        return self._branches(*self._pass_on(name, build_batchwise(by_time(predicate)), 2))

    @adds_operators()
    def partition(
        self, parts: int, function: Callable[[Record], int], *, name: str = "partition"
    ) -> "tuple[Stream[Record], ...]":
        """Send each record to one of ``parts`` streams; ``function(record)`` is its number, from 0.

        Any other result fails the job with an error that shows the result and the record.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("remainders")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 2, 3, 4])]]))
        >>> for rest, stream in enumerate(numbers.partition(3, lambda n: n % 3)):
        ...     _ = stream.capture(f"rest {rest}")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [job.captured(f"rest {rest}")[0].batch for rest in range(3)]
        [[3], [1, 4], [2]]
        """
        check_positive("partition", "parts", parts)
        check_function("partition", function)
        streams = self._divide(name, by_number(parts, function), parts)
        self._note_side_by_side({f"[{number}]": stream for number, stream in enumerate(streams)})
        return streams


def _unchanged(batch: Batch) -> Batch:
    return batch


def first_match(predicates: Sequence[Callable[[Any], object]]) -> Owners:
    """Return a function that returns, for each record, the number of the first predicate that it satisfies.

    If no predicate is true, the result is the number of predicates. Predicates after the first true one are not called.

    >>> first_match([lambda n: n < 3, lambda n: n < 6])([1, 5, 9, 2])
    [0, 1, 2, 0]
    """

    def assign(rows: list[Any]) -> list[int]:
        return _first_match(predicates, rows)

    return assign


def _first_match(predicates: Sequence[Callable[[Any], object]], rows: list[Any]) -> list[int]:
    predicate, *others = predicates
    owners = [0 if predicate(record) else 1 for record in rows]
    if not others:
        return owners
    later = iter(_first_match(others, list(compress(rows, owners))))
    return [1 + next(later) if owner else 0 for owner in owners]


def by_number(parts: int, function: Callable[[Any], int]) -> Owners:
    """Return a function that returns ``function(record)`` for each record; it raises ValueError if out of range."""
    allowed = frozenset(range(parts))

    def assign(rows: list[Any]) -> Sequence[int]:
        numbers = [function(record) for record in rows]
        try:
            if allowed.issuperset(map(index, numbers)):
                return numbers
        except TypeError:
            pass  # one of them is no integer
        pairs = zip(numbers, rows, strict=True)
        number, record = next(one for one in pairs if not (hasattr(one[0], "__index__") and index(one[0]) in allowed))
        raise ValueError(
            f"the function of partition({parts}, ...) returned {shortened(number)} for {shortened(record)}: it returns "
            f"one of the numbers 0 to {parts - 1}"
        )

    return assign
