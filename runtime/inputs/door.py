"""The door of an inbox on one worker: other processes leave postings there for the dataflow; no I/O.

A posting is accepted whole or not at all. It counts as sent once the door has it, and as saved once a snapshot has it.
The reader reports saved postings by position: how many a partition has read in all runs.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from tidewheel.batches.batches import Batch, length, pack, size_in_bytes, unpack
from tidewheel.batches.held_bytes import RecordSizes

Form: TypeAlias = Literal["batch", "json", "arrow"]
"""The form of a posting: a batch, lines of JSON, or an Arrow IPC stream."""


class Posting(msgspec.Struct, frozen=True, array_like=True):
    """The records that a process sends in one call.

    Attributes:
        body: a batch or, for the other forms, bytes.
        key: postings with equal keys count once, however often they are sent; with None, each posting counts.
    """

    body: Any
    key: str | None = None
    form: Form = "batch"

    def __reduce__(self) -> tuple[Any, ...]:
        return _posting, (pack(self.body) if self.form == "batch" else self.body, self.key, self.form)


def _posting(packed: Any, key: str | None, form: Form) -> Posting:
    return Posting(unpack(packed) if form == "batch" else packed, key, form)


class Post(msgspec.Struct, frozen=True, array_like=True):
    """An accepted posting, as a record of the dataflow.

    Attributes:
        at_s: when it was accepted, in seconds since 1970.
        route: the key, or a number that belongs to the accepting worker.
    """

    batch: Any
    key: str | None
    at_s: float
    route: str | int

    def __reduce__(self) -> tuple[Any, ...]:
        return _post, (pack(self.batch), self.key, self.at_s, self.route)


def _post(packed: Any, key: str | None, at_s: float, route: str | int) -> Post:
    return Post(unpack(packed), key, at_s, route)


class Full(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The door has no room for the posting now; try again later."""


class Wrong(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The inbox does not accept such a posting, for ``reason``."""

    reason: str


Outcome: TypeAlias = int | Full | Wrong
"""The result of leaving a posting: its number at the door if it was accepted."""


class Door:
    """The postings that wait at one worker until its dataflow reads them; thread-safe.

    Args:
        decode: returns the batch of a posting; raises an error if the inbox does not accept such a posting.
        route: the route of postings without a key.
        capacity_bytes: how many bytes may wait; a larger posting is accepted alone.
        clock: returns the seconds since 1970.

    >>> door = Door(lambda posting: posting.body, 0, 1000)
    >>> door.leave([Posting(["tide"]), Posting([7] * 1000), Posting(["wheel"])])
    [1, Full(), Full()]
    >>> door.begin_at(40)
    >>> [post.batch for post in door.take(0)], door.position
    ([['tide']], 41)
    >>> door.note_saved(41)
    >>> door.saved
    1
    """

    def __init__(
        self,
        decode: Callable[[Posting], Batch],
        route: int,
        capacity_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._decode = decode
        self._route = route
        self._capacity_bytes = capacity_bytes
        self._clock = clock
        self._sizes = RecordSizes()
        self._changed = threading.Condition()
        self._waiting: deque[Post] = deque()
        self._waiting_bytes = 0
        self._accepted = 0
        self._begun_at: int | None = None
        self._is_closed = False
        self.position = 0
        """The reader's position: how many postings it has taken in all runs."""
        self.saved = 0
        """How many accepted postings a snapshot has. In a job without snapshots: how many are processed."""

    def leave(self, postings: Sequence[Posting]) -> list[Outcome]:
        """Accept postings in order while there is room, without waiting."""
        tried = postings[: self._fitting(postings)]
        decoded = [self._decoded(posting) for posting in tried]
        outcomes: list[Outcome] = []
        with self._changed:
            is_full = self._is_closed
            for posting, batch in zip(tried, decoded, strict=True):
                if isinstance(batch, Wrong):
                    outcomes.append(batch)
                    continue
                rows = length(batch)
                size = max(rows, size_in_bytes(batch, self._sizes)) if rows else 0
                is_full |= bool(self._waiting) and self._waiting_bytes + size > self._capacity_bytes
                if is_full:
                    outcomes.append(Full())
                    continue
                route = self._route if posting.key is None else posting.key
                self._waiting.append(Post(batch, posting.key, self._clock(), route))
                self._waiting_bytes += size
                self._accepted += 1
                outcomes.append(self._accepted)
            self._changed.notify_all()
        return outcomes + [Full()] * (len(postings) - len(tried))

    def _fitting(self, postings: Sequence[Posting]) -> int:
        """Return how many postings to decode: the next one has more bytes than there is room."""
        with self._changed:
            if self._is_closed:
                return 0
            room = self._capacity_bytes - self._waiting_bytes if self._waiting else None
        sizes = [0 if posting.form == "batch" else len(posting.body) for posting in postings]
        return next((place for place, size in enumerate(sizes) if room is not None and size > room), len(sizes))

    def _decoded(self, posting: Posting) -> Batch | Wrong:
        try:
            return self._decode(posting)
        except (TypeError, ValueError) as error:
            return Wrong(str(error))
        except Exception as error:  # noqa: BLE001  from a user's class; the other postings come from other senders
            return Wrong(f"{type(error).__name__}: {error}")

    # ------------------------------------------------------------------ for the reader

    def begin_at(self, position: int) -> None:
        """Record the position at which the reader continues."""
        with self._changed:
            self._begun_at = self.position = position

    def take(self, timeout_s: float) -> list[Post]:
        """Return the waiting postings as soon as there are any.

        An empty list after ``timeout_s`` seconds, or once closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed, timeout_s)
            posts = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            self.position += len(posts)
            return posts

    def note_saved(self, position: int) -> None:
        """Record that no run will read postings before a position again."""
        with self._changed:
            if self._begun_at is not None:
                self.saved = max(self.saved, position - self._begun_at)

    def close(self) -> None:
        """Accept nothing more: the job has ended here."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
