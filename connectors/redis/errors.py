"""The error of a `RedisSource` or `RedisSink` when another attempt cannot help."""

from tidewheel.progress.errors import TidewheelError


class RedisError(TidewheelError):
    """A server refuses the client, a stream is missing or has lost entries; another attempt does not help.

    The message names the server, stream or record, and the remedy. It contains no passwords.
    """
