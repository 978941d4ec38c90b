"""The open sessions of one worker: records start, extend and merge them.

Source: "The Dataflow Model" (VLDB 2015), section 2.2.1: each record makes a window from its time to its time plus the
gap, and overlapping windows of a key are merged.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import attrgetter
from reprlib import repr as shortened
from typing import Any

from tidewheel.operators.windows.event_time import EVENT_TIME, TimedRecord
from tidewheel.operators.windows.open_windows import LateRecord, WindowResult, by_keys, missed
from tidewheel.operators.windows.window_fold import WindowFold
from tidewheel.operators.windows.windows import Duration, EventTime


@dataclass(slots=True, eq=False)
class OpenSession:
    """An open session.

    Attributes:
        end: the time of its last record plus the gap.
        is_open: whether it is neither closed nor merged into another.
    """

    key: Any
    start: EventTime
    end: EventTime
    state: Any
    is_open: bool = True


class SessionBook:
    """All sessions of a worker, by key and by end.

    Attributes:
        by_key: the sessions of each key, in order of start; they do not overlap.
        ends: a heap of (end, number, session). The end of a session that has grown since is out of date, and too early.
    """

    __slots__ = ("by_key", "ends", "opened")

    def __init__(self, by_key: dict[Any, list[OpenSession]]) -> None:
        self.by_key = by_key
        for key, found in by_key.items():
            for session in found:
                session.key = key  # a NaN of a snapshot is another object
        sessions = chain.from_iterable(by_key.values())
        self.ends = [(session.end, number, session) for number, session in enumerate(sessions)]
        self.opened = len(self.ends)
        heapify(self.ends)


@dataclass(frozen=True, slots=True)
class OpenSessions:
    """The open sessions of one worker, with the methods of `NumberedWindows`."""

    gap: Duration
    fold: WindowFold
    book: SessionBook

    def __bool__(self) -> bool:
        return bool(self.book.by_key)

    def take(self, timed: list[TimedRecord], watermark: EventTime | None) -> list[LateRecord[Any]]:
        """Receive all records of an epoch; return the late records.

        A record is late if its session, with its neighbours in the same epoch, ends at or before the watermark. A
        record near an open session belongs to that session, however old it is.
        """
        timed.sort(key=EVENT_TIME)
        late: list[LateRecord[Any]] = []
        for key, entries in by_keys(timed).items():
            late += self._take_key(key, entries, watermark)
        return late

    def _take_key(self, key: Any, entries: list[TimedRecord], watermark: EventTime | None) -> Iterator[LateRecord[Any]]:
        stretches = [_Stretch(session.start, session.end, [session], []) for session in self.book.by_key.get(key, ())]
        stretches += self._new_stretches(entries)
        sessions: list[OpenSession] = []
        for stretch in _joined(stretches):
            if stretch.sessions:
                sessions.append(self._extend(stretch))
            elif watermark is None or stretch.end > watermark:
                sessions.append(self._open(key, stretch))
            else:
                yield from missed(stretch.added, stretch.start, stretch.end, watermark)
        if sessions:
            self.book.by_key[key] = sessions

    def _new_stretches(self, entries: list[TimedRecord]) -> Iterator["_Stretch"]:
        begin = 0
        try:
            ends = [at + self.gap for _, at, _ in entries]
        except OverflowError as error:
            at, record = entries[-1][1:]
            raise ValueError(
                f"the event time of record {shortened(record)} is {at!r}: there is no time {self.gap!r} after that"
            ) from error
        for index in range(1, len(entries) + 1):
            if index == len(entries) or entries[index][1] >= ends[index - 1]:
                yield _Stretch(entries[begin][1], ends[index - 1], [], entries[begin:index])
                begin = index

    def _extend(self, stretch: "_Stretch") -> OpenSession:
        session, *others = stretch.sessions
        for other in others:
            session.state = self.fold.combine(session.state, other.state)
            other.state = None
            other.is_open = False
        if stretch.added:
            session.state = self.fold.add(session.state, stretch.added)
        session.start = stretch.start
        session.end = stretch.end
        return session

    def _open(self, key: Any, stretch: "_Stretch") -> OpenSession:
        session = OpenSession(key, stretch.start, stretch.end, self.fold.add(self.fold.start(), stretch.added))
        heappush(self.book.ends, (session.end, self.book.opened, session))
        self.book.opened += 1
        return session

    def close(self, watermark: EventTime | None) -> list[WindowResult[Any]]:
        """Close the sessions that end at or before the watermark, and return their results.

        O(log n) for each session that closes or has grown.
        """
        ends, closed = self.book.ends, []
        while ends and (watermark is None or ends[0][0] <= watermark):
            _, number, session = heappop(ends)
            if not session.is_open:
                continue
            if watermark is not None and session.end > watermark:
                heappush(ends, (session.end, number, session))
                continue
            self._remove(session)
            closed.append(WindowResult(session.key, session.start, session.end, self.fold.finish(session.state)))
        return closed

    def _remove(self, session: OpenSession) -> None:
        session.is_open = False
        sessions = self.book.by_key[session.key]
        sessions.remove(session)
        if not sessions:
            del self.book.by_key[session.key]

    def first_end(self) -> EventTime:
        """Return the least end in the heap, which may be out of date."""
        return self.book.ends[0][0]


@dataclass(slots=True)
class _Stretch:
    """A stretch of time that becomes one session, made of open sessions and new records."""

    start: EventTime
    end: EventTime
    sessions: list[OpenSession]
    added: list[TimedRecord]


def _joined(stretches: list[_Stretch]) -> list[_Stretch]:
    stretches.sort(key=attrgetter("start"))
    joined = stretches[:1]
    for stretch in stretches[1:]:
        last = joined[-1]
        if stretch.start < last.end:
            last.end = max(last.end, stretch.end)
            last.sessions += stretch.sessions
            last.added += stretch.added
        else:
            joined.append(stretch)
    return joined
