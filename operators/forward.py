"""Operators that look at nothing but the batch at hand: what maps, filters, enters, leaves and feeds back is built on.

They never ask for a frontier, so progress tracking keeps none for them.
"""

from collections.abc import Callable

from tidewheel.runtime.batches import Batch
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import InputPort, OutputPort


def build_forward(function: Callable[[Batch], Batch]) -> Build:
    """Return the build function of an operator that sends ``function(batch)`` at each batch's time."""

    def build(context: OperatorContext) -> Schedule:
        def schedule(input: InputPort, output: OutputPort) -> None:
            for token, batch in input:
                output.send(token, function(batch))

        return schedule

    return build


def build_pass(context: OperatorContext) -> Schedule:
    """Build an operator that sends what it receives, from any number of inputs, at the time its summaries say."""

    def schedule(*ports: InputPort | OutputPort) -> None:
        *inputs, output = ports
        assert isinstance(output, OutputPort)
        for port in inputs:
            assert isinstance(port, InputPort)
            for token, batch in port:
                output.send(token, batch)

    return schedule
