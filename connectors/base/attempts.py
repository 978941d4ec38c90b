"""A sink's call to another system, repeated until it succeeds."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from tidewheel.host.retry import Retry
from tidewheel.progress.errors import TidewheelError

LOGGER: Final = logging.getLogger(__name__)

T = TypeVar("T")


def attempted(act: Callable[[], T], retry: Retry, whose: object, error: Callable[[str], TidewheelError]) -> T:
    """Call a function until it returns; log each failure before the next attempt.

    Args:
        act: the function. If it raises an error of ``retry.on``, another attempt may succeed.
        retry: the limits and pauses of the attempts.
        whose: the sink, for log lines and errors.
        error: makes the exception from a message, if all attempts fail.
    """
    failed = 0

    def note(reason: Exception, failures: int) -> None:
        nonlocal failed
        failed = failures
        LOGGER.warning("%r tries again, after attempt %d: %s", whose, failures, reason)

    try:
        return retry.call(act, on_failure=note)
    except retry.on as reason:
        raise error(f"{whose!r}: no success after {failed + 1} attempts: {reason}") from reason
