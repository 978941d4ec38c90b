"""One worker's books of substreams: its changes of counts, and which of them other workers must know.

Worker 0 receives the changes of all workers, and tells the others which substreams have ended where. A worker sends all
changes of a substream together, once the substream is about to end, and if possible when the worker is idle. Late news
is safe, since a message is counted until its holder reports otherwise. Counts that have cancelled out are never sent.

Invariants:

- News of a substream has all its changes up to the end of a step. So for each substream, the view of worker 0 is a sum
  of whole steps, in order. Substreams do not depend on each other.
- Changes of a substream that is about to end are sent when a step leaves the worker idle, or after some steps. So every
  end is reported.
- All workers receive worker 0's messages of news in the same order; `heard` counts them. Envelopes carry this count,
  and a worker holds an envelope until its own count is as high. So no record of a reused key overtakes the end of the
  key's earlier substream.

Source: seed "Substream Management", on soft bounds and their traffic; `tidewheel.progress.substream_tracker`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.progress import CompiledGraph, Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.description.declared import DeclaredSubstreams
from tidewheel.runtime.messages.labels import Labels, MixedLabel
from tidewheel.runtime.messages.news import Changes, Counts, Ending, Shape, SubstreamNews
from tidewheel.runtime.substreams.common_view import CommonView

TELLER = 0
"""The worker with a view of all substreams."""

_MOST_DUE = 4096
_MOST_STEPS = 16
"""A busy worker sends its news after this many steps, or once `_MOST_DUE` substreams are about to end."""


@dataclass(slots=True)
class DeclarationBook:
    """One worker's book of one declaration.

    Attributes:
        relevant: the numbers of the locations from which records can reach an operator that reads ends.
        is_shared: whether every worker closes each key, and so knows which substreams are about to end; otherwise
            worker 0 announces them.
    """

    number: int
    relevant: frozenset[int]
    closing_point: tuple[int, Time]
    is_shared: bool
    counts: dict[Key, Counts] = field(default_factory=dict)
    closing: set[Key] = field(default_factory=set)
    due: dict[Key, None] = field(default_factory=dict)
    all_closing: bool = False
    is_over: bool = False

    def record(self, keys: Iterable[Key], point: tuple[int, Time], difference: int) -> None:
        counts, closing, due, all_closing = self.counts, self.closing, self.due, self.all_closing
        for key in keys:
            of_key = counts.get(key)
            if of_key is None:
                counts[key] = {point: difference}
            else:
                now = of_key.get(point, 0) + difference
                if now:
                    of_key[point] = now
                else:
                    del of_key[point]
                    if not of_key:
                        del counts[key]
            if all_closing or key in closing:
                due[key] = None

    def close(self, keys: Collection[Key]) -> None:
        if self.is_shared:
            self.closing.update(keys)
        self.record(keys, self.closing_point, -1)
        due = self.due
        for key in keys:
            due.pop(key, None)  # the place of an earlier use of the key does not count
            due[key] = None

    def begin_closing(self, keys: Iterable[Key]) -> None:
        self.closing.update(keys)
        self.due.update(dict.fromkeys(key for key in keys if key in self.counts))

    def close_all(self) -> None:
        self.all_closing = True
        self.due.update(dict.fromkeys(self.counts))

    def take_changes(self) -> Changes | None:
        keys: list[Key] = []
        which: list[int] = []
        shapes: dict[Shape, int] = {}
        for key in self.due:
            counts = self.counts.pop(key, None)
            if counts is not None:
                keys.append(key)
                which.append(shapes.setdefault(tuple(counts.items()), len(shapes)))
        self.due.clear()
        return Changes(self.number, keys, which, list(shapes)) if keys else None


class SubstreamBooks:
    """The books of one worker.

    Args:
        pass_on: called with worker 0's news, after it is recorded here.

    Attributes:
        heard: how many messages of news this worker has received from worker 0.
        view: on worker 0, the view of all workers, if an operator asks for ends.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        declared: Sequence[DeclaredSubstreams],
        worker: int,
        workers: int,
        pass_on: Callable[[SubstreamNews], None],
        *,
        goes_on: bool = False,
    ) -> None:
        self._workers = workers
        self._pass_on = pass_on
        tracked = {number: one for number, one in enumerate(declared) if one.asked}
        self._books = {
            number: DeclarationBook(
                number,
                frozenset(compiled.index[at] for asked in one.asked for at in compiled.reaching(asked)),
                (compiled.index[one.source], compiled.graph.nesting(one.source).domain.minimum()),
                is_shared=one.is_shared or workers == 1,
            )
            for number, one in tracked.items()
        }
        self.view = CommonView(compiled, tracked, workers, goes_on=goes_on) if worker == TELLER and tracked else None
        self._received: list[SubstreamNews] = []
        """The news of other workers. The view reads it in a step, so that it has nothing to send between steps."""
        self._here: dict[tuple[int, int, Time], list[Any]] = {}
        """By id of the label, location and time: the label, and the number of this step's messages to this worker."""
        self._steps_due = 0
        self._mine = SubstreamNews(is_first=goes_on and bool(tracked))
        """The unsent news for worker 0."""
        self.heard = 0

    # ------------------------------------------------------------------ uses of labels on this worker

    def record(self, label: Labels, location: int, time: Time, difference: int) -> None:
        declaration = label.declaration if isinstance(label, MixedLabel) else label[0]
        book = self._books.get(declaration)
        if book is not None and location in book.relevant:
            keys = label.distinct if isinstance(label, MixedLabel) else label[1:]
            book.record(keys, (location, time), difference)

    def produce_here(self, label: Labels, location: int, time: Time) -> None:
        """Count a message to this worker itself; the count is recorded if no operator receives it within the step."""
        place = id(label), location, time
        made = self._here.get(place)
        if made is None:
            self._here[place] = [label, 1]
        else:
            made[1] += 1

    def consume(self, label: Labels, location: int, time: Time) -> None:
        place = id(label), location, time
        made = self._here.get(place)
        if made is None:
            self.record(label, location, time, -1)
        elif made[1] == 1:
            del self._here[place]
        else:
            made[1] -= 1

    def _record_left(self) -> None:
        for (_, location, time), (label, count) in self._here.items():
            self.record(label, location, time, count)
        self._here.clear()

    def close(self, declaration: int, keys: Collection[Key]) -> None:
        if declaration in self._books:
            self._books[declaration].close(keys)
        else:  # no operator asks for their ends, so they are over
            self._pass_on(SubstreamNews(over={declaration: list(keys)}))

    def end(self, ending: Ending, open_keys: Collection[Key]) -> None:
        """Record that this worker will accept only records that wait here, and close the other substreams."""
        if ending.declaration in self._books:
            self.close(ending.declaration, open_keys)
            self._mine.ending.append(ending)

    def finish(self, declaration: int, open_keys: Collection[Key]) -> None:
        if declaration in self._books:
            self.close(declaration, open_keys)
            self._mine.finished.append(declaration)

    # ------------------------------------------------------------------ news

    @property
    def is_due(self) -> bool:
        mine = self._mine
        if mine.ending or mine.finished or mine.is_first or self._received:
            return True
        return any(book.due for book in self._books.values())

    @property
    def is_over(self) -> bool:
        """True if this worker knows that no substream is left and none can begin."""
        return all(book.is_over for book in self._books.values())

    def commit(self, *, out_of_work: bool) -> dict[int, SubstreamNews]:
        if self._here:
            self._record_left()
        self._steps_due += 1
        mine: SubstreamNews | None = None
        is_due = out_of_work or self._steps_due >= _MOST_STEPS
        if is_due or sum(len(book.due) for book in self._books.values()) >= _MOST_DUE:
            self._steps_due = 0
            mine = self._changes()
        if self.view is None:
            return {} if mine is None else {TELLER: mine}
        received, self._received = self._received, []
        for news_of_other in received:
            self.view.take(news_of_other)
        if mine is not None:
            self.view.take(mine)
        news = self.view.news()
        if news is None:
            return {}
        self._hear(news)
        return dict.fromkeys(range(1, self._workers), news)

    def _changes(self) -> SubstreamNews | None:
        mine = self._mine
        for book in self._books.values():
            if mine.is_first:
                book.due.update(dict.fromkeys(book.counts))
            if book.due and (changes := book.take_changes()):
                mine.changes.append(changes)
        if not (mine.changes or mine.ending or mine.finished or mine.is_first):
            return None
        self._mine = SubstreamNews()
        return mine

    def receive(self, news: SubstreamNews) -> None:
        if self.view is None:
            self._hear(news)
        else:
            self._received.append(news)

    def _hear(self, news: SubstreamNews) -> None:
        self.heard += 1
        books = self._books
        for declaration, keys in news.closing.items():
            books[declaration].begin_closing(keys)
        for declaration in news.all_closing:
            books[declaration].close_all()
        for declaration, keys in news.over.items():
            books[declaration].closing.difference_update(keys)
        for declaration in news.all_over:
            books[declaration].is_over = True
        self._pass_on(news)
