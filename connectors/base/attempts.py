"""Attempts of a sink at a call, until its other end answers."""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from tidewheel.host.retry import Retry
from tidewheel.progress.errors import TidewheelError

LOGGER: Final = logging.getLogger(__name__)

T = TypeVar("T")


def attempted(act: Callable[[], T], retry: Retry, whose: object, error: Callable[[str], TidewheelError]) -> T:
    """Call until there is a value, with a log line for each failure that another attempt follows.

    Args:
        act: raises an error of ``retry.on`` if another attempt may succeed.
        retry: when the attempts end.
        whose: the sink, for log lines and errors.
        error: makes the exception of a message, which is raised in the end.
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
