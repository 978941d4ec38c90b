"""The output of an operator, on which its schedule function sends."""

from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.running_output import RunningOutput
from tidewheel.transport.batches import Batch


class OutputPort:
    """One output of an operator on one worker."""

    __slots__ = ("_running",)

    def __init__(self, running: RunningOutput) -> None:
        self._running = running

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send ``batch`` at the token's time to everything connected; an empty batch is not sent.

        The batch must not be changed afterwards: receivers on the same worker get the same object.

        Raises:
            TokenError: the token does not allow it, or the operator is not being scheduled.
            TypeError: ``batch`` is not a list, Arrow table, record batch or NumPy array.
        """
        self._running.send(token, batch)


def running_output(port: OutputPort) -> RunningOutput:
    """Return the output behind a port, for operators of this package and tests."""
    return port._running
