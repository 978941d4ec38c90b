"""The error of a database that cannot be used as it is."""

from tidewheel.progress.errors import TidewheelError


class PostgresError(TidewheelError):
    """A database, a table or a slot is not as the source or sink needs it; another attempt does not help.

    The message says what was found, where, and what to do. It contains no passwords.
    """
