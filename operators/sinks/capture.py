"""The capture operator: keeps what arrives, on the worker where it arrives, for the driver to fetch."""

from tidewheel.runtime.input_port import InputPort
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Schedule


def build_capture(context: OperatorContext) -> Schedule:
    """Build an operator that keeps (time, batch) in order of arrival."""

    def schedule(input: InputPort) -> None:
        for token, batch in input.whole():
            context.captured.append((token.time, batch))

    return schedule
