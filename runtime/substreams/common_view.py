"""Worker 0's view of the substreams of all workers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

from tidewheel.progress import CompiledGraph
from tidewheel.progress.substream_tracker import Ends, Key, SubstreamTracker, ToldEnds
from tidewheel.runtime.description.declared import DeclaredSubstreams
from tidewheel.runtime.messages.news import Changes, Keys, SubstreamNews


class CommonView:
    """Receives the news of all workers, and makes worker 0's news for them.

    Args:
        goes_on: whether the job continues from a snapshot. Then each worker first reports all its messages and tokens;
            closed keys count only after all workers have reported.
    """

    def __init__(
        self, compiled: CompiledGraph, tracked: Mapping[int, DeclaredSubstreams], workers: int, *, goes_on: bool
    ) -> None:
        self._workers = workers
        self._tracked = tracked
        self._trackers = {
            number: SubstreamTracker(compiled, one.source, workers if one.is_shared else 1, one.asked, one.ordered)
            for number, one in tracked.items()
        }
        self._finished: dict[int, int] = defaultdict(int)
        self._at_end: dict[int, int] = defaultdict(int)
        """By declaration, the number of workers that accept only records that wait there."""
        self._waiting: dict[int, Counter[Key]] = defaultdict(Counter)
        """By declaration and key, on how many of those workers records wait."""
        self._told_over: set[int] = set()
        self._news = SubstreamNews()
        self._to_begin = workers if goes_on else 0
        """The number of workers whose first, complete report is missing."""
        self._early: list[SubstreamNews] = []

    @property
    def has_news(self) -> bool:
        news = self._news
        return bool(news.closing or news.all_closing or news.turns or news.ends or news.over)

    def take(self, news: SubstreamNews) -> None:
        if not self._to_begin:
            self._take(news)
            return
        self._early.append(news)
        self._to_begin -= news.is_first
        if not self._to_begin:
            self._begin()

    def _begin(self) -> None:
        early, self._early = self._early, []
        for changes in chain.from_iterable(news.changes for news in early):
            tracker = self._trackers[changes.declaration]
            others = [[change for change in shape if change[0] != tracker.closing] for shape in changes.shapes]
            tracker.update(changes.keys, changes.which, others)
        for news in early:
            closed = [changes.only(self._trackers[changes.declaration].closing) for changes in news.changes]
            self._take(msgspec.structs.replace(news, changes=closed))

    def told(self, declaration: int) -> ToldEnds:
        return self._trackers[declaration].told()

    def go_on(self, declaration: int, told: ToldEnds) -> None:
        self._trackers[declaration].go_on(told)

    def _take(self, news: SubstreamNews) -> None:
        for changes in news.changes:
            tracker = self._trackers[changes.declaration]
            self._end(changes.declaration, tracker.update(changes.keys, changes.which, changes.shapes))
            if not self._tracked[changes.declaration].is_shared and self._workers > 1:
                self._close_for_all(changes, tracker)
        for ending in news.ending:
            self._at_end[ending.declaration] += ending.is_first
            waiting = self._waiting[ending.declaration]
            waiting.update(ending.waiting)
            waiting.subtract(ending.done)
            for key in [key for key in ending.done if not waiting[key]]:
                del waiting[key]
        for declaration in news.finished:
            self._finished[declaration] += 1
            if self._finished[declaration] == self._workers:
                self._news.all_closing.append(declaration)
                self._end(declaration, self._trackers[declaration].finish())
        for declaration in {ending.declaration for ending in news.ending}:
            if self._at_end[declaration] == self._workers and self._finished[declaration] < self._workers:
                self._close_others(declaration)

    def _close_others(self, declaration: int) -> None:
        waiting = self._waiting[declaration]
        keys, ends = self._trackers[declaration].close_but(waiting)
        if keys:
            _add(self._news.closing, declaration, keys)
        self._end(declaration, ends)

    def _close_for_all(self, changes: Changes, tracker: SubstreamTracker) -> None:
        closing = {at for at, shape in enumerate(changes.shapes) if any(point == tracker.closing for point, _ in shape)}
        if closing:
            keys = zip(changes.keys, changes.which, strict=True)
            _add(self._news.closing, changes.declaration, (key for key, at in keys if at in closing))

    def _end(self, declaration: int, ends: Ends) -> None:
        tracker = self._trackers[declaration]
        closed, over = tracker.drain_closed(), tracker.drain_over()
        if closed and self._tracked[declaration].turns:
            _add(self._news.turns, declaration, closed)
        for location, keys in ends.items():
            _add(self._news.ends, location, keys)
        if over:
            _add(self._news.over, declaration, over)

    def news(self) -> SubstreamNews | None:
        if not self.has_news:
            return None
        told, self._news = self._news, SubstreamNews()
        for declaration, tracker in self._trackers.items():
            if tracker.is_over and declaration not in self._told_over:
                self._told_over.add(declaration)
                told.all_over.append(declaration)
        return told


def _add(told: Keys, number: int, keys: Iterable[Key]) -> None:
    told.setdefault(number, []).extend(keys)
