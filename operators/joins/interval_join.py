"""Interval joins, which pair records with equal keys and nearby event times, over all epochs.

A record is kept until the other side's watermark has passed all its possible partners.

Source: Flink's interval join.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.division import everywhere
from tidewheel.operators.joins.join_keys import Groups, split_off_unmatchable
from tidewheel.operators.joins.record_join import Pair
from tidewheel.operators.joins.unlike_keys import UnlikeKeys
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.windows.event_time import EVENT_TIME, TimedRecord
from tidewheel.operators.windows.watermark import Watermark
from tidewheel.operators.windows.windows import Duration, check_duration
from tidewheel.progress import GraphError
from tidewheel.runtime.worker.operator_context import OperatorContext

_FEW_RECORDS = 1024
"""A side drops records once it keeps more than twice as many as it needs, plus this number."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The distances in time from a record to its partners: from ``lower`` to ``upper``, both included.

    The distance to an earlier partner is negative.
    """

    lower: Duration
    upper: Duration


def make_interval(name: str, within: object, lateness: object) -> Interval:
    """Return the interval; raise GraphError if ``within`` is not an interval, or ``lateness`` does not fit."""
    if not (isinstance(within, tuple) and len(within) == 2):
        raise GraphError(f"operator {name!r}: within is (lower, upper), two distances in time, not {within!r}")
    for end in within:
        check_duration(f"operator {name!r}", "an end of within", end, least="any")
    if lateness is not None:
        check_duration(f"operator {name!r}", "lateness", lateness, least="zero")
    kinds = {type(given).__name__ == "timedelta" for given in (*within, lateness) if given is not None}
    if len(kinds) > 1:
        raise GraphError(
            f"operator {name!r}: within={within!r} and lateness={lateness!r} are all numbers or all timedeltas, as the "
            "difference of two event times is"
        )
    lower, upper = within
    if upper < lower:
        raise GraphError(f"operator {name!r}: within={within!r} has its lower end first")
    return Interval(lower, upper)


@dataclass(slots=True)
class TimedRecords:
    """The records of one side that may still have partners, by key, in order of event time."""

    by_key: Groups
    count: int = field(init=False)
    needed: int = 0

    def __post_init__(self) -> None:
        self.count = sum(map(len, self.by_key.values()))

    def add(self, groups: Groups) -> None:
        for key, added in groups.items():
            known = self.by_key.setdefault(key, [])
            known.extend(added)
            known.sort(key=EVENT_TIME)
            self.count += len(added)

    def drop_before(self, bound: Any, position: Callable[[TimedRecord], Any]) -> None:
        """Drop the records whose ``position`` is less than ``bound``; ``position`` grows with event time.

        Amortised O(log n) for each record.
        """
        if self.count < 2 * self.needed + _FEW_RECORDS:
            return
        for key, known in list(self.by_key.items()):
            del known[: bisect_left(known, bound, key=position)]
            if not known:
                del self.by_key[key]
        self.count = self.needed = sum(map(len, self.by_key.values()))


@dataclass(slots=True)
class Kept:
    """The state of an interval join: for each side the records still needed and the watermark."""

    lefts: Any
    rights: Any
    watermark: Watermark
    other_watermark: Watermark

    def advance(self, latest: list[Batch], other_latest: list[Batch]) -> None:
        """Advance the watermarks by each side's greatest event times in an epoch, on all workers."""
        self.watermark.advance(chain.from_iterable(latest))
        self.other_watermark.advance(chain.from_iterable(other_latest))


@dataclass(frozen=True, slots=True)
class IntervalJoin:
    """Pairs records with event times, epoch by epoch. A new record costs O(log n), with n kept records of its key.

    Its inputs are the left records, the right records, and the greatest event times of left and right on all workers.
    """

    interval: Interval
    lateness: Duration | None

    def keep(self, context: OperatorContext) -> Kept:
        lefts, rights = (TimedRecords(context.keyed_state(name)) for name in ("lefts", "rights"))
        made = everywhere(Watermark.merge)
        names = ("watermark", "other watermark")
        watermarks = [made.state(context, name, lambda: Watermark(self.lateness)) for name in names]
        return Kept(lefts, rights, *watermarks)

    def process(self, kept: Kept, batches: list[list[Batch]], token: object) -> Sequence[list[Batch]]:
        new_lefts, late = _in_time(batches[0], kept.watermark.value)
        new_rights, other_late = _in_time(batches[1], kept.other_watermark.value)
        found = self._with_lefts(kept.lefts.by_key, new_rights)
        kept.rights.add(new_rights)
        found += self._with_rights(new_lefts, kept.rights.by_key)
        kept.lefts.add(new_lefts)
        kept.advance(*batches[2:])
        if kept.other_watermark.value is not None:
            kept.lefts.drop_before(kept.other_watermark.value, self._shifts[1])
        if kept.watermark.value is not None:
            kept.rights.drop_before(kept.watermark.value + self.interval.lower, EVENT_TIME)
        return [found], [late], [other_late]

    @staticmethod
    def compare_keys(kept: Kept, unlike_keys: UnlikeKeys) -> None:
        unlike_keys.compare(kept.lefts.by_key, kept.rights.by_key)

    def _with_rights(self, new: Groups, kept: Groups) -> list[Pair]:
        lower, upper = self.interval.lower, self.interval.upper
        found: list[Pair] = []
        for key, entries in new.items():
            known = kept.get(key, ())
            for _, at, record in entries:
                first = bisect_left(known, at + lower, key=EVENT_TIME)
                last = bisect_right(known, at + upper, key=EVENT_TIME)
                found += [(record, partner) for _, _, partner in known[first:last]]
        return found

    def _with_lefts(self, kept: Groups, new: Groups) -> list[Pair]:
        lower, upper = self._shifts
        found: list[Pair] = []
        for key, entries in new.items():
            known = kept.get(key, ())
            for _, at, record in entries:
                first, last = bisect_left(known, at, key=upper), bisect_right(known, at, key=lower)
                found += [(partner, record) for _, _, partner in known[first:last]]
        return found

    @property
    def _shifts(self) -> tuple[Callable[[TimedRecord], Any], Callable[[TimedRecord], Any]]:
        lower, upper = self.interval.lower, self.interval.upper
        return lambda timed: timed[1] + lower, lambda timed: timed[1] + upper


def _in_time(batches: list[list[TimedRecord]], watermark: Any) -> tuple[Groups, list[Any]]:
    """Return the records that are not late, by key, without keys that match nothing; and the late records."""
    timed = list(chain.from_iterable(batches))
    late: list[Any] = []
    if watermark is not None:
        late = [record for _, at, record in timed if at < watermark]
    if late:
        timed = [entry for entry in timed if entry[1] >= watermark]
    groups = Keys(itemgetter(0)).grouped(timed)
    split_off_unmatchable(groups)
    return groups, late
