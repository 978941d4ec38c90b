"""The open windows of one worker: they receive one epoch after the other, and a watermark closes them.

Results do not depend on the order in which an epoch's records arrive: they are first sorted by event time, then
content.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from tidewheel.operators.base.division import split_by_key
from tidewheel.operators.keys.record_hash import record_hash
from tidewheel.operators.keys.record_keys import join_nan_groups, may_have_nan
from tidewheel.operators.keys.record_order import nan_last
from tidewheel.operators.windows.event_time import EVENT_TIME, RECORD, TimedRecord
from tidewheel.operators.windows.window_fold import WindowFold
from tidewheel.operators.windows.windows import EventTime, SlidingWindows, TumblingWindows, Windows, windows_at

Record = TypeVar("Record")
Value = TypeVar("Value")


class WindowResult(NamedTuple, Generic[Value]):
    """The result for the records of one key in one window.

    Attributes:
        key: the key of these records.
        start: the start of the window; for a session, the time of its first record.
        end: the first time after the window; for a session, the time of its last record plus the gap.
        value: the result of the fold over the records.
    """

    key: Any
    start: Any
    end: Any
    value: Value


class LateRecord(NamedTuple, Generic[Record]):
    """A record and a window that it missed; there is one `LateRecord` for each missed window.

    Attributes:
        key: the record's key.
        start: the start of the missed window.
        end: the end of the missed window, at or before the watermark.
        at: the event time of the record.
        record: the record.
        watermark: the watermark when the record's epoch began; for a record too far ahead, the latest accepted event
            time, which is before ``at``.
    """

    key: Any
    start: Any
    end: Any
    at: Any
    record: Record
    watermark: Any


@dataclass(slots=True)
class NumberedWindow:
    """An open tumbling or sliding window, with the state of each key."""

    start: EventTime
    end: EventTime
    states: dict[Any, Any] = field(default_factory=dict)

    def split(self, workers: int) -> "list[NumberedWindow | None]":
        shares = split_by_key(self.states, workers)
        return [None if share is None else NumberedWindow(self.start, self.end, share) for share in shares]

    def merge(self, other: "NumberedWindow") -> "NumberedWindow":
        self.states.update(other.states)
        return self


@dataclass(frozen=True, slots=True)
class NumberedWindows:
    """The open tumbling or sliding windows of one worker."""

    kind: TumblingWindows | SlidingWindows
    fold: WindowFold
    opened: dict[int, NumberedWindow]

    def __bool__(self) -> bool:
        return bool(self.opened)

    def take(self, timed: list[TimedRecord], watermark: EventTime | None) -> list[LateRecord[Any]]:
        """Receive all records of an epoch, in any order; return the late records.

        Args:
            timed: the records; this call sorts the list.
            watermark: the watermark of earlier epochs, at or before which closed windows end. None before the first
                record.
        """
        late: list[LateRecord[Any]] = []
        for number, by_key in self._by_window(timed):
            start, end = self.kind._bounds(number, timed[0][1])
            if watermark is None or end > watermark:
                self._add(number, start, end, by_key)
            else:
                for entries in by_key.values():
                    late += missed(entries, start, end, watermark)
        return late

    def _by_window(self, timed: list[TimedRecord]) -> Iterator[tuple[int, dict[Any, list[TimedRecord]]]]:
        timed.sort(key=EVENT_TIME)
        begin = 0
        for pane, run in groupby(self.kind._panes(list(map(EVENT_TIME, timed)))):
            end = begin + len(list(run))
            by_key = by_keys(timed[begin:end])
            for number in self.kind._windows(pane):
                yield number, by_key
            begin = end

    def _add(self, number: int, start: EventTime, end: EventTime, by_key: dict[Any, list[TimedRecord]]) -> None:
        window = self.opened.get(number)
        if window is None:
            window = self.opened[number] = NumberedWindow(start, end)
        fold, states = self.fold, window.states
        for key, entries in by_key.items():
            states[key] = fold.add(states[key] if key in states else fold.start(), entries)

    def close(self, watermark: EventTime | None) -> list[WindowResult[Any]]:
        """Close the windows that end at or before ``watermark``, or all if it is None; return their results.

        O(open windows).
        """
        due = [number for number, window in self.opened.items() if watermark is None or window.end <= watermark]
        closed = [self.opened.pop(number) for number in sorted(due)]
        finish = self.fold.finish
        return [
            WindowResult(key, window.start, window.end, finish(state))
            for window in closed
            for key, state in window.states.items()
        ]

    def first_end(self) -> EventTime:
        """Return the earliest end of a window. O(open windows)."""
        return min(window.end for window in self.opened.values())


def by_keys(timed: Iterable[TimedRecord]) -> dict[Any, list[TimedRecord]]:
    """Return the records of each key; ``timed`` is in order of event time. See `_settle_ties`."""
    found: dict[Any, list[TimedRecord]] = defaultdict(list)
    for entry in timed:
        found[entry[0]].append(entry)
    if may_have_nan(found):  # the keys may come from a snapshot or from another worker
        found = join_nan_groups(found)
        for entries in found.values():
            entries.sort(key=EVENT_TIME)
    for entries in found.values():
        if len(entries) > 1:
            _settle_ties(entries)
    return found


def _settle_ties(entries: list[TimedRecord]) -> None:
    """Sort records with equal event times by content, so that the order of arrival makes no difference.

    NaN comes last. Records that cannot be compared are ordered by a hash; without a hash they keep their order.
    """
    if len(set(map(EVENT_TIME, entries))) == len(entries):
        return
    times, records = list(map(EVENT_TIME, entries)), list(map(RECORD, entries))
    for contents in (_as_they_are, _by_items, _hashes):
        try:
            places = list(zip(times, nan_last(contents(records)), strict=True))
            in_order = sorted(range(len(entries)), key=places.__getitem__)
        except (TypeError, ValueError):
            continue
        entries[:] = [entries[place] for place in in_order]
        return


def _as_they_are(records: list[Any]) -> list[Any]:
    return records


def _by_items(records: list[Any]) -> list[Any]:
    return [sorted(record.items()) if isinstance(record, dict) else record for record in records]


def _hashes(records: list[Any]) -> list[Any]:
    return list(map(record_hash, records))


def too_far_ahead(windows: Windows, entry: TimedRecord, latest: EventTime) -> list[LateRecord[Any]]:
    """Return a late record for each window of a record, whose event time is after ``latest``."""
    key, at, record = entry
    return [LateRecord(key, start, end, at, record, latest) for start, end in windows_at(windows, at)]


def missed(
    entries: list[TimedRecord], start: EventTime, end: EventTime, watermark: EventTime
) -> Iterator[LateRecord[Any]]:
    for key, at, record in entries:
        yield LateRecord(key, start, end, at, record, watermark)
