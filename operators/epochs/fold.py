"""Folds, which operators use to make a state of an epoch's records, and the result to send.

`build_partial` folds before an exchange, so that fewer records travel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from tidewheel.batches.batches import Batch, length
from tidewheel.operators.base.division import Division, at_first, split_batches, split_by_key, updated
from tidewheel.operators.epochs.gathered_epochs import joined
from tidewheel.operators.keys.record_hash import GatherPact
from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of, pacts_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort

MOST_KEPT = 1 << 18
"""`build_partial` sends a partial result once it has more records than this: keeping it longer saves little."""

SMALLEST_PRUNING = 1024
"""A fold gathers at least this many records before it drops those that cannot be in the result."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The functions with which an operator folds the records of an epoch.

    Attributes:
        add: returns the state with a batch added; it may change the given state.
        split: divides the state among a number of workers, by the pact of the input.
        merge: merges two workers' states; it may change the first.
        tried: like ``add``, but changes the state in place, and returns a letter for each refused record.
    """

    start: Callable[[], Any]
    add: Callable[[Any, Batch], Any]
    finish: Callable[[Any], Batch]
    size: Callable[[Any], int] = len
    split: Callable[[Any, Pact, int], Sequence[Any]] = lambda states, _, workers: split_by_key(states, workers)
    merge: Callable[[Any, Any], Any] = updated
    tried: Callable[[Any, Batch], Batch] | None = None

    def division(self, context: OperatorContext) -> Division:
        """Return the division of an operator's folds, kept by time, among workers.

        State without keys goes to worker 0.
        """
        (pact,) = pacts_of(context)
        if pact is None or isinstance(pact, GatherPact):
            return at_first(self.merge).of_each()
        return Division(lambda state, workers: self.split(state, pact, workers), self.merge).of_each()


def build_per_epoch(fold: Fold) -> Build:
    """Build an operator that folds the records of each epoch and sends the result at its end."""

    def build(context: OperatorContext) -> Schedule:
        epochs: dict[Time, Any] = fold.division(context).state(context, "epochs", dict)
        notificator = context.notificator()

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                time = lent.time
                if time not in epochs:
                    epochs[time] = fold.start()
                    notificator.notify_at(lent)
                if fold.tried is None:
                    epochs[time] = fold.add(epochs[time], batch)
                else:
                    output.send(lent, fold.tried(epochs[time], batch))
            for token in notificator.ready(input, sequential=False):
                if token.time in epochs:
                    output.send(token, fold.finish(epochs.pop(token.time)))

        return schedule

    return build


def build_partial(fold: Fold) -> Build:
    """Build an operator that folds a time's records for as long as they keep coming, and then sends the result.

    It sends a time's result when a call brings no new records of the time, or the result gets large. It looks at no
    frontier, so add it with ``notify=False``. The number of partial results depends on how busy the worker is; the
    final result must not.
    """

    def build(context: OperatorContext) -> Schedule:
        states: dict[Time, Any] = fold.division(context).state(context, "partial", dict)
        waiting = context.notificator()
        waiting._drop_others({(time, None) for time in states})

        def schedule(input: InputPort, output: OutputPort) -> None:
            def finish(time: Time) -> None:
                instance_of(context).work_at(time)
                with waiting.take(time) as token:
                    output.send(token, fold.finish(states.pop(time)))

            quiet = dict.fromkeys(states)
            for lent, batch in input:
                time = lent.time
                if time not in states:
                    states[time] = fold.start()
                    waiting.notify_at(lent)
                if fold.tried is None:
                    states[time] = fold.add(states[time], batch)
                else:
                    output.send(lent, fold.tried(states[time], batch))
                quiet.pop(time, None)
                if fold.size(states[time]) > MOST_KEPT:
                    finish(time)
            for time in quiet:
                finish(time)
            if states:
                context.activate()

        return schedule

    return build


@dataclass(slots=True)
class Gathered:
    """The batches of an epoch, without records that a pick has excluded."""

    batches: list[Batch] = field(default_factory=list)
    records: int = 0
    left: int = 0

    def add(self, batch: Batch, prune: Callable[[list[Batch]], Batch], least: int) -> None:
        self.batches.append(batch)
        self.records += length(batch)
        if self.records > max(2 * self.left, least):
            self.batches = [prune(self.batches)]
            self.records = self.left = length(self.batches[0])

    def split(self, pact: Pact, workers: int) -> "list[Gathered | None]":
        shares = split_batches(self.batches, pact, workers)
        return [Gathered(share, sum(map(length, share))) if share else None for share in shares]

    def merge(self, other: "Gathered") -> "Gathered":
        return Gathered(self.batches + other.batches, self.records + other.records)


def pruned_fold(pick: Callable[[Batch], Batch]) -> Fold:
    """Return a fold that keeps only the records that ``pick`` selects; its memory is linear in their number."""

    def prune(batches: list[Batch]) -> Batch:
        return pick(joined(batches))

    def add(state: Gathered, batch: Batch) -> Gathered:
        state.add(batch, prune, SMALLEST_PRUNING)
        return state

    size = attrgetter("records")
    return Fold(Gathered, add, lambda state: prune(state.batches), size, Gathered.split, Gathered.merge)
