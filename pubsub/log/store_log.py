"""A log in an object store: records in order of ticks, one object for each group.

Invariants:

- The log is a claimed log (`storage/numbered_log.py`): each number has one writer. Opening the log puts a claim, which
  the former writer finds in place of its own next object. Claims are never removed.
- A record is durable once the store has confirmed its object. Objects are put one after the other.
- An object is removed only when a later object says that the log begins after it. So a missing object is never taken
  for a removed one.

Source: seed "Gryphon exactly-once", 2.2 "Pubends".
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from tidewheel.host.retry import Retry
from tidewheel.pubsub.log.errors import LogCorrupted, LogFailed, LogTakenOver, StoreFailed
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.object_format import OBJECTS, ObjectHeader, Piece, object_name
from tidewheel.pubsub.log.object_recovery import FoundObjects, ObjectsChanged, find_objects
from tidewheel.pubsub.log.object_segment import LogStore, ObjectSegment
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES
from tidewheel.pubsub.log.stored_segments import StoredSegments
from tidewheel.storage.files import Part
from tidewheel.storage.folder_calls import run
from tidewheel.storage.log_records import Entry, encode_header, encode_record
from tidewheel.storage.numbered_log import Put

_LOG = logging.getLogger(__name__)

AGAIN = Retry(within_s=60.0, first_pause_s=0.1, longest_pause_s=2.0, jitter=0.5, on=StoreFailed)
"""The default attempts at a call to a store that fails."""

MOST_OBJECTS = 256
"""The approximate number of objects in a segment; it keeps both unmerged objects, which opening reads, and merged ones
few."""

_MOST_CLAIMS = 100


class StoreLog(StoredSegments[ObjectSegment]):
    """The log of one partition, created if missing; a former writer that is still alive can no longer write.

    Thread-safe; writers wait while an object is put.

    Args:
        segment_bytes: the bytes of records after which a new segment is due.

    Raises:
        LogTakenOver: other writers keep opening the log at the same time.
        LogMismatch: the log has another identity.
        LogCorrupted: the log is damaged.
        LogFailed: the store fails, or accepts a second object of the same name.
        StoreFailed: the store cannot be read.

    Complexity: opening reads the headers of all unmerged and merged objects.
    """

    def __init__(
        self,
        store: LogStore,
        url: str,
        identity: LogIdentity,
        *,
        snapshot: bytes = b"",
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], float] = time.time,
        again: Retry = AGAIN,
    ) -> None:
        super().__init__(url)
        self.is_in_memory = False
        self._store = store
        self._url = url
        self._identity = identity
        self._segment_bytes = segment_bytes
        self._clock = clock
        self._again = again
        self._writer = secrets.token_hex(8)
        self._parts: list[Part] = []
        self._bytes = 0
        self._first_tick: int | None = None
        self._next, self._tick = 1, -1
        self._claims: tuple[int, ...] = (1,)
        self._left_over: list[str] = []
        self._open(snapshot)

    def _open(self, snapshot: bytes) -> None:
        found: FoundObjects | None = None
        for _ in range(_MOST_CLAIMS):
            with suppress(ObjectsChanged):
                # The earlier writer may keep putting objects: this reads only the next object, not the whole log again.
                lost_to = None if found is None else self._store.read(object_name(self._next))
                if found is None or lost_to is None:
                    found = find_objects(self._store, self._url, self._identity)
                else:
                    found.follow(lost_to)
                if self._claim(found, snapshot):
                    self._check_store()
                    return
        raise LogTakenOver(
            f"the log in {self._url} is not opened: in each of {_MOST_CLAIMS} tries another publisher of this "
            "partition had put the next object first. It lives, and writes to the log or opens it: end it",
            path=self._url,
        )

    def _check_store(self) -> None:
        harm = "two publishers could overwrite each other's messages"
        error = partial(LogFailed, path=self._url)
        run(OBJECTS.check_store(self._next - 1, self._url, harm, error), self._store)

    def _claim(self, found: FoundObjects | None, snapshot: bytes) -> bool:
        if found is not None:
            self._segments = found.segments
            self._next, self._tick = found.newest.number + 1, found.newest.last_tick
            self._claims, self._left_over = (*found.claims, self._next), found.left_over
        try:
            self._put(None if found else snapshot, is_claim=True)
        except LogTakenOver:
            self._failure = None
            return False
        return True

    # ------------------------------------------------------------------ writing

    @property
    def is_segment_due(self) -> bool:
        segment = self._segments[-1]
        size = segment.size - segment.first_bytes + self._bytes
        return size >= max(self._segment_bytes, segment.first_bytes) or segment.count >= MOST_OBJECTS

    def append(self, entries: Iterable[Entry]) -> None:
        """Accept records, which `sync` will write after all others.

        Raises:
            ValueError: a tick decreases, or an entry is too large; no record is accepted.
            LogFailed: a write has failed before.
        """
        with self._writing:
            self._check_usable()
            parts: list[Part] = []
            size, tick, first = self._bytes, self._tick, self._first_tick
            for entry in entries:
                if entry.tick < tick:
                    raise ValueError(f"{self._url} has tick {tick}, so tick {entry.tick} comes too late")
                tick = entry.tick
                first = tick if first is None else first
                size += encode_record(entry, size, self._next, 0, parts)
            self._parts += parts
            self._bytes, self._tick, self._first_tick = size, tick, first

    def sync(self) -> int:
        """Make the appended records durable with one object; return `last_tick`.

        Raises:
            LogTakenOver: another writer has opened the log; the log does not have these records.
            LogFailed: the store failed, now or before; these records may or may not be durable.
        """
        with self._writing:
            self._check_usable()
            if self._parts:
                self._put()
            return self.last_tick

    def begin_segment(self, snapshot: bytes) -> None:
        """Make the appended records durable, and begin another segment; raise as `sync` does."""
        with self._writing:
            self.sync()
            self._put(snapshot)

    def _put(self, snapshot: bytes | None = None, *, is_claim: bool = False) -> None:
        number, before = self._next, self.last_tick if self._segments else -1
        is_new = not self._segments
        header = ObjectHeader(
            self._identity,
            number,
            self._writer,
            number if is_new else self._segments[0].number,
            before,
            self._first_tick,
            self._tick,
            self._bytes,
            self._clock(),
            is_claim,
            snapshot,
            () if snapshot is None else self._claims,
        )
        head = encode_header(header)
        try:
            self._put_once(number, b"".join([head, *self._parts]))
        except LogFailed as error:
            self._failure = error
            raise
        piece = Piece(number, len(head) + self._bytes, self._first_tick, self._tick)
        self._next += 1
        self._parts, self._bytes, self._first_tick = [], 0, None
        if snapshot is None:
            self._segments[-1].add(piece)
            return
        segment = ObjectSegment(self._store, self._url, self._identity, before, header.begun_s, [piece])
        if not is_new:
            self._segments[-1].ended_s = header.begun_s
        self._segments.append(segment)

    def _put_once(self, number: int, data: bytes) -> None:
        within_s, failures = self._again.within_s, 0

        def warn(error: Exception, count: int) -> None:
            nonlocal failures
            failures = count
            if count == 1:
                _LOG.warning("%s. It is tried for %g s, and until then nothing is published", error, within_s)

        try:
            self._again.call(partial(self._try_to_put, number, data), on_failure=warn)
        except StoreFailed as error:
            raise LogFailed(
                f"the log in {self._url} has failed: {error}. It was tried for {within_s:g} s, and takes "
                "nothing more. Start the job again once the store answers: the log has the other records, and "
                "perhaps those of the last write",
                path=self._url,
            ) from error
        if failures:
            _LOG.warning("the log in %s goes on: the store answers again", self._url)

    def _try_to_put(self, number: int, data: bytes) -> None:
        put, name = run(OBJECTS.put(number, data), self._store), object_name(number)
        if put is Put.UNSEEN:  # S3 refuses a put that meets another one, such as an earlier try still on its way
            raise StoreFailed(f"{self._url}/{name} is not written: the store says that it is there, and it is not")
        if put is Put.TAKEN:
            raise LogTakenOver(
                f"another publisher has opened the log in {self._url} since (it has put {name}): this one "
                "publishes nothing more. If both should live, give each a log of its own",
                path=self._url,
            )

    # ------------------------------------------------------------------ removing

    def is_short_of_room(self) -> bool:
        """Return False: an object store always has room."""
        return False

    def trim(self, tick: int) -> int:
        """Remove the segments with only records before ``tick``, except the last segment; return their size in bytes.

        This also merges objects of complete segments. It waits for the store, but writers continue.

        Raises:
            LogError: the store failed; some objects stay until a later call.
        """
        removed: list[ObjectSegment] = []
        with self._trimming:
            if self._failure:
                return 0
            while self.has_before(tick):
                removed.append(self._segments.pop(0))
            if removed:
                with self._writing:
                    self._check_usable()
                    self._put()  # the object says that the log begins behind the removed segments
                self._left_over += [name for segment in removed for name in segment.names]
            for segment in self._segments[:-1]:
                if segment.base is None and segment.is_mergeable and segment.count > 1:
                    self._merge(segment)
            claims = {object_name(number) for number in self._claims}
            self._store.remove([name for name in self._left_over if name not in claims])
            self._left_over = []
        return sum(segment.size for segment in removed)

    def _merge(self, segment: ObjectSegment) -> None:
        try:
            self._left_over += segment.merge()
        except (LogCorrupted, FileNotFoundError) as error:
            segment.is_mergeable = False
            _LOG.warning("the objects of the log in %s from %s on are not merged: %s", self._url, segment.path, error)
