"""Work done before an exchange, so that less travels: the first half of an operator that is split in two."""

from typing import Any, Protocol, TypeVar

from tidewheel.operators.epochs.per_epoch import Fold
from tidewheel.operators.records.arrow_rows import as_table
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, OutputPort, Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.transport.batches import Batch, concatenate, is_arrow, is_numpy

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
                instance_of(context).work_at(time)
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

    Whatever is of Arrow is of one kind, and beside it so is a structured array.

    >>> joined([["a"], ["b", "c"]])
    ['a', 'b', 'c']
    """
    return concatenate(arrays_as_tables(batches, batches))


def arrays_as_tables(batches: list[Batch], beside: list[Batch]) -> list[Batch]:
    """Return the batches; structured arrays as tables if any of the batches ``beside`` them is of Arrow.

    As records these would be tuples and those rows, which have no names in common to be found or ordered by.
    """
    if not any(map(is_arrow, beside)):
        return batches
    return [as_table(batch) if is_numpy(batch) and batch.dtype.names is not None else batch for batch in batches]
