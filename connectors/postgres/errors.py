"""The error of a database that a source or sink cannot use."""

from tidewheel.progress.errors import TidewheelError


class PostgresError(TidewheelError):
    """A database, table or slot does not fit the source or sink; another attempt does not help.

    The message names the database object, the problem and the remedy. It contains no passwords.
    """
