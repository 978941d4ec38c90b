"""The book that one worker keeps of the substreams of one declaration."""

from collections.abc import Collection, Iterable

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.news import Changes, Counts, Shape


class DeclarationBook:
    """One worker's book of one declaration.

    Args:
        number: of the declaration.
        relevant: the numbers of the locations from which something may get to those who are told of ends.
        closing_point: where those who will not send at a key any more take a count of it away.
        is_shared: whether every worker closes each key, so that it knows which are about to end; if only one does,
            worker 0 tells the others.

    Attributes:
        relevant: as given.
        counts: by key, what is not told yet.
        closing: keys that are about to end.
        due: those of which something is to be told, in the order in which they were closed.
        is_over: whether nothing is left, or can come.
    """

    __slots__ = (
        "_closing_point",
        "_is_shared",
        "_number",
        "all_closing",
        "closing",
        "counts",
        "due",
        "is_over",
        "relevant",
    )

    def __init__(
        self, number: int, relevant: frozenset[int], closing_point: tuple[int, Time], *, is_shared: bool
    ) -> None:
        self._number = number
        self._closing_point = closing_point
        self._is_shared = is_shared
        self.relevant = relevant
        self.counts: dict[Key, Counts] = {}
        self.closing: set[Key] = set()
        self.all_closing = False
        self.due: dict[Key, None] = {}
        self.is_over = False

    def record(self, keys: Iterable[Key], point: tuple[int, Time], difference: int) -> None:
        """Take note of a message or token of some substreams that has come to be, or is no more."""
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
        """Take note that this worker lets in nothing more of some substreams."""
        if self._is_shared:
            self.closing.update(keys)
        self.record(keys, self._closing_point, -1)
        due = self.due
        for key in keys:
            due.pop(key, None)  # what is left there of an earlier use of the key is no place in the order
            due[key] = None

    def begin_closing(self, keys: Iterable[Key]) -> None:
        """Take note that substreams are about to end, so that what has happened to them is to be told."""
        self.closing.update(keys)
        self.due.update(dict.fromkeys(key for key in keys if key in self.counts))

    def close_all(self) -> None:
        """Take note that all substreams are about to end."""
        self.all_closing = True
        self.due.update(dict.fromkeys(self.counts))

    def take_changes(self) -> Changes | None:
        """Return what is to be told, and forget it; None if it is nothing."""
        keys: list[Key] = []
        which: list[int] = []
        shapes: dict[Shape, int] = {}
        for key in self.due:
            counts = self.counts.pop(key, None)
            if counts is not None:
                keys.append(key)
                which.append(shapes.setdefault(tuple(counts.items()), len(shapes)))
        self.due.clear()
        return Changes(self._number, keys, which, list(shapes)) if keys else None
