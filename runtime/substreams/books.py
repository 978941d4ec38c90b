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

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidewheel.progress import CompiledGraph, Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.common_view import CommonView
from tidewheel.runtime.substreams.declaration_book import DeclarationBook
from tidewheel.runtime.substreams.declared_substreams import DeclaredSubstreams
from tidewheel.runtime.substreams.labels import Labels, MixedLabel
from tidewheel.runtime.substreams.news import Ending, SubstreamNews

TELLER = 0
"""The worker that has a view of all substreams."""

_MOST_DUE = 4096
_MOST_STEPS = 16
"""A worker that is never out of work tells when so many substreams are about to end, or after so many steps."""


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
        self._workers = workers
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
        self._view = CommonView(compiled, tracked, workers) if worker == TELLER and tracked else None
        self._here: dict[tuple[int, int, Time], list[Any]] = {}
        """Label and number of the messages that this worker has sent itself in this step, by identity of the label."""
        self._steps_due = 0
        self._ending: list[Ending] = []
        self._finished: list[int] = []
        self._heard: list[SubstreamNews] = []
        """What was heard and not passed on."""
        self._gone: dict[int, list[Key]] = defaultdict(list)
        """Of declarations of which nothing is tracked, what was closed."""
        self.heard = 0

    # ------------------------------------------------------------------ what happens on this worker

    def record(self, label: Labels, location: int, time: Time, difference: int) -> None:
        """Take note of a message or token of substreams that has come to be, or is no more."""
        if isinstance(label, MixedLabel):
            book = self._books.get(label.declaration)
            if book is not None and location in book.relevant:
                book.record(label.distinct, (location, time), difference)
        else:
            declaration, key = label
            book = self._books.get(declaration)
            if book is not None and location in book.relevant:
                book.record((key,), (location, time), difference)

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

    def close(self, declaration: int, keys: Collection[Key]) -> None:
        """Take note that this worker lets in nothing more of some substreams."""
        if declaration in self._books:
            self._books[declaration].close(keys)
        else:
            self._gone[declaration] += keys

    def end(self, ending: Ending, open_keys: Collection[Key]) -> None:
        """Take note that no more comes to this worker than what waits there, and that those still open are closed."""
        if ending.declaration in self._books:
            self.close(ending.declaration, open_keys)
            self._ending.append(ending)

    def finish(self, declaration: int, open_keys: Collection[Key]) -> None:
        """Take note that this worker lets in nothing more of any substream of a declaration, those still open told."""
        if declaration in self._books:
            self.close(declaration, open_keys)
            self._finished.append(declaration)

    # ------------------------------------------------------------------ what is told

    @property
    def is_due(self) -> bool:
        """Whether there is something to tell."""
        if self._ending or self._finished or (self._view is not None and self._view.has_news):
            return True
        return any(book.due for book in self._books.values())

    @property
    def is_over(self) -> bool:
        """Whether no substream is left, and none can come, as far as this worker has heard."""
        return all(book.is_over for book in self._books.values())

    def commit(self, *, out_of_work: bool) -> dict[int, SubstreamNews]:
        """End a step: return what is to be told to whom.

        Args:
            out_of_work: whether the step has left this worker with nothing to do.
        """
        if self._here:
            self._record_left()
        self._steps_due += 1
        mine: SubstreamNews | None = None
        if out_of_work or self._steps_due >= _MOST_STEPS or self._are_many_due:
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

    @property
    def _are_many_due(self) -> bool:
        return sum(len(book.due) for book in self._books.values()) >= _MOST_DUE

    def _changes(self) -> SubstreamNews | None:
        changes = [changes for book in self._books.values() if book.due and (changes := book.take_changes())]
        if not changes and not self._ending and not self._finished:
            return None
        finished, self._finished = self._finished, []
        ending, self._ending = self._ending, []
        return SubstreamNews(changes, finished, ending)

    def receive(self, news: SubstreamNews) -> None:
        """Take in what another worker has told."""
        if self._view is None:
            self._hear(news)
        else:
            self._view.take(news)

    def _hear(self, news: SubstreamNews) -> None:
        """Act on what worker 0 tells everyone."""
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
        self._heard.append(news)

    def drain_heard(self) -> list[SubstreamNews]:
        """Return what worker 0 has told since the last call."""
        heard, self._heard = self._heard, []
        return heard

    def drain_untracked(self) -> Mapping[int, list[Key]]:
        """Return the substreams that were closed since the last call, by declaration, where nothing is tracked."""
        gone, self._gone = self._gone, defaultdict(list)
        return gone
