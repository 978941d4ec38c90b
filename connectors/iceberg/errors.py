"""The error of an Iceberg table that does not fit its source or sink."""

from tidewheel.progress.errors import TidewheelError


class IcebergError(TidewheelError):
    """A catalog, a table or a record cannot be used, and another attempt would not help.

    The message names the table, the problem and the remedy. It contains no passwords.
    """
