"""The error of a table of Delta Lake that does not fit its source or sink."""

from tidewheel.progress.errors import TidewheelError


class DeltaError(TidewheelError):
    """A table, one of its versions or a record cannot be used, and another attempt would not help.

    The message names the table, the problem and the remedy. It contains no passwords.
    """
