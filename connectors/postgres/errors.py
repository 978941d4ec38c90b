"""The error of a database that is not as its source or sink needs it."""

from tidewheel.progress.errors import TidewheelError


class PostgresError(TidewheelError):
    """A database, a table or a slot is not as it has to be, and trying again does not help.

    The message says what was found, where, and what to do. It has no passwords.
    """
