"""The error of a `NatsSource` or `NatsSink` when another attempt cannot help."""

from tidewheel.progress.errors import TidewheelError


class NatsError(TidewheelError):
    """A server refuses the client, a stream is missing or has lost messages; another attempt does not help.

    The message names the server, stream or record, and the remedy. It contains no passwords.
    """
