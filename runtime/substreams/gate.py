"""The gate of one worker, where records get the key of their substream. It knows open and ended keys.

Invariants:

- No record of a substream passes after the substream was closed here.
- A reused key is a new substream, which waits until the earlier substream is *over*: none of the earlier records can
  reach an operator that reads ends, and all such operators have received the end.
- If the only records left are waiting for their keys, all open substreams are closed. Otherwise the substreams that
  these records wait for might never be over.
- A closed key is remembered until no record of its time can arrive and its substream is over.
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
"""The number of keys that messages to users show."""


@dataclass(slots=True)
class _Closed:
    time: Time
    is_over: bool = False
    """Whether no record or token of the substream can reach an operator that reads ends."""
    is_past: bool = False
    """Whether no more records of this time can arrive."""


@dataclass(slots=True)
class SubstreamGate:
    number: int
    name: str
    is_shared: bool
    domain: TimeDomain
    books: SubstreamBooks
    activate: Callable[[], None]
    _reopened: list[Key] = field(default_factory=list)
    """Keys that records waited for, and that may be used again now."""
    _open: set[Key] = field(default_factory=set)
    _closed: dict[Key, _Closed] = field(default_factory=dict)
    _closed_at: dict[Time, set[Key]] = field(default_factory=dict)
    _ended: set[Key] = field(default_factory=set)
    """Keys that the end of the stream has closed, until they are over."""
    _waiting: set[Key] = field(default_factory=set)
    _told_waiting: dict[Key, None] | None = None
    """The waiting keys as last reported. None until this gate accepts only records that wait here."""
    _is_finished: bool = False
    is_restored: bool = False

    def admit(self, key: Key, time: Time) -> Label | None:
        """Return the label for a key's records at a time.

        None if the records must wait until `take_reopened` has the key.

        Raises:
            TokenError: a substream of the key has ended, and not before this time.
        """
        if key not in self._open and not self._may_open(key, time, "a record"):
            return None
        return self.number, key

    def close(self, keys: Iterable[Key], time: Time) -> list[Key]:
        """Accept no more records of some substreams, which may be new; return the keys that must wait.

        Raises:
            TokenError: a substream has ended already.
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
        """Record that records still wait for a key, which may have become usable meanwhile."""
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
        """Return, in order, the keys that records waited for and that have become usable."""
        reopened, self._reopened = self._reopened, []
        return reopened

    def pass_to(self, may_come: Callable[[Time], bool]) -> None:
        """Forget keys closed at times at which no more records can arrive, if they are over."""
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
        """From now on accept only records that wait here for these keys, and close all open substreams."""
        now, before = dict.fromkeys(waiting), self._told_waiting or {}
        if self._told_waiting is None or self._open or now.keys() != before.keys():
            begun = [key for key in now if key not in before]
            done = [key for key in before if key not in now]
            self.books.end(Ending(self.number, self._told_waiting is None, begun, done), self._open)
            self._ended |= self._open
            self._open = set()
            self._told_waiting = now

    def finish(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self.end(())
            self.books.finish(self.number, self._open)
            self._open = set()

    # ------------------------------------------------------------------ snapshots

    def part(self) -> GatePart:
        """Return what this gate knows, for a snapshot.

        Substreams closed only by the end of the stream count as open.
        """
        closed = [ClosedKey(key, one.time, one.is_over, one.is_past) for key, one in self._closed.items()]
        open_keys = [*self._open, *self._ended]
        return GatePart(self.name, self.number, open_keys, closed, list(self._waiting), list(self._reopened))

    def begin_with(self, part: GatePart) -> None:
        """Continue from what another gate knew, and report its closed keys."""
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
        return len(self._open) + len(self._closed)

    def open_substreams(self) -> OpenSubstreams:
        keys = tuple(short(key) for key in islice(self._open, _SHOWN))
        return OpenSubstreams(self.name, len(self._open), keys, len(self._waiting))
