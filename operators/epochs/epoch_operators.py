"""Operators that make something of all records of an epoch."""

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

from tidewheel.operators.base.stream_base import KeyType, Record, Result, State, StreamBase, check_function
from tidewheel.operators.epochs.fold import Fold, build_partial, build_per_epoch, pruned_fold
from tidewheel.operators.epochs.gathered_epochs import build_gathered, joined
from tidewheel.operators.epochs.key_fold import Add, KeyFold, Start, counting_folds
from tidewheel.operators.epochs.picks import Sampler, TopK, distinct_records
from tidewheel.operators.keys.record_hash import GatherPact, RecordPact
from tidewheel.operators.keys.record_keys import Keys, Names
from tidewheel.operators.keys.record_order import Order, check_order
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.pacts import Key, Pact

if TYPE_CHECKING:
    from tidewheel.operators.stream import Stream


_KEY = itemgetter(0)


class EpochOperators(StreamBase[Record]):
    """Methods of streams for whole epochs.

    Results come out when no more records can come at the time, at that time; in a loop that is for each round.
    """

    __slots__ = ()

    # ------------------------------------------------------------------ by key

    @overload
    def aggregate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        add: Callable[[Record, Record], Record],
        combine: Callable[[Record, Record], Record] | None = None,
        name: str = ...,
    ) -> "Stream[tuple[KeyType, Record]]": ...

    @overload
    def aggregate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        add: Callable[[Record, Record], Record],
        finish: Callable[[KeyType, Record], Result],
        combine: Callable[[Record, Record], Record] | None = None,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @overload
    def aggregate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        start: Start[State],
        add: Add[State, Record],
        combine: Callable[[State, State], State] | None = None,
        name: str = ...,
    ) -> "Stream[tuple[KeyType, State]]": ...

    @overload
    def aggregate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        start: Start[State],
        add: Add[State, Record],
        finish: Callable[[KeyType, State], Result],
        combine: Callable[[State, State], State] | None = None,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @adds_operators("finish")
    def aggregate(
        self,
        key: Callable[[Record], Any] | Names,
        *,
        start: Start[State] | None = None,
        add: Callable[[Any, Any], Any],
        finish: Callable[[Any, Any], Any] | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
        name: str = "aggregate",
    ) -> "Stream[Any]":
        """Fold the records of each key and epoch into a state, and send one result for each.

        Records of a key are added in any order. NaN is one key.

        Args:
            key: a function of a record, the name of a column or field, or a tuple of names.
            start: makes the state of a key, before its first record. Without it the first record is the state, and
                ``add`` combines two states, too: it is associative and commutative, and must not change what it gets.
            add: returns the state with a record in it; it may change the one that ``start`` has made.
            finish: makes the result of a key and its state; by default the pair of them.
            combine: returns the state of two; it may change the first. With it, states are made where the records are,
                and only these travel to the workers that own the keys; with ``start`` alone all records do.
            name: what errors, statistics and drawings call it.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("means")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["to", "the", "be"])]]))
        >>> def add(state, word):
        ...     return state[0] + len(word), state[1] + 1
        >>> def mean(letter, state):
        ...     return letter, state[0] / state[1]
        >>> means = words.aggregate(lambda word: word[0], start=lambda: (0, 0), add=add, finish=mean)
        >>> _ = means.capture("means")
        >>> _ = words.aggregate(lambda word: word[0], add=max).capture("last ones")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("means"), job.captured("last ones")
        ([Captured(time=0, batch=[('t', 2.5), ('b', 2.0)])], [Captured(time=0, batch=[('t', 'to'), ('b', 'be')])])
        """
        fold = KeyFold.checked("aggregate", key, self.schema, start, add, finish)
        both = add if combine is None and start is None else combine
        if both is None:
            return self._unary(name, build_per_epoch(fold.per_epoch()), key)
        check_function("aggregate, for combine,", both)
        return self._in_two(name, fold.partially(both), fold.combined(both), _KEY)

    @overload
    def count(self, key: None = None, *, name: str = ...) -> "Stream[tuple[Record, int]]": ...

    @overload
    def count(self, key: Callable[[Record], KeyType] | Names, *, name: str = ...) -> "Stream[tuple[KeyType, int]]": ...

    @adds_operators()
    def count(self, key: Callable[[Record], Any] | Names | None = None, *, name: str = "count") -> "Stream[Any]":
        """Count the records of each key and epoch: pairs (key, count).

        Each worker counts the records that arrive there, so only counts travel.

        Args:
            key: a function of a record, the name of a column or field, or a tuple of names; by default the record.
            name: what errors, statistics and drawings call it.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("words")
        >>> lines = flow.source("lines", tw.IterableSource([[(0, ["to be or", "not to be"])]]))
        >>> _ = lines.flat_map(str.split).count().capture("counts")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("counts")
        [Captured(time=0, batch=[('to', 2), ('be', 2), ('or', 1), ('not', 1)])]
        """
        keys = Keys(None) if key is None else Keys.checked("count", key, self.schema)
        return self._in_two(name, *counting_folds(keys), _KEY)

    # ------------------------------------------------------------------ whole records

    @adds_operators()
    def distinct(self, *, name: str = "distinct") -> "Stream[Record]":
        """Send each record once an epoch, however often it came; `deduplicate` does so for all epochs together.

        Arrow tables stay what they are, and rows are equal if they are so in all columns.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("letters")
        >>> _ = flow.source("letters", tw.IterableSource([[(0, list("tidewheel"))]])).distinct().capture("letters")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     sorted(job.captured("letters")[0].batch)
        ['d', 'e', 'h', 'i', 'l', 't', 'w']
        """
        fold = pruned_fold(distinct_records)
        return self._in_two(name, fold, fold, RecordPact(), keeps_rows=True)

    @adds_operators()
    def sort(
        self, order: Callable[[Record], Any] | Names | None = None, *, reverse: bool = False, name: str = "sort"
    ) -> "Stream[Record]":
        """Send all records of an epoch in order, as one batch, on worker 0: its memory has to hold them.

        Arrow tables are sorted by Arrow's kernels and stay tables. Records that the order leaves equal are in an order
        by their content: tables by the other columns, others by a hash. NaN, also in a tuple, comes last, whichever way
        round; in tables nulls come after it.

        Args:
            order: a function of a record, the name of a column or field, or a tuple of names. By default it is the
                record itself, and for tables all columns.
            reverse: greatest first.
            name: what errors, statistics and drawings call it.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("sorted")
        >>> words = flow.source("words", tw.IterableSource([[(0, ["tide"])], [(0, ["wheel", "a"])]]))
        >>> _ = words.sort(len).capture("all")
        >>> with tw.run(flow, workers=2, engine="local") as job:
        ...     job.wait()
        ...     job.captured("all")
        [Captured(time=0, batch=['a', 'tide', 'wheel'])]
        """
        check_order("sort", order, self.schema)
        by = Order(order, reverse)
        build = build_gathered(1, lambda _, batches, __: ([by.sorted(joined(batches[0]))],))
        return self._unary(name, build, GatherPact(), schema=self.schema)

    @adds_operators()
    def top_k(
        self,
        k: int,
        *,
        key: Callable[[Record], Any] | Names | None = None,
        order: Callable[[Record], Any] | Names | None = None,
        greatest: bool = True,
        name: str = "top_k",
    ) -> "Stream[Record]":
        """Send the ``k`` greatest records of each epoch, greatest first, as one batch on worker 0; or the least ones.

        With a key, they are the greatest of each key, and come out where keys go by `exchange`, those of one key
        together. Of records that the order leaves equal, their content decides which are taken. NaN is never among
        them while there is something else. No worker keeps, or sends, more than it has to choose from.

        Args:
            k: how many, 1 or more.
            key: a function of a record, the name of a column or field, or a tuple of names; by default there is none.
            order: by what records are compared, as for `sort`.
            greatest: False for the least records, least first.
            name: what errors, statistics and drawings call it.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("frequent")
        >>> words = flow.source("words", tw.IterableSource([[(0, "to be or not to be".split())]]))
        >>> _ = words.count().top_k(2, order=lambda pair: (pair[1], pair[0])).capture("frequent")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("frequent")
        [Captured(time=0, batch=[('to', 2), ('be', 2)])]
        """
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise GraphError(f"operator 'top_k': k is how many records are kept, 1 or more, not {k!r}")
        check_order("top_k", order, self.schema)
        keys = None if key is None else Keys.checked("top_k", key, self.schema)
        fold = pruned_fold(TopK(k, keys, Order(order, reverse=greatest)).pick)
        return self._in_two(name, fold, fold, GatherPact() if key is None else key, keeps_rows=True)

    @adds_operators()
    def sample(
        self,
        fraction: float,
        seed: int = 0,
        *,
        key: Callable[[Record], Any] | Names | None = None,
        name: str = "sample",
    ) -> "Stream[Record]":
        """Keep about ``fraction`` of the records, chosen by their hash and the seed; the others are dropped.

        So the choice depends on nothing but the records: equal ones are kept, or dropped, together, in every epoch.

        Args:
            fraction: from 0 to 1.
            seed: another one chooses independently.
            key: what is hashed instead of the whole record, which keeps or drops all records of a key: a function of a
                record, the name of a column or field, or a tuple of names.
            name: what errors, statistics and drawings call it.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("a few")
        >>> _ = flow.source("numbers", tw.IterableSource([[(0, list(range(20)))]])).sample(0.3, seed=1).capture("few")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.captured("few")
        [Captured(time=0, batch=[2, 5, 6, 8, 13, 15])]
        """
        if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 <= fraction <= 1:
            raise GraphError(f"operator 'sample': the fraction is a number from 0 to 1, not {fraction!r}")
        if not isinstance(seed, int):
            raise GraphError(f"operator 'sample': the seed is an integer, not {seed!r}")
        return self._stage(
            name,
            Sampler(fraction, seed, None if key is None else Keys.checked("sample", key, self.schema)).pick,
            schema=self.schema,
        )

    def _in_two(
        self, name: str, partial: Fold, fold: Fold, key: Key | Pact, *, keeps_rows: bool = False
    ) -> "Stream[Any]":
        """Add an operator that folds records where they are, and one that folds what has come of them elsewhere.

        ``keeps_rows`` says that what comes out are rows that came in, as they were.
        """
        schema = self.schema if keeps_rows else None
        partially = self._unary(f"{name}: partial", build_partial(partial), notify=False, schema=schema)
        return partially._unary(name, build_per_epoch(fold), key, schema=schema)
