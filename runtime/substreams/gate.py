"""The gate where records get the key of their substream, on one worker: it knows which keys are open or have ended.

Invariants:

- Nothing of a substream is let in after it was closed here.
- A key whose substream has ended may come again at a later time. That is another substream, and nothing of it is let in
  before the earlier one is over: nothing is left of it that could get to those who are told of ends, and all were.
- Where no more comes than what waits for its key to be over, everything else is closed: what has a key may not be over
  before that.
- A closed key is remembered until no record of its time can come any more, and its substream is over.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from reprlib import repr as short
from typing import NoReturn

from tidewheel.progress import Time, TimeDomain
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.messages.labels import Label
from tidewheel.runtime.messages.news import Ending
from tidewheel.runtime.messages.worker_report import OpenSubstreams
from tidewheel.runtime.substreams.books import SubstreamBooks
from tidewheel.runtime.substreams.substream_part import ClosedKey, GatePart

_SHOWN = 3
"""So many keys are shown to people."""


@dataclass(slots=True)
class _Closed:
    time: Time
    is_over: bool = False
    """Whether nothing is left of it that could get to those who are told of ends."""
    is_past: bool = False
    """Whether no record of its time can come any more."""


@dataclass(slots=True)
class SubstreamGate:
    """One worker's gate of one declaration.

    Attributes:
        number: of the declaration.
        name: of the declaration, for messages.
        is_shared: whether every worker lets in records of each key, or only one.
        domain: the times of the stream.
        books: where it is noted what is closed.
        is_restored: whether it goes on from a snapshot.
    """

    number: int
    name: str
    is_shared: bool
    domain: TimeDomain
    books: SubstreamBooks
    activate: Callable[[], None]
    _reopened: list[Key] = field(default_factory=list)
    """Keys that waited to be used again, and may be now."""
    _open: set[Key] = field(default_factory=set)
    _closed: dict[Key, _Closed] = field(default_factory=dict)
    _closed_at: dict[Time, set[Key]] = field(default_factory=dict)
    _ended: set[Key] = field(default_factory=set)
    """Keys that have ended with the stream, and are not over."""
    _waiting: set[Key] = field(default_factory=set)
    _told_waiting: dict[Key, None] | None = None
    """Once no more comes than what waits here, the keys of which that was told."""
    _is_finished: bool = False
    is_restored: bool = False

    def admit(self, key: Key, time: Time) -> Label | None:
        """Return the label for records of a key at a time; None if they have to wait until `take_reopened` has the key.

        Raises:
            TokenError: the substream has ended at this time, or one that is not before it.
        """
        if key not in self._open and not self._may_open(key, time, "a record"):
            return None
        return self.number, key

    def close(self, keys: Iterable[Key], time: Time) -> list[Key]:
        """Let in nothing more of some substreams, which may have had no record; return those that have to wait.

        Raises:
            TokenError: one has ended already.
        """
        now: dict[Key, None] = {}
        waiting: list[Key] = []
        for key in keys:
            if key in now:
                self._refuse(key, time, time, "an end")
            if key in self._open or self._may_open(key, time, "an end"):
                now[key] = None
            else:
                waiting.append(key)
        if now:
            self._open.difference_update(now)
            self._closed.update((key, _Closed(time)) for key in now)
            self._closed_at.setdefault(time, set()).update(now)
            self.books.close(self.number, now)
        return waiting

    def wait_again(self, key: Key) -> None:
        """Note that something waits for a key, which may be used by now."""
        closed = self._closed.get(key)
        if closed is None or closed.is_over:
            self._reopened.append(key)
        else:
            self._waiting.add(key)

    def _may_open(self, key: Key, time: Time, what: str) -> bool:
        closed = self._closed.get(key)
        if closed is not None:
            if time == closed.time or not self.domain.less_equal(closed.time, time):
                self._refuse(key, time, closed.time, what)
            if not closed.is_over:
                self._waiting.add(key)
                return False
            self._forget(key, closed)
        self._open.add(key)
        return True

    def _refuse(self, key: Key, time: Time, ended_at: Time, what: str) -> NoReturn:
        raise TokenError(
            f"{what} of substream {key!r} of {self.name!r} came at time {time!r}, but that substream has ended at time "
            f"{ended_at!r}. Its source has promised that nothing more would come. The key may be used again at a later "
            "time, and is another substream then"
        )

    def over(self, keys: Collection[Key]) -> None:
        """Note that substreams that were closed are over."""
        self._ended.difference_update(keys)
        for key in keys:
            closed = self._closed.get(key)
            if closed is not None:
                closed.is_over = True
                if closed.is_past:
                    self._forget(key, closed)
            if key in self._waiting:
                self._waiting.discard(key)
                self._reopened.append(key)
        if self._reopened:
            self.activate()

    def take_reopened(self) -> list[Key]:
        """Return the keys that waited to be used again, and may be since the last call, in order."""
        reopened, self._reopened = self._reopened, []
        return reopened

    def pass_to(self, may_come: Callable[[Time], bool]) -> None:
        """Forget what ended at times at which nothing can come any more."""
        for time in [time for time in self._closed_at if not may_come(time)]:
            for key in self._closed_at.pop(time):
                closed = self._closed[key]
                closed.is_past = True
                if closed.is_over:
                    self._forget(key, closed)

    def _forget(self, key: Key, closed: _Closed) -> None:
        del self._closed[key]
        at_that_time = self._closed_at.get(closed.time)
        if at_that_time is not None:
            at_that_time.discard(key)

    def end(self, waiting: Collection[Key]) -> None:
        """Let in nothing more but what waits here, of these keys. Who waits does so for others to end: now they do."""
        now, before = dict.fromkeys(waiting), self._told_waiting or {}
        if self._told_waiting is None or self._open or now.keys() != before.keys():
            begun = [key for key in now if key not in before]
            done = [key for key in before if key not in now]
            self.books.end(Ending(self.number, self._told_waiting is None, begun, done), self._open)
            self._ended |= self._open
            self._open = set()
            self._told_waiting = now

    def finish(self) -> None:
        """Let in nothing more of any substream. Idempotent."""
        if not self._is_finished:
            self._is_finished = True
            self.end(())
            self.books.finish(self.number, self._open)
            self._open = set()

    # ------------------------------------------------------------------ snapshots

    def part(self) -> GatePart:
        """Return what it knows. That nothing more comes it finds out again, so what has ended by that is open."""
        closed = [ClosedKey(key, one.time, one.is_over, one.is_past) for key, one in self._closed.items()]
        open_keys = [*self._open, *self._ended]
        return GatePart(self.name, self.number, open_keys, closed, list(self._waiting), list(self._reopened))

    def begin_with(self, part: GatePart) -> None:
        """Know what a gate did, and tell which keys are closed."""
        self.is_restored = True
        self._open.update(set(part.open).difference(part.over))
        self._waiting.update(part.waiting)
        self._reopened += part.reopened
        for key, time, is_over, is_past in part.closed:
            self._closed[key] = _Closed(time, is_over, is_past)
            if not is_past:
                self._closed_at.setdefault(time, set()).add(key)
        self.over(part.over)
        self.books.close(self.number, [key for key, closed in self._closed.items() if not closed.is_over])

    def __len__(self) -> int:
        """Return how many keys it remembers."""
        return len(self._open) + len(self._closed)

    def open_substreams(self) -> OpenSubstreams:
        """Say which substreams have not ended here."""
        keys = tuple(short(key) for key in islice(self._open, _SHOWN))
        return OpenSubstreams(self.name, len(self._open), keys, len(self._waiting))
