"""The rule by which substreams end by themselves, when nothing of one happens for some time, and their deadlines.

A heap has one entry for each substream, by the deadline that it had when it was entered or last looked at; one that has
been put off since is found there too early, and put back. So a record that puts off a deadline costs no more than a
look at it, however many substreams are open.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from tidewheel.operators.keys.columns import check_names
from tidewheel.operators.windows.watermark import At
from tidewheel.operators.windows.windows import Duration, EventTime, check_alike, check_duration
from tidewheel.progress import GraphError
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.description.shards import owners_of

if TYPE_CHECKING:
    import pyarrow as pa


_FEW_ENTRIES = 64
"""So many are kept of substreams that have ended by something else, without looking for them."""


@dataclass(frozen=True, slots=True)
class TimeOut:
    """When a substream ends by itself.

    Attributes:
        at: how the event time of a record is found.
        timeout: how long nothing of a substream happens when it is over.
        lateness: how far the watermark lies behind the greatest event time; None: not at all.
    """

    at: At
    timeout: Duration
    lateness: Duration | None

    def deadline(self, key: Any, latest: EventTime) -> EventTime:
        """Return at which watermark a substream ends, given when the latest of its records happened.

        Raises:
            ValueError: there is no such time.
        """
        try:
            return latest + self.timeout
        except OverflowError as error:
            raise ValueError(
                f"the event time of a record of substream {key!r} is {latest!r}: there is no time {self.timeout!r} "
                "after that"
            ) from error


def make_time_out(
    what: str, schema: "pa.Schema | None", at: Any, timeout: Any, lateness: Any, *, by_name: bool
) -> TimeOut | None:
    """Return the rule that is given by these arguments of ``substreams``, None if none is.

    ``by_name`` says whether substreams have predicates instead of keys.

    Raises:
        GraphError: they do not go together, or are no such things.
    """
    if at is None and timeout is None:
        if lateness is not None:
            raise GraphError(f"{what}: lateness is that of a time-out: give at and timeout, too")
        return None
    if at is None or timeout is None:
        raise GraphError(
            f"{what}: a substream ends by itself when nothing of it has happened for some time. Give both at, when a "
            "record happened, and timeout, for how long"
        )
    if by_name:
        raise GraphError(
            f"{what}: predicates name substreams that are there from beginning to end, so they have no time-out: "
            "give a key instead"
        )
    if isinstance(at, str):
        check_names(what, schema, [at])
    elif not callable(at):
        raise GraphError(f"{what}: at is a function of a record, or the name of a column, not {at!r}")
    check_duration(what, "timeout", timeout)
    if lateness is not None:
        check_duration(what, "lateness", lateness, least="zero")
        check_alike(what, "lateness", lateness, timeout)
    return TimeOut(at, timeout, lateness)


class Deadlines:
    """The event time at which each substream ends unless more of it comes, for those that are open.

    >>> deadlines = Deadlines()
    >>> deadlines.put_off("a", 5)
    >>> deadlines.put_off("b", 7)
    >>> deadlines.put_off("a", 9)
    >>> deadlines.take_past(8), deadlines.of("a")
    (['b'], 9)
    """

    __slots__ = ("_by_key", "_heap", "_opened")

    def __init__(self) -> None:
        self._by_key: dict[Key, EventTime] = {}
        self._heap: list[tuple[EventTime, int, Key]] = []
        """With numbers that go up, for those that are equal; there may be several entries of a key that was dropped."""
        self._opened = 0

    def of(self, key: Key) -> EventTime | None:
        """Return that of a key; None if it has none."""
        return self._by_key.get(key)

    def put_off(self, key: Key, deadline: EventTime) -> None:
        """Give a key its deadline, or a later one; an earlier one changes nothing. O(log n) for the first."""
        known = self._by_key.get(key)
        if known is None:
            heappush(self._heap, (deadline, self._opened, key))
            self._opened += 1
        if known is None or known < deadline:
            self._by_key[key] = deadline

    def of_worker(self, worker: int, workers: int) -> "Deadlines":
        """Return those of the keys that a worker owns."""
        made = Deadlines()
        for (key, deadline), owner in zip(self._by_key.items(), owners_of(list(self._by_key), workers), strict=True):
            if owner == worker:
                made.put_off(key, deadline)
        return made

    def add(self, other: "Deadlines") -> None:
        """Add those of other keys."""
        for key, deadline in other._by_key.items():
            self.put_off(key, deadline)

    def drop(self, key: Key) -> None:
        """Forget a key, whose substream has ended by something else. O(1), but for some that tidy up."""
        if self._by_key.pop(key, None) is not None:
            self._tidy_up()

    def take_past(self, watermark: EventTime) -> list[Key]:
        """Forget the keys whose deadlines are at ``watermark`` or before, and return them, the first first.

        O(log n) for each of them, and for each that was put off since it was last looked at.
        """
        past: list[tuple[Any, ...]] = []
        while self._heap and self._heap[0][0] <= watermark:
            _, number, key = heappop(self._heap)
            deadline = self._by_key.get(key)
            if deadline is not None and deadline > watermark:
                heappush(self._heap, (deadline, number, key))
            elif deadline is not None:
                del self._by_key[key]
                past.append((deadline, number, key))
        self._tidy_up()
        past.sort()
        return [key for _, _, key in past]

    def _tidy_up(self) -> None:
        """Keep the heap short, whose entries may be of what was dropped."""
        if len(self._heap) > 2 * len(self._by_key) + _FEW_ENTRIES:
            self._heap = [(deadline, number, key) for number, (key, deadline) in enumerate(self._by_key.items())]
            heapify(self._heap)
