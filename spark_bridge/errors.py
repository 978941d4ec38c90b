"""The error of the Spark bridge."""

from tidewheel.progress.errors import TidewheelError


class BridgeError(TidewheelError):
    """Spark, RayDP, Java or the data handed between Spark and tidewheel is not what the bridge needs.

    The message names what was found, where, and what to do about it.
    """
