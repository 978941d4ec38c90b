"""The capture operator: keeps what arrives, on the worker where it arrives, for the driver to fetch."""

from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, running_input


def build_capture(context: OperatorContext) -> Schedule:
    """Build an operator that keeps (time, batch) in order of arrival."""
    captured = instance_of(context).captured

    def schedule(input: InputPort) -> None:
        for token, batch in running_input(input).whole():
            captured.append((token.time, batch))

    return schedule
