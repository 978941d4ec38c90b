"""A worker's decision about a publisher that shows no sign of life. No I/O, no clock.

While its loop runs, a publisher sends its worker a sign of life at least every second. Silence alone is no reason to
give up a publisher: a full disk, a large state or a busy machine may delay its loop. The worker gives up a publisher
only if a signal has stopped it, since it then does nothing for its readers until another signal comes.

=========================  ===========================  =========================================
for `PATIENCE_S` seconds   its process                  what the worker does
=========================  ===========================  =========================================
it has shown life          any                          nothing
it has shown none          has not been stopped, or     says once that it waits, and again when
                           was continued meanwhile      the publisher shows life
it has shown none          has been stopped all along   kills it, as it does not end by itself
=========================  ===========================  =========================================

Between two looks of the worker, at most `_MOST_STEP_S` of time count. So a publisher is not given up because the worker
or its machine was suspended.
"""

from enum import Enum
from typing import Final

PATIENCE_S: Final = 5.0
"""The seconds after which a worker gives up a stopped publisher; readers also leave it after this time."""

_MOST_STEP_S = 2.0


class News(Enum):
    """The actions and reports of the worker."""

    NONE = "nothing"
    SILENT = "it has shown no sign of life for a while, and is waited for"
    BACK = "it has shown life again"
    STOPPED = "it has been stopped for a while: kill it"


class WatchedPublisher:
    """Measures for how long a publisher has shown no sign of life and has been stopped.

    >>> watched = WatchedPublisher()
    >>> [watched.look(now_s, has_shown_life=False, is_stopped=True).name for now_s in (7.0, 9.0, 11.0, 13.0)]
    ['NONE', 'NONE', 'NONE', 'STOPPED']
    """

    def __init__(self) -> None:
        self._looked_s: float | None = None
        self._silent_s = 0.0
        self._stopped_s: float | None = None
        self._has_said = False

    def look(self, now_s: float, *, has_shown_life: bool, is_stopped: bool) -> News:
        """Return the action or report that is due; call this about every second."""
        step_s = 0.0 if self._looked_s is None else min(now_s - self._looked_s, _MOST_STEP_S)
        self._looked_s = now_s
        if has_shown_life:
            self._silent_s, self._stopped_s = 0.0, None
            was_said, self._has_said = self._has_said, False
            return News.BACK if was_said else News.NONE
        self._silent_s += step_s
        if is_stopped:
            self._stopped_s = 0.0 if self._stopped_s is None else self._stopped_s + step_s
            if self._stopped_s < PATIENCE_S:
                return News.NONE
            self._stopped_s = None
            return News.STOPPED
        self._stopped_s = None
        if self._silent_s < PATIENCE_S or self._has_said:
            return News.NONE
        self._has_said = True
        return News.SILENT
