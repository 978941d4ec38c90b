"""Says once when a log has no room on the disk, and once when it has again."""

import logging

from tidewheel.pubsub.log.errors import LogFull

_LOG = logging.getLogger(__name__)


class RoomWatch:
    """Remembers what was said last.

    Args:
        who: whose log it is.
    """

    def __init__(self, who: object) -> None:
        self._who = who
        self._is_full = False

    def look(self, full: LogFull | None) -> None:
        """Take note that there is no room, or that there is some."""
        if full is not None and not self._is_full:
            _LOG.error("%r: %s. Until there is room nothing is published, and its worker is held back", self._who, full)
        elif full is None and self._is_full:
            _LOG.warning("%r: the log has room again, and publishing goes on", self._who)
        self._is_full = full is not None
