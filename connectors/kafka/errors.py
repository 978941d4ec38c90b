"""The error of a broker, a topic or a record that is not as its source or sink needs it."""

from tidewheel.progress.errors import TidewheelError


class KafkaError(TidewheelError):
    """A broker refuses, a topic is missing, or a record cannot be read, and trying again does not help.

    The message says what was found, where, and what to do. It has no passwords.
    """
