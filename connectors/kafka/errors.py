"""The error of a `KafkaSource` or `KafkaSink` when another attempt cannot help."""

from tidewheel.progress.errors import TidewheelError


class KafkaError(TidewheelError):
    """A broker refuses the client, a topic is missing, or a record cannot be read; another attempt does not help.

    The message names the broker, topic or record, and the remedy. It contains no passwords.
    """
