"""The errors of the progress layer, and the root of every error that tidewheel raises on purpose.

An error's message says what was wrong, where, and what to do about it. Errors are picklable: they cross from a worker
to the driver.
"""


class TidewheelError(Exception):
    """The base of every error that tidewheel raises on purpose."""


class GraphError(TidewheelError):
    """The description of a dataflow is wrong; raised while it is being built, before anything runs."""


class ProtocolError(TidewheelError):
    """A peer broke the protocol: a lost message, an impossible count, a foreign incarnation."""
