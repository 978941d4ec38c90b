"""Windows in plain Python, with no thought of speed: every record is compared with every window."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import tidewheel as tw

MOST_WINDOWS = 400
"""The greatest distance from zero at which windows are looked for: event times in tests are near."""

Kind: TypeAlias = tw.TumblingWindows | tw.SlidingWindows | tw.SessionWindows


class Event(NamedTuple):
    """A record: its key, when it happened, and a number that no other has."""

    key: int
    at: Any
    number: int


@dataclass
class Outcome:
    """What comes out, by epoch: (key, start, end, numbers of the events in order) of windows and of late events."""

    results: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    late: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)


def windows_of(at: Any, kind: tw.TumblingWindows | tw.SlidingWindows) -> list[tuple[Any, Any]]:
    """Return start and end of every window with ``at`` in it."""
    length: Any = kind.length
    step: Any = kind.step if isinstance(kind, tw.SlidingWindows) else length
    starts = [(kind.offset or 0) + number * step for number in range(-MOST_WINDOWS, MOST_WINDOWS)]
    return [(start, start + length) for start in starts if start <= at < start + length]


def expected_windows(
    kind: Kind,
    epochs: dict[int, list[Event]],
    lateness: Any = 0,
    flush_at: int | None = None,
) -> Outcome:
    """Return what windows of numbers make of epochs, in order of epochs, each with at least one event."""
    outcome, watermark, opened = Outcome(), None, dict[tuple[Any, Any, Any], list[Event]]()
    for epoch, events in epochs.items():
        if isinstance(kind, tw.SessionWindows):
            opened, late = _add_to_sessions(kind.gap, opened, events, watermark)
        else:
            late = _add_to_windows(kind, opened, events, watermark)
        outcome.late[epoch] = [(*window, event.number) for window, event in late]
        watermark = max(event.at for earlier in epochs if earlier <= epoch for event in epochs[earlier]) - lateness
        due = [window for window in opened if window[2] <= watermark]
        outcome.results[epoch] = [(*window, _numbers(opened.pop(window))) for window in due]
    if epochs:
        last = max(*epochs, flush_at if flush_at is not None else 0)
        outcome.results.setdefault(last, []).extend((*window, _numbers(events)) for window, events in opened.items())
    return outcome


def _numbers(events: Iterable[Event]) -> tuple[int, ...]:
    return tuple(sorted(event.number for event in events))


def _add_to_windows(
    kind: tw.TumblingWindows | tw.SlidingWindows,
    opened: dict[tuple[Any, Any, Any], list[Event]],
    events: list[Event],
    watermark: Any,
) -> list[tuple[tuple[Any, Any, Any], Event]]:
    late = []
    for event in events:
        for start, end in windows_of(event.at, kind):
            if watermark is not None and end <= watermark:
                late.append(((event.key, start, end), event))
            else:
                opened.setdefault((event.key, start, end), []).append(event)
    return late


def _add_to_sessions(
    gap: Any, opened: dict[tuple[Any, Any, Any], list[Event]], events: list[Event], watermark: Any
) -> tuple[dict[tuple[Any, Any, Any], list[Event]], list[tuple[tuple[Any, Any, Any], Event]]]:
    """Merge any two that overlap until none do; what then ends too early has nothing but new events in it."""
    parts = [(key, start, end, list(found)) for (key, start, end), found in opened.items()]
    parts += [(event.key, event.at, event.at + gap, [event]) for event in events]
    overlap = True
    while overlap:
        overlap = False
        for one in parts:
            for other in parts:
                if one is not other and one[0] == other[0] and one[1] < other[2] and other[1] < one[2]:
                    merged = (one[0], min(one[1], other[1]), max(one[2], other[2]), one[3] + other[3])
                    parts = [part for part in parts if part is not one and part is not other] + [merged]
                    overlap = True
                    break
            if overlap:
                break
    kept, late = {}, []
    for key, start, end, found in parts:
        if watermark is not None and end <= watermark:
            late += [((key, start, end), event) for event in found]
        else:
            kept[key, start, end] = found
    return kept, late


def epoch_windows(kind: Kind, epochs: dict[int, list[Event]]) -> dict[int, Counter[Any]]:
    """Return how many events each window of epochs has: (key, start, end, count), at its last epoch."""
    times = [(event.key, epoch) for epoch, events in epochs.items() for event in events]
    found = Counter[tuple[int, int, int]]()
    if isinstance(kind, tw.SessionWindows):
        gap: Any = kind.gap
        for key, epoch in times:
            first = last = epoch
            while any(other == key and first - gap < time < first for other, time in times):
                first -= 1
            while any(other == key and last < time < last + gap for other, time in times):
                last += 1
            found[key, first, last + gap] += 1
    else:
        for key, epoch in times:
            found.update((key, start, end) for start, end in windows_of(epoch, kind))
    results: dict[int, Counter[Any]] = {}
    for (key, start, end), count in found.items():
        results.setdefault(end - 1, Counter())[key, start, end, count] += 1
    return results
