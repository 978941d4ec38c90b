"""The operators that divide a stream into substreams which end by a time-out.

As for windows they are two. The first, behind the exchange by key, reads the event times, passes the batches on to the
second on its worker, and tells the second on all workers the greatest time that it has read, at the epoch of those
records. So when an epoch is complete all workers have the same watermark. The second keeps the batches of an epoch
until then, divides them, and ends what the watermark has got past. A record too far ahead of the clock moves no
watermark, and is taken for one that happened at the greatest event time so far.

A key has one substream in an epoch, as its next one waits for this one to be over, for which somebody may wait until
the epoch is complete. So where one ends and the next begins is decided for all of its records in an epoch together.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch, scatter
from tidewheel.operators.base.division import Division
from tidewheel.operators.keys.record_keys import as_key, as_portable_key
from tidewheel.operators.substreams.labeller import Labeller, SubstreamKeys, mark_runs, portable_keys
from tidewheel.operators.substreams.time_out import Deadlines, TimeOut
from tidewheel.operators.windows.ahead import AheadLimit
from tidewheel.operators.windows.event_time import EventTimeReader
from tidewheel.operators.windows.watermark import EpochWatermark, LatestTimes, Watermark, latest_of
from tidewheel.operators.windows.windows import EventTime
from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, TimestampToken
from tidewheel.runtime.description.shards import owner_of, owners_of
from tidewheel.runtime.messages.labels import EndOfSubstream


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """A batch of records, the keys of their substreams, and when each happened."""

    batch: Batch
    keys: list[Key]
    times: list[EventTime]


Entry: TypeAlias = TimedBatch | EndOfSubstream
"""One entry of the input of the dividing operator, in order: a batch of records, or the mark of an end."""


def build_timed(how: SubstreamKeys, rule: TimeOut, limit: AheadLimit) -> Build:
    """Return the build function of the operator that reads event times, and tells all the greatest of those at hand.

    Those too far ahead are not told, and become the latest time that is not.
    """
    reader = EventTimeReader(how.keys, rule.at, rule.timeout)

    def schedule(input: InputPort, timed: OutputPort, latest: OutputPort) -> None:
        greatest = LatestTimes()
        for lent, batch in input:
            for are_marks, run in mark_runs(batch):
                if are_marks:
                    timed.send(lent, run)
                else:
                    keys, times = reader.columns(run)
                    latest_allowed = limit.latest(times[0])
                    if latest_allowed is not None and latest_of(times) > latest_allowed:
                        told = [at for at in times if at <= latest_allowed]
                        times = [min(at, latest_allowed) for at in times]
                    else:
                        told = times
                    timed.send(lent, [TimedBatch(run, portable_keys(keys), times)])
                    if told:
                        greatest.add(lent, told)
        greatest.send(latest)

    return lambda context: schedule


def build_time_out(how: SubstreamKeys, rule: TimeOut) -> Build:
    """Return the build function of the operator that divides what was timed, and ends what has timed out."""
    return lambda context: _Share(context, how, rule).schedule


@dataclass(slots=True)
class _Book:
    """What one worker keeps from one call to the next.

    Attributes:
        watermark: of the complete epochs.
        waiting: what has come of epochs that are not complete.
        deadlines: of the substreams that are open.
        epoch: the last that was complete; None before the first.
    """

    watermark: EpochWatermark
    waiting: dict[Time, list[Entry]] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    epoch: Time | None = None

    def split(self, workers: int) -> "list[_Book]":
        """Return what each worker has of it: what is kept by key, and what all know."""
        books = [
            _Book(deepcopy(self.watermark), {}, self.deadlines.of_worker(worker, workers), self.epoch)
            for worker in range(workers)
        ]
        for time, entries in self.waiting.items():
            for entry in entries:
                for worker, part in _by_owner(entry, workers):
                    books[worker].waiting.setdefault(time, []).append(part)
        return books

    def merge(self, other: "_Book") -> "_Book":
        """Return in one what two workers had. Of what all know, one may be behind, and goes on from there."""
        self.watermark.merge(other.watermark)
        for time, entries in other.waiting.items():
            self.waiting.setdefault(time, []).extend(entries)
        self.deadlines.add(other.deadlines)
        if self.epoch is None or other.epoch is None:
            self.epoch = None
        else:
            self.epoch = min(self.epoch, other.epoch)
        return self


def _by_owner(entry: Entry, workers: int) -> Iterable[tuple[int, Entry]]:
    """Yield the parts of an entry, each with the worker that owns its keys."""
    if isinstance(entry, EndOfSubstream):
        yield owner_of(as_portable_key(as_key(entry.key)), workers), entry
        return
    owners = owners_of(entry.keys, workers)
    for worker, batch in enumerate(scatter(entry.batch, owners, workers)):
        if batch is not None:
            places = [place for place, owner in enumerate(owners) if owner == worker]
            yield worker, TimedBatch(batch, [entry.keys[at] for at in places], [entry.times[at] for at in places])


class _Share:
    """One worker's share of the operator that divides."""

    def __init__(self, context: OperatorContext, how: SubstreamKeys, rule: TimeOut) -> None:
        self._rule = rule
        self._book: _Book = Division(_Book.split, _Book.merge).state(
            context, "book", lambda: _Book(EpochWatermark(Watermark(rule.lateness)))
        )
        self._complete = context.notificator()
        self._labeller = Labeller(context, how)

    def schedule(self, timed: InputPort, latest: InputPort, output: OutputPort) -> None:
        """Take in records, marks and greatest times, and divide the epochs that are complete."""
        book, labeller = self._book, self._labeller
        labeller.go_on(output)
        for lent, entries in timed:
            book.waiting.setdefault(lent.time, []).extend(entries)
            self._complete.notify_at(lent)
        for lent, told in latest:
            book.watermark.hear(lent.time, told)
            self._complete.notify_at(lent)
        for token in self._complete.ready(timed, latest):
            self._divide(output, token)
        has_ended = not len(timed.frontier) and not len(latest.frontier)
        labeller.pass_to(timed.frontier.less_equal, has_ended=has_ended)
        if has_ended and not labeller.waiting:
            book.deadlines = Deadlines()

    def _divide(self, output: OutputPort, token: TimestampToken) -> None:
        """Divide an epoch that is complete, and end what the watermark has got past with it."""
        book, labeller = self._book, self._labeller
        entries = book.waiting.pop(token.time, [])
        book.watermark.complete(token.time)
        batches = [entry for entry in entries if isinstance(entry, TimedBatch)]
        latest = _latest(batches, book.watermark.latest)
        self._end_before(output, token, batches, latest)
        for entry in entries:
            if isinstance(entry, TimedBatch):
                labeller.send_with_keys(output, token, entry.batch, entry.keys)
            else:
                labeller.end(output, token, [entry.key])
        self._put_off(latest)
        self._drop_ended(entry.key for entry in entries if isinstance(entry, EndOfSubstream))
        if book.watermark.value is not None:
            labeller.end(output, token, book.deadlines.take_past(book.watermark.value))
        book.epoch = token.time

    def _end_before(
        self, output: OutputPort, token: TimestampToken, batches: list[TimedBatch], latest: dict[Key, EventTime]
    ) -> None:
        """End what is over by now and of which the epoch has no record, though it has some with its key.

        It ends at an earlier epoch, so that those records can be of the next substream.
        """
        deadlines, watermark = self._book.deadlines, self._book.watermark.value
        if watermark is None:
            return
        over: dict[Key, EventTime] = {}
        for key, at in latest.items():
            deadline = deadlines.of(key)
            if deadline is not None and deadline <= watermark and deadline <= at:
                over[key] = deadline
        if not over:
            return
        for batch in batches:
            for key, at in zip(batch.keys, batch.times, strict=True):
                if key in over and at < over[key]:
                    del over[key]
        for key in over:
            deadlines.drop(key)
        first_first = sorted(over, key=over.__getitem__)
        self._labeller.end(output, token, first_first, ended_at=self._book.epoch)

    def _put_off(self, latest: dict[Key, EventTime]) -> None:
        """Put off the deadlines of substreams, of which these are the latest records in an epoch."""
        for key, at in latest.items():
            if self._labeller.is_open(key):
                self._book.deadlines.put_off(key, self._rule.deadline(key, at))
            else:
                self._book.deadlines.drop(key)

    def _drop_ended(self, marked: Iterable[Any]) -> None:
        """Forget the deadlines of substreams that marks have ended."""
        for key in map(as_portable_key, map(as_key, marked)):
            if not self._labeller.is_open(key):
                self._book.deadlines.drop(key)


def _latest(batches: list[TimedBatch], greatest: EventTime | None) -> dict[Key, EventTime]:
    """Return when the latest record of each key happened: at the greatest time that was told if it was too far ahead.

    With no such time there were only records that are too far ahead.
    """
    latest: dict[Key, EventTime] = {}
    for batch in batches:
        for key, at in zip(batch.keys, batch.times, strict=True):
            if key not in latest or latest[key] < at:
                latest[key] = at
    return latest if greatest is None else {key: min(at, greatest) for key, at in latest.items()}
