"""The progress of a job, as lines of the log."""

import logging
import time
from collections.abc import Callable

from tidewheel.host.log_lines import about

_LOGGER = logging.getLogger(__name__)
_EVERY_S = 60.0


class LoggedProgress:
    """Logs the progress of a job when it has changed: often in the first minute, later once a minute."""

    def __init__(self, job: str, describe: Callable[[], str]) -> None:
        self._job = job
        self._describe = describe
        self._since_s = time.monotonic()
        self._next_s = self._since_s
        self._told = ""

    def look(self) -> None:
        if _LOGGER.isEnabledFor(logging.INFO) and time.monotonic() >= self._next_s:
            before, self._told = self._told, self._describe()
            self._next_s = time.monotonic() + min(_EVERY_S, 1.0 + (time.monotonic() - self._since_s) / 4)
            if self._told != before:
                _LOGGER.info("job %r: %s", self._job, self._told, extra=about(self._job))
