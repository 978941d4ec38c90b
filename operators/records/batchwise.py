"""Operators that treat each batch by itself: they hold nothing, and what they make of a batch goes on at its time.

They never ask for a frontier, so progress tracking keeps none for them.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tidewheel.progress import Time
from tidewheel.runtime import Build, OperatorContext, Schedule
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output
from tidewheel.transport.batches import Batch

Parts: TypeAlias = Callable[[Batch, Time, int], Iterable[Batch | None]]
"""Gets a batch, its time and the worker; returns what to send on each output, None for nothing."""


def build_batchwise(parts: Parts) -> Build:
    """Return the build function of an operator of one input that sends ``parts(batch, time, worker)``."""

    def build(context: OperatorContext) -> Schedule:
        def schedule(input: InputPort, *outputs: OutputPort) -> None:
            for lent, batch in input:
                for output, part in zip(outputs, parts(batch, lent.time, context.worker), strict=True):
                    if part is not None:
                        output.send(lent, part)

        return schedule

    return build


def by_time(predicate: Callable[[Time], object]) -> Parts:
    """Return what sends a batch on the first of two outputs if ``predicate(time)``, else on the second."""
    return lambda batch, time, worker: (batch, None) if predicate(time) else (None, batch)


def build_pass(context: OperatorContext) -> Schedule:
    """Build an operator that sends what it receives, from any number of inputs, at the time its summaries say."""

    def schedule(*ports: InputPort | OutputPort) -> None:
        *inputs, output = ports
        assert isinstance(output, OutputPort)
        for port in inputs:
            assert isinstance(port, InputPort)
            for token, batch in running_input(port).whole():
                output.send(token, batch)

    return schedule


def build_unlabelled(context: OperatorContext) -> Schedule:
    """Build an operator that sends what it receives, as part of no substream."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        for token, batch in running_input(input).whole():
            running_output(output).send_labelled(token, batch, None)

    return schedule
