"""Opening a log, in a directory of this node or at a prefix of an object store."""

from pathlib import Path
from typing import TypeAlias

from tidewheel.pubsub.log.errors import LogMismatch, StoreFailed
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.object_recovery import has_objects
from tidewheel.pubsub.log.object_segment import LogStore
from tidewheel.pubsub.log.payload_area import is_in_memory
from tidewheel.pubsub.log.segment import SUFFIX, open_segment
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES, Log
from tidewheel.pubsub.log.store_log import StoreLog
from tidewheel.storage.files import FILES, Files
from tidewheel.storage.folder import open_store
from tidewheel.storage.store_url import is_url

AnyLog: TypeAlias = Log | StoreLog
"""A log of either kind. Both have the same methods, except for making a log."""

_ANSWER_S = 40.0


def open_log(
    place: Path | str,
    identity: LogIdentity,
    snapshot: bytes,
    segment_bytes: int = SEGMENT_BYTES,
    *,
    wait_s: float = 0.0,
    files: Files = FILES,
) -> AnyLog:
    """Open the log of one partition; create it if it does not exist.

    ``place`` is a directory, or a URL such as ``s3://bucket/prefix``, for this log only. ``snapshot`` is the initial
    state of a new log. A new segment is due after ``segment_bytes`` of records. If another process has the log open, a
    directory's log waits for ``wait_s`` seconds; in an object store, the other process loses the log immediately.

    Raises:
        LogError: as `Log` and `StoreLog` do.
    """
    if not is_url(str(place)):
        return Log(
            Path(place),
            identity,
            snapshot=snapshot,
            segment_bytes=segment_bytes,
            is_in_memory=files is FILES and is_in_memory(Path(place)),
            wait_s=wait_s,
            files=files,
        )
    return StoreLog(_store(str(place)), str(place), identity, snapshot=snapshot, segment_bytes=segment_bytes)


def logged_partitions(place: Path | str, identity: LogIdentity) -> int:
    """Return the number of partitions of the topic whose log is in ``place``; 0 if there is no log.

    This writes nothing.

    Raises:
        LogError: the log cannot be read, or belongs to another topic.
    """
    try:
        if is_url(str(place)):
            is_there = has_objects(_store(str(place)), str(place), identity)
        else:
            newest = sorted(Path(place).glob(f"*{SUFFIX}"))[-1:]
            is_there = bool([open_segment(path, identity) for path in newest])
    except LogMismatch as error:
        if error.partitions is None:
            raise
        return error.partitions
    return identity.partitions if is_there else 0


def _store(url: str) -> LogStore:
    return open_store(url, _ANSWER_S, lambda text: StoreFailed(text, path=url))
