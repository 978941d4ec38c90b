"""The durable log of exactly-once topics: what its publisher must not lose.

`Log` keeps records, `GroupCommit` writes those of many callers with one fdatasync. Everything here waits for the disk,
so an event loop calls it from another thread, but for `GroupCommit.submit`, and `Log.read` of what was written lately.
"""

from tidewheel.pubsub.log.errors import LogCorrupted, LogError, LogFailed, LogFull, LogLocked, LogMismatch
from tidewheel.pubsub.log.group_commit import Done, GroupCommit
from tidewheel.pubsub.log.record_format import Entry, LogIdentity, Record
from tidewheel.pubsub.log.segmented_log import Log
from tidewheel.pubsub.log.stored_segments import Replay, SegmentStatus

__all__ = [
    "Done",
    "Entry",
    "GroupCommit",
    "Log",
    "LogCorrupted",
    "LogError",
    "LogFailed",
    "LogFull",
    "LogIdentity",
    "LogLocked",
    "LogMismatch",
    "Record",
    "Replay",
    "SegmentStatus",
]
