"""Work done before an exchange, so that less travels: the first half of an operator that is split in two."""

from typing import Any, Protocol, TypeVar

from tidewheel.operators.epochs.per_epoch import Fold
from tidewheel.progress import Time
from tidewheel.runtime.batches import Batch, concatenate, records
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import InputPort, OutputPort

State = TypeVar("State")

MOST_KEPT = 1 << 18
"""So many records of a time are kept, as what they have become; beyond that there is little that joining saves."""


class PartialFold(Fold[State], Protocol[State]):
    """A fold whose result may be sent at any moment, and begun anew."""

    def size(self, state: State) -> int:
        """Return how many records ``finish(state)`` would have, about."""


def build_partial(fold: PartialFold[Any]) -> Build:
    """Return the build function of an operator that folds records as long as they keep coming, and sends the result.

    A time's records are folded until a call has none of them, so that of many small batches few results come; and
    sooner if there are too many. It looks at no frontier: describe it with ``notify=False``. How many results there are
    depends on how busy the worker is: what is made of them must not.
    """

    def build(context: OperatorContext) -> Schedule:
        states: dict[Time, Any] = context.state("partial", dict)
        waiting = context.notificator()

        def schedule(input: InputPort, output: OutputPort) -> None:
            def finish(time: Time) -> None:
                context.working_at(time)
                with waiting.take(time) as token:
                    for result in fold.finish(states.pop(time)):
                        output.send(token, result)

            quiet = dict.fromkeys(states)
            for lent, batch in input:
                time = lent.time
                if time not in states:
                    states[time] = fold.start()
                    waiting.notify_at(lent)
                states[time] = fold.add(states[time], batch)
                quiet.pop(time, None)
                if fold.size(states[time]) > MOST_KEPT:
                    finish(time)
            for time in quiet:
                finish(time)
            if states:
                context.activate()

        return schedule

    return build


def joined(batches: list[Batch]) -> Batch:
    """Return all records as one batch: of their kind if there is only one kind, else a list.

    >>> joined([["a"], ["b", "c"]])
    ['a', 'b', 'c']
    """
    if len({type(batch) for batch in batches}) == 1:
        return concatenate(batches)
    return [record for batch in batches for record in records(batch)]
