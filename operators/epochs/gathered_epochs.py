"""Operators that process all records of an epoch at once, when it is complete at all inputs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch, concatenate, is_arrow, is_numpy
from tidewheel.operators.base.division import by_input
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext, pacts_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort

Process: TypeAlias = Callable[[Any, list[list[Batch]], TimestampToken], Sequence[Iterable[Batch]]]
"""Processes a complete epoch of one worker; returns the batches to send, for each output.

The arguments are the operator's state, the batches of each input in any order, and the epoch's token for the first
output.
"""


def build_gathered(
    inputs: int,
    process: Process,
    keep: Callable[[OperatorContext], Any] = lambda _: None,
    outputs: int = 1,
    *,
    sequential: bool = False,
    pacts: Sequence[Pact | None] | None = None,
) -> Build:
    """Build an operator that processes whole epochs, one after the other, in order.

    ``process`` is called once for each epoch with records on this worker; ``keep`` returns the state that lasts from
    epoch to epoch. If ``sequential``, all rounds of an epoch come before the next epoch, as for `Notificator.ready`.
    If the number of workers changes, ``pacts`` divide pending records; by default, the pacts of the inputs.
    """

    def build(context: OperatorContext) -> Schedule:
        division = by_input(pacts or pacts_of(context)).of_each()
        epochs: dict[Time, list[list[Batch]]] = division.state(context, "epochs", dict)
        kept = keep(context)
        notificators = [context.notificator() for _ in range(outputs)]  # a token sends on one output only

        def schedule(*ports: Any) -> None:
            receivers: Sequence[InputPort] = ports[:inputs]
            (notificator, output), *others = senders = list(zip(notificators, ports[inputs:], strict=True))
            _gather(receivers, epochs, senders)
            made: dict[Time, Sequence[Iterable[Batch]]] = {}
            for token in notificator.ready(*receivers, sequential=sequential):
                gathered = epochs.pop(token.time, None)
                if gathered is None:
                    continue
                sent, *made[token.time] = process(kept, gathered, token)
                for batch in sent:
                    output.send(token, batch)
            for number, (following, other) in enumerate(others):
                for token in following.ready(*receivers, sequential=sequential):
                    for batch in made[token.time][number] if token.time in made else ():
                        other.send(token, batch)

        return schedule

    return build


def _gather(
    receivers: Sequence[InputPort],
    epochs: dict[Time, list[list[Batch]]],
    senders: Sequence[tuple[Notificator, OutputPort]],
) -> None:
    for number, port in enumerate(receivers):
        for lent, batch in port:
            time = lent.time
            if time not in epochs:
                epochs[time] = [[] for _ in receivers]
                for notificator, output in senders:
                    notificator.notify_at(lent, output)
            epochs[time][number].append(batch)


def joined(batches: list[Batch]) -> Batch:
    """Return all records as one batch: of the batches' kind if all have the same, otherwise a list.

    Arrow tables, record batches and structured arrays count as one kind.

    >>> joined([["a"], ["b", "c"]])
    ['a', 'b', 'c']
    """
    return concatenate(arrays_as_tables(batches, batches))


def arrays_as_tables(batches: list[Batch], beside: list[Batch]) -> list[Batch]:
    """Return the batches, with structured arrays as tables if any batch in ``beside`` is Arrow.

    Otherwise the arrays' records would be tuples without names.
    """
    if not any(map(is_arrow, beside)):
        return batches
    return [as_table(batch) if is_numpy(batch) and batch.dtype.names is not None else batch for batch in batches]
