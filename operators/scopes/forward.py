"""Operators that only pass batches on: they join streams, enter, leave and feed back.

They never ask for a frontier, so progress tracking keeps none for them.
"""

from tidewheel.runtime import OperatorContext, Schedule
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output


def build_unlabelled(context: OperatorContext) -> Schedule:
    """Build an operator that sends what it receives, as part of no substream."""

    def schedule(input: InputPort, output: OutputPort) -> None:
        for token, batch in running_input(input).whole():
            running_output(output).send_labelled(token, batch, None)

    return schedule


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
