"""Operators that make something of all records of an epoch, once no more can come."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule
from tidewheel.transport.batches import Batch

State = TypeVar("State")


class Fold(Protocol[State]):
    """What is kept of the records of an epoch while they come, and what is made of it in the end."""

    def start(self) -> State:
        """Return what is kept before the first record."""

    def add(self, state: State, batch: Batch) -> State:
        """Return what is kept once ``batch`` has come too; ``state`` may be changed in place."""

    def finish(self, state: State) -> Iterable[Batch]:
        """Return the batches to send when the epoch is complete."""


def build_per_epoch(fold: Fold[Any]) -> Build:
    """Return the build function of an operator that folds the records of each epoch and sends the result at its end."""

    def build(context: OperatorContext) -> Schedule:
        epochs: dict[Any, Any] = context.state("epochs", dict)
        notificator = context.notificator()

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                time = lent.time
                if time not in epochs:
                    epochs[time] = fold.start()
                    notificator.notify_at(lent)
                epochs[time] = fold.add(epochs[time], batch)
            for token in notificator.ready(input):
                for result in fold.finish(epochs.pop(token.time)):
                    output.send(token, result)

        return schedule

    return build
