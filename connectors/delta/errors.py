"""The error of a table of Delta Lake that is not as its source or sink needs it."""

from tidewheel.progress.errors import TidewheelError


class DeltaError(TidewheelError):
    """A table, a version of it or a record is not as it has to be, and trying again does not help.

    The message says what was found, where, and what to do. It has no passwords.
    """
