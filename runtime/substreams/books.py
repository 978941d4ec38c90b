"""One worker's books of substreams: what has happened to each here, and what of that others have to know.

Worker 0 has a view of all, and tells the others which substreams have ended where. A worker tells it what has happened
to a substream only once that is about to end, all in one, and preferably when there is nothing more to do: as its
messages are counted at whoever holds them, it is safe to tell late. What has come to nothing meanwhile is never told.

Invariants:

- What is told of a substream is all that has happened to it up to the end of a step, so views of worker 0 are made of
  whole steps, in order. The substreams do not depend on each other.
- What is known of a substream that is about to end is told at the latest when a step leaves the worker with nothing to
  do, or after some steps: so every end comes.
- All workers hear what worker 0 has to tell in the same order; `heard` is how much of it a worker has heard. It says so
  with what it sends, and nobody takes that in before having heard as much. So no record of a key that is used again
  overtakes the end of what had that key before.

Source: seed "Substream Management", on soft bounds and their traffic; `tidewheel.progress.substream_tracker`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.progress import CompiledGraph, Location, Source, Time
from tidewheel.progress.substream_tracker import (
    Declaration,
    Key,
    SubstreamEnd,
    SubstreamTracker,
)
from tidewheel.runtime.substreams.labels import Label, Labels, MixedLabel
from tidewheel.runtime.substreams.news import Counts, Ending, SubstreamNews

TELLER = 0
"""The worker that has a view of all substreams."""

_MOST_DUE = 4096
_MOST_STEPS = 16
"""So many substreams about to end, or steps with some, are not told of by a worker that is never out of work."""


@dataclass(frozen=True, slots=True)
class DeclaredSubstreams:
    """Where substreams are declared, and who asks for their ends.

    Attributes:
        name: of the declaration.
        source: the output from which records with keys go on.
        is_shared: whether every worker lets in records of each key, or only one.
        asked: the inputs where somebody asks for ends.
        ordered: those of them where ends are to be told in the order of closing.
        firm: those of them where each substream is received in one piece.
        turns: those of them that are on a cycle: they are ordered, too.
        is_punctuated: whether ends are told by markers among the records; if so, nothing is counted.
    """

    name: str
    source: Source
    is_shared: bool
    asked: tuple[Location, ...]
    ordered: tuple[Location, ...] = ()
    firm: tuple[Location, ...] = ()
    turns: tuple[Location, ...] = ()
    is_punctuated: bool = False


class SubstreamBooks:
    """The books of one worker.

    Args:
        compiled: the graph.
        declared: what was declared in it, by number.
        worker, workers: the number of this worker, and how many there are.

    Attributes:
        heard: how many times worker 0 has told everyone something, as far as this worker has heard.
    """

    def __init__(
        self, compiled: CompiledGraph, declared: Sequence[DeclaredSubstreams], worker: int, workers: int
    ) -> None:
        self._worker = worker
        self._workers = workers
        self._tracked = {number: one for number, one in enumerate(declared) if one.asked and not one.is_punctuated}
        self._closing_points = {
            number: (compiled.index[one.source], compiled.graph.nesting(one.source).domain.minimum())
            for number, one in self._tracked.items()
        }
        self._relevant = {
            number: frozenset(compiled.index[at] for asked in one.asked for at in compiled.reaching(asked))
            for number, one in self._tracked.items()
        }
        self._view = _View(compiled, self._tracked, workers) if worker == TELLER and self._tracked else None
        self._counts: dict[Label, Counts] = {}
        self._here: dict[tuple[int, int, Time], list[Any]] = {}
        """Label and number of the messages that this worker has sent itself in this step, by identity of the label."""
        self._closing: set[Label] = set()
        self._all_closing: set[int] = set()
        self._due: dict[Label, None] = {}
        """Those of which something is to be told, in the order in which they were closed."""
        self._steps_due = 0
        self._ending: list[Ending] = []
        self._finished: list[int] = []
        self._over: set[int] = set()
        self._turns: list[Label] = []
        self._ended: list[tuple[Label, int]] = []
        self._gone: list[Label] = []
        self._all_gone: list[int] = []
        self.heard = 0

    # ------------------------------------------------------------------ what happens on this worker

    def record(self, label: Labels, location: int, time: Time, difference: int) -> None:
        """Take note of a message or token of substreams that has come to be, or is no more."""
        if isinstance(label, MixedLabel):
            if location in self._relevant.get(label.declaration, ()):
                point = location, time
                for key in label.distinct:
                    self._record((label.declaration, key), point, difference)
        elif location in self._relevant.get(label[0], ()):
            self._record(label, (location, time), difference)

    def produce_here(self, label: Labels, location: int, time: Time) -> None:
        """Take note of a message to this worker itself: nothing is counted if it is consumed within the step."""
        place = id(label), location, time
        made = self._here.get(place)
        if made is None:
            self._here[place] = [label, 1]
        else:
            made[1] += 1

    def consume(self, label: Labels, location: int, time: Time) -> None:
        """Take note of a message that was received here."""
        place = id(label), location, time
        made = self._here.get(place)
        if made is None:
            self.record(label, location, time, -1)
        elif made[1] == 1:
            del self._here[place]
        else:
            made[1] -= 1

    def _record_left(self) -> None:
        """Take note of the messages to this worker itself that were not consumed within the step."""
        for (_, location, time), (label, count) in self._here.items():
            self.record(label, location, time, count)
        self._here.clear()

    def _record(self, label: Label, point: tuple[int, Time], difference: int) -> None:
        counts = self._counts.get(label)
        if counts is None:
            counts = self._counts[label] = {}
        now = counts.get(point, 0) + difference
        if now:
            counts[point] = now
        else:
            del counts[point]
            if not counts:
                del self._counts[label]
        if label in self._closing or label[0] in self._all_closing:
            self._due[label] = None

    def close(self, label: Label) -> None:
        """Take note that this worker lets in nothing more of a substream."""
        declaration = label[0]
        if declaration in self._tracked:
            if self._tracked[declaration].is_shared or self._workers == 1:
                self._closing.add(label)
            self._record(label, self._closing_points[declaration], -1)
            self._due.pop(label, None)  # what is left there of an earlier use of the key is no place in the order
            self._due[label] = None
        else:
            self._gone.append(label)

    def end(self, ending: Ending, open_keys: Iterable[Key]) -> None:
        """Take note that no more comes to this worker than what waits there, and that those still open are closed."""
        if ending.declaration in self._tracked:
            for key in open_keys:
                self.close((ending.declaration, key))
            self._ending.append(ending)

    def finish(self, declaration: int, open_keys: Iterable[Key]) -> None:
        """Take note that this worker lets in nothing more of any substream of a declaration, those still open told."""
        if declaration in self._tracked:
            for key in open_keys:
                self.close((declaration, key))
            self._finished.append(declaration)

    # ------------------------------------------------------------------ what is told

    @property
    def is_due(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._due or self._ending or self._finished or (self._view is not None and self._view.has_news))

    @property
    def is_over(self) -> bool:
        """Whether no substream is left, and none can come, as far as this worker has heard."""
        return len(self._over) == len(self._tracked)

    def commit(self, *, out_of_work: bool) -> dict[int, SubstreamNews]:
        """End a step: return what is to be told to whom.

        Args:
            out_of_work: whether the step has left this worker with nothing to do.
        """
        if self._here:
            self._record_left()
        self._steps_due += 1
        mine: SubstreamNews | None = None
        if out_of_work or len(self._due) >= _MOST_DUE or self._steps_due >= _MOST_STEPS:
            self._steps_due = 0
            mine = self._changes()
        if self._view is None:
            return {} if mine is None else {TELLER: mine}
        if mine is not None:
            self._view.take(mine)
        news = self._view.news()
        if news is None:
            return {}
        self._hear(news)
        return dict.fromkeys(range(1, self._workers), news)

    def _changes(self) -> SubstreamNews | None:
        if not self._due and not self._ending and not self._finished:
            return None
        changes = [(label, self._counts.pop(label)) for label in self._due if label in self._counts]
        self._due.clear()
        finished, self._finished = self._finished, []
        ending, self._ending = self._ending, []
        return SubstreamNews(changes, finished, ending=ending) if changes or ending or finished else None

    def receive(self, news: SubstreamNews) -> None:
        """Take in what another worker has told."""
        if self._view is None:
            self._hear(news)
        else:
            self._view.take(news)

    def _hear(self, news: SubstreamNews) -> None:
        """Act on what worker 0 tells everyone."""
        self.heard += 1
        self._closing.update(news.closing)
        self._due.update(dict.fromkeys(label for label in news.closing if label in self._counts))
        if news.all_closing:
            self._all_closing.update(news.all_closing)
            self._due.update(dict.fromkeys(label for label in self._counts if label[0] in self._all_closing))
        self._turns += news.turns
        self._ended += ((label, location) for label, locations in news.ends for location in locations)
        self._closing.difference_update(news.over)
        self._gone += news.over
        self._over.update(news.all_over)
        self._all_gone += news.all_over

    def drain_turns(self) -> list[Label]:
        """Return the substreams that were heard to be closed since the last call, where they are taken in by turns."""
        turns, self._turns = self._turns, []
        return turns

    def drain_ends(self) -> Iterator[tuple[Label, int]]:
        """Yield the ends that were heard of since the last call, as (label, location number)."""
        ended, self._ended = self._ended, []
        yield from ended

    def drain_over(self) -> list[Label]:
        """Return the substreams that were heard to be over since the last call: their keys may be used again."""
        gone, self._gone = self._gone, []
        return gone

    def drain_all_over(self) -> list[int]:
        """Return the declarations heard of since the last call of which no substream is left, or can come."""
        all_gone, self._all_gone = self._all_gone, []
        return all_gone


class _View:
    """What worker 0 knows of all workers."""

    def __init__(self, compiled: CompiledGraph, tracked: dict[int, DeclaredSubstreams], workers: int) -> None:
        self._workers = workers
        self._tracked = tracked
        self._trackers = {
            number: SubstreamTracker(
                compiled,
                Declaration(compiled.index[one.source], workers if one.is_shared else 1),
                one.asked,
                one.ordered,
            )
            for number, one in tracked.items()
        }
        self._finished: dict[int, int] = defaultdict(int)
        self._at_end: dict[int, int] = defaultdict(int)
        """To how many workers no more comes, by declaration, than what waits there."""
        self._waiting: dict[int, Counter[Key]] = defaultdict(Counter)
        """At how many of those something of a key waits."""
        self._told_over: set[int] = set()
        self._closing: list[Label] = []
        self._all_closing: list[int] = []
        self._turns: list[Label] = []
        self._ends: list[tuple[Label, list[int]]] = []
        self._over: list[Label] = []

    @property
    def has_news(self) -> bool:
        return bool(self._closing or self._all_closing or self._turns or self._ends or self._over)

    def take(self, news: SubstreamNews) -> None:
        """Take in what a worker has told, which may be this one."""
        by_declaration: dict[int, list[tuple[Key, Counts]]] = defaultdict(list)
        for (declaration, key), counts in news.changes:
            by_declaration[declaration].append((key, counts))
        for declaration, changes in by_declaration.items():
            tracker = self._trackers[declaration]
            self._end(declaration, tracker.update_keys([(key, counts.items()) for key, counts in changes]))
            if not self._tracked[declaration].is_shared and self._workers > 1:
                self._closing += ((declaration, key) for key, counts in changes if tracker.closing in counts)
        for ending in news.ending:
            self._at_end[ending.declaration] += ending.is_first
            self._waiting[ending.declaration].update(ending.waiting)
            self._waiting[ending.declaration].subtract(ending.done)
        for declaration in news.finished:
            self._finished[declaration] += 1
            if self._finished[declaration] == self._workers:
                self._all_closing.append(declaration)
                self._end(declaration, self._trackers[declaration].finish())
        for declaration in {ending.declaration for ending in news.ending}:
            if self._at_end[declaration] == self._workers and self._finished[declaration] < self._workers:
                self._close_others(declaration)

    def _close_others(self, declaration: int) -> None:
        """Close all substreams for those who let in nothing of them, as no more comes to anyone than what waits."""
        waiting = self._waiting[declaration]
        keys, ends = self._trackers[declaration].close_but({key for key, many in waiting.items() if many})
        self._closing += ((declaration, key) for key in keys)
        self._end(declaration, ends)

    def _end(self, declaration: int, ends: list[SubstreamEnd]) -> None:
        closed = self._trackers[declaration].drain_closed()
        if self._tracked[declaration].turns:
            self._turns += ((declaration, key) for key in closed)
        for key, location in ends:
            label = declaration, key
            if not self._ends or self._ends[-1][0] != label:  # only what comes together, as the order matters
                self._ends.append((label, []))
            self._ends[-1][1].append(location)
        self._over += ((declaration, key) for key in self._trackers[declaration].drain_over())

    def news(self) -> SubstreamNews | None:
        """Return what everyone is to be told; None if there is nothing."""
        if not self.has_news:
            return None
        all_over = [
            declaration
            for declaration, tracker in self._trackers.items()
            if tracker.is_over and declaration not in self._told_over
        ]
        self._told_over.update(all_over)
        news = SubstreamNews(
            closing=self._closing,
            all_closing=self._all_closing,
            turns=self._turns,
            ends=self._ends,
            over=self._over,
            all_over=all_over,
        )
        self._closing, self._all_closing, self._turns, self._ends, self._over = [], [], [], [], []
        return news
