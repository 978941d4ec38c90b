"""The capture operator: it keeps the records of a stream on their worker, for the driver."""

from itertools import count
from secrets import randbits

from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.state.operator_state import CAPTURED
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, running_input

_NUMBER_BITS = 62


def build_capture(context: OperatorContext) -> Schedule:
    """Build an operator that keeps (time, batch) in order of arrival, for the driver to fetch."""
    captured = context.keyed_state(CAPTURED)
    numbers = count(randbits(_NUMBER_BITS))  # so that no two workers use the same

    def schedule(input: InputPort) -> None:
        for token, batch in running_input(input).whole():
            captured[next(numbers)] = (token.time, batch)

    return schedule
