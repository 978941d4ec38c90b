"""The durable log of exactly-once topics: the data that a publisher must not lose.

`Log` keeps records; `GroupCommit` writes the records of many callers with one fdatasync. All calls wait for the disk,
so an event loop makes them on another thread. `GroupCommit.submit`, and `Log.read` of recent records, do not wait.
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
