"""The error of an Iceberg table that does not fit its source or sink."""

from tidewheel.progress.errors import TidewheelError


class IcebergError(TidewheelError):
    """A catalog, a table or a record cannot be used, and another attempt would not help.

    The message says what was found, where, and what to do. It has no passwords.
    """
