"""Operators that keep state by key from epoch to epoch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from tidewheel.operators.base.stream_base import KeyType, Record, Result, State, StreamBase, caught_by, check_function
from tidewheel.operators.epochs.fold import build_partial, pruned_fold
from tidewheel.operators.epochs.key_fold import Add, KeyFold, Start
from tidewheel.operators.epochs.keyed_state import Accumulation, StatefulMap, build_keyed_state
from tidewheel.operators.epochs.picks import FirstOfEach
from tidewheel.operators.epochs.substream_state import build_state_by_substream
from tidewheel.operators.keys.record_hash import RecordPact, owners_of_records
from tidewheel.operators.keys.record_keys import Keys, Names
from tidewheel.operators.keys.record_order import Order
from tidewheel.progress import GraphError
from tidewheel.runtime.description.origin import adds_operators
from tidewheel.runtime.description.plan import EndsWanted
from tidewheel.runtime.description.shards import owners_of

if TYPE_CHECKING:
    from tidewheel.operators.dead_letters import DeadLetters
    from tidewheel.operators.stream import Stream

Scope: TypeAlias = Literal["stream", "substream"]
"""The lifetime of state: as long as the stream, or as long as the substream."""


class KeyedOperators(StreamBase[Record]):
    """The methods of streams for state by key.

    The worker that owns a key keeps its state. Epochs are processed when they are complete, one after the other, in
    order. In a loop, all rounds of an epoch come before the next epoch. Unordered times of your own domain are
    processed as they complete.
    """

    __slots__ = ()

    @overload
    def accumulate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        add: Callable[[Record, Record], Record],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[KeyType, Record]]": ...

    @overload
    def accumulate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        add: Callable[[Record, Record], Record],
        finish: Callable[[KeyType, Record], Result],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @overload
    def accumulate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        start: Start[State],
        add: Add[State, Record],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[tuple[KeyType, State]]": ...

    @overload
    def accumulate(
        self,
        key: Callable[[Record], KeyType] | Names,
        *,
        start: Start[State],
        add: Add[State, Record],
        finish: Callable[[KeyType, State], Result],
        dead_letters: "DeadLetters | None" = ...,
        name: str = ...,
    ) -> "Stream[Result]": ...

    @adds_operators("finish", "dead_letters")
    def accumulate(
        self,
        key: Callable[[Record], Any] | Names,
        *,
        start: Start[State] | None = None,
        add: Callable[[Any, Any], Any],
        finish: Callable[[Any, Any], Any] | None = None,
        dead_letters: "DeadLetters | None" = None,
        name: str = "accumulate",
    ) -> "Stream[Any]":
        """Fold the records of each key over all epochs; send, for each epoch, the new states of its keys.

        Within an epoch, the records of a key are added in any order. All NaN keys are one key.

        Args:
            key: a function of a record, or the name or names of columns.
            start: makes the initial state of a key. Without it the first record is the state, which ``add``
                must not change.
            add: returns the state with a record added; it may change a state that ``start`` has made.
            finish: makes the result from a key and its state. Later changes of the state must not change the result.
                The default is the key with a shallow copy of the state.
            dead_letters: receives records for which ``key``, ``start`` or ``add`` raises; None fails the job. The state
                of the key stays as it was, unless a function has changed it in place.
            name: the operator's name.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("balances")
        >>> moves = flow.source("moves", tw.IterableSource([[(0, [("ann", 5), ("bob", 1)]), (1, [("ann", -2)])]]))
        >>> balances = moves.accumulate(lambda move: move[0], start=int, add=lambda balance, move: balance + move[1])
        >>> _ = balances.capture("balances")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [(captured.time, captured.batch) for captured in job.captured("balances")]
        [(0, [('ann', 5), ('bob', 1)]), (1, [('ann', 3)])]
        """
        fold = KeyFold.checked("accumulate", key, self.schema, start, add, finish)
        if dead_letters is None:
            return self._unary(name, build_keyed_state(Accumulation(fold)), key)
        tried = build_keyed_state(Accumulation(fold, caught_by(self._description, "accumulate", dead_letters)))
        return (
            self._with_good_keys(name, key, dead_letters)._unary(name, tried, key)._without_letters(name, dead_letters)
        )

    @adds_operators("order", "dead_letters")
    def stateful_map(
        self,
        key: Callable[[Record], Any] | Names,
        *,
        start: Callable[[], State],
        step: Callable[[State, Record], tuple[State, Result]],
        order: Callable[[Record], Any] | Names | None = None,
        scope: Scope = "stream",
        dead_letters: "DeadLetters | None" = None,
        name: str = "stateful_map",
    ) -> "Stream[Result]":
        """Replace each record by a result that depends on its key's earlier records.

        If a record may have any number of results, return a list, and add ``.flat_map(list)``.

        Args:
            key: a function of a record, or the name or names of columns.
            start: makes the initial state of a key.
            step: ``step(state, record)`` returns the key's new state and the result. The state None forgets the key:
                its next record begins with ``start()``.
            order: the order of a key's records within an epoch: a function of a record, or the name or names of
                columns. Content decides between equal records. Without ``order``, records come in any order, so results
                may differ from run to run.
            scope: ``"substream"`` keeps states by key within each substream and drops them when the substream has
                ended; ``"stream"`` keeps them as long as the job runs.
            dead_letters: receives records for which ``key``, ``order``, ``start`` or ``step`` raises; None fails the
                job. The state of the key stays as it was, unless a function has changed it in place.
            name: the operator's name.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("changes")
        >>> batches = [(0, [("tea", 9, 5), ("tea", 8, 4)]), (1, [("tea", 9, 7)])]
        >>> prices = flow.source("prices", tw.IterableSource([batches]))
        >>> def change(last, price):  # ("tea", at nine o'clock, for 5)
        ...     return price[2], (price[0], price[2] - last)
        >>> changes = prices.stateful_map(lambda price: price[0], start=int, step=change, order=lambda price: price[1])
        >>> _ = changes.capture("changes")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [(captured.time, captured.batch) for captured in job.captured("changes")]
        [(0, [('tea', 4), ('tea', 1)]), (1, [('tea', 2)])]
        """
        keys = Keys.checked("stateful_map", key, self.schema)
        check_function("stateful_map, for start,", start)
        check_function("stateful_map, for step,", step)
        ordered = Order.checked("stateful_map", order, self.schema)
        mapped = StatefulMap(keys, start, step, ordered, caught_by(self._description, "stateful_map", dead_letters))
        if scope not in ("stream", "substream"):
            raise GraphError(f'stateful_map: scope is "stream" or "substream", not {scope!r}')
        records = self if dead_letters is None else self._with_good_keys(name, key, dead_letters, order)
        if scope == "substream":
            ends = EndsWanted(ordered=False, waits=True)
            results = records._unary(name, build_state_by_substream(mapped), key, by_substream=ends)
        else:
            results = records._unary(name, build_keyed_state(mapped), key)
        return results if dead_letters is None else results._without_letters(name, dead_letters)

    @adds_operators("order")
    def deduplicate(
        self,
        key: Callable[[Record], Any] | Names | None = None,
        order: Callable[[Record], Any] | Names | None = None,
        *,
        name: str = "deduplicate",
    ) -> "Stream[Record]":
        """Let the first record of each key pass, over all epochs; drop the others.

        Keys are kept forever. Arrow tables stay tables.

        Args:
            key: a function of a record, or the name or names of columns; by default the record.
            order: the order of a key's records within an epoch, to keep the first: a function of a record, or the name
                or names of columns. Of equal records, a hash decides, or the other columns if key and order are names:
                in the same way on any number of workers.
            name: the operator's name.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("first visits")
        >>> visits = flow.source("visits", tw.IterableSource([[(0, ["ann", "bob", "ann"]), (1, ["bob", "eve"])]]))
        >>> _ = visits.deduplicate().capture("first visits")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     [(captured.time, captured.batch) for captured in job.captured("first visits")]
        [(0, ['ann', 'bob']), (1, ['eve'])]
        """
        keys = Keys(None) if key is None else Keys.checked("deduplicate", key, self.schema)
        first = FirstOfEach(keys, Order.checked("deduplicate", order, self.schema))
        pruned = build_partial(pruned_fold(first.pick))
        partial = self._unary(f"{name}: partial", pruned, notify=False, schema=self.schema)
        exchange, owners = (RecordPact(), owners_of_records) if key is None else (key, owners_of)
        return partial._unary(name, build_keyed_state(first, owners), exchange, schema=self.schema)
