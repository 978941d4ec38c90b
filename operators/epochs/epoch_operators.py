"""Operators that compute a result from all records of an epoch."""

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

from tidewheel.operators.base.stream_base import KeyType, Record, Result, State, StreamBase, caught_by, check_function
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
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream


_KEY = itemgetter(0)


class EpochOperators(StreamBase[Record]):
    """The methods of streams for whole epochs.

    Results are sent when their epoch is complete, at its time; in a loop, for each round.
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
        dead_letters: "DeadLetters | None" = ...,
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
        dead_letters: "DeadLetters | None" = ...,
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
        dead_letters: "DeadLetters | None" = ...,
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
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @adds_operators("finish", "dead_letters")
    def aggregate(
        self,
        key: Callable[[Record], Any] | Names,
        *,
        start: Start[State] | None = None,
        add: Callable[[Any, Any], Any],
        finish: Callable[[Any, Any], Any] | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = "aggregate",
    ) -> "Stream[Any]":
        """Fold the records of each key and epoch into a state, and send one result for each.

        Records of a key are added in any order. All NaN keys are one key.

        Args:
            key: a function of a record, or the name or names of columns.
            start: makes the initial state of a key. Without it the first record is the state, and ``add`` also merges
                two states: it must be associative and commutative, and must not change its arguments. With
                ``dead_letters``, only ``combine`` merges states.
            add: returns the state with a record added; it may change a state that ``start`` has made.
            finish: makes the result of a key and its state; the default is the pair.
            combine: merges two states; it may change the first. If given, workers first fold their own records, and
                send only states to the owners of the keys.
            dead_letters: receives records for which ``key``, ``start`` or ``add`` raises; None fails the job. The state
                of the key stays as it was, unless a function has changed it in place. If ``combine`` or ``finish``
                raises, the job fails.
            name: the operator's name.

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
        both = add if combine is None and start is None and dead_letters is None else combine
        if both is not None:
            check_function("aggregate, for combine,", both)
        if dead_letters is None:
            if both is None:
                return self._unary(name, build_per_epoch(fold.per_epoch()), key)
            return self._in_two(name, fold.partially(both), fold.combined(both), _KEY)
        caught = caught_by(self._description, "aggregate", dead_letters)
        records = self._with_good_keys(name, key, dead_letters)
        if both is None:
            results = records._unary(name, build_per_epoch(fold.per_epoch(caught)), key)
            return results._without_letters(name, dead_letters)
        first, second = fold.partially(both, caught), fold.combined(both)
        partially = records._unary(f"{name}: partial", build_partial(first), notify=False)
        without = partially._without_letters(name, dead_letters, part=": partial")
        return without._unary(name, build_per_epoch(second), _KEY)

    @overload
    def count(self, key: None = None, *, name: str = ...) -> "Stream[tuple[Record, int]]": ...

    @overload
    def count(self, key: Callable[[Record], KeyType] | Names, *, name: str = ...) -> "Stream[tuple[KeyType, int]]": ...

    @adds_operators()
    def count(self, key: Callable[[Record], Any] | Names | None = None, *, name: str = "count") -> "Stream[Any]":
        """Count the records of each key and epoch: pairs (key, count).

        Workers count their own records first, so only counts travel.

        Args:
            key: a function of a record, or the name or names of columns; by default the record.
            name: the operator's name.

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
        """Send each record once per epoch; `deduplicate` sends it once over all epochs.

        Arrow tables stay tables; rows are equal if all their columns are.

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
        """Send each epoch in order, as one batch on worker 0, which keeps it in memory.

        Arrow tables stay tables. Records with equal sort keys are ordered by content: in tables by the other columns,
        otherwise by a hash. NaN, also in a tuple, comes last in both directions; in tables nulls follow it.

        Args:
            order: a function of a record, or the name or names of columns; by default the record, or all columns of a
                table.
            reverse: True for greatest first.
            name: the operator's name.

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
        """Send the ``k`` greatest records of each epoch, or the ``k`` least, in order, as one batch on worker 0.

        With a key, the worker that owns a key sends its ``k`` records, all together. Content decides between equal
        records. NaN comes after everything else. No worker sends more than ``k`` records (of each key) to another.

        Args:
            k: the number of records, 1 or more.
            key: a function of a record, or the name or names of columns; by default there is none.
            order: how records are compared, as for `sort`.
            greatest: False for the least records, least first.
            name: the operator's name.

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
        """Keep about ``fraction`` of the records, chosen by their hash and the seed.

        Equal records are kept or dropped together, in every epoch.

        Args:
            fraction: from 0 to 1.
            seed: different seeds choose independently.
            key: a function of a record, or the name or names of columns, to keep or drop all records of a key together;
                by default the record.
            name: the operator's name.

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
        """Add an operator that folds each worker's records, and one that folds the results after an exchange.

        With ``keeps_rows``, results are unchanged rows of the input.
        """
        schema = self.schema if keeps_rows else None
        partially = self._unary(f"{name}: partial", build_partial(partial), notify=False, schema=schema)
        return partially._unary(name, build_per_epoch(fold), key, schema=schema)
