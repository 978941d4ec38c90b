"""The error of an Iceberg table that is not as its source or sink needs it."""

from tidewheel.progress.errors import TidewheelError


class IcebergError(TidewheelError):
    """A catalog, a table or a record is not as it has to be, and trying again does not help.

    The message says what was found, where, and what to do. It has no passwords.
    """
