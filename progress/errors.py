"""The errors of the progress layer, and the root of every error that tidewheel raises on purpose.

An error's message says what was wrong, where, and what to do about it. Errors are picklable: they cross from a worker
to the driver. Their texts are redacted as they are made: an argument of the user's that they quote may have a password.
"""

from typing import Any

from tidewheel.progress.redaction import redacted


class TidewheelError(Exception):
    """The base of every error that tidewheel raises on purpose."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.args = tuple(redacted(one) if isinstance(one, str) else one for one in args)


class GraphError(TidewheelError):
    """The description of a dataflow is wrong; raised while it is being built, before anything runs."""


class ProtocolError(TidewheelError):
    """A peer broke the protocol: a lost message, an impossible count, a foreign incarnation."""
