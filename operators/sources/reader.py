"""The operator that reads the partitions dealt to a worker.

Its state is the position of each partition, with the token of its epoch. A batch, its position and its token change in
one step, so each snapshot has all three.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from tidewheel.batches.batches import length
from tidewheel.operators.base.division import Division
from tidewheel.operators.base.setting_aside import Caught
from tidewheel.operators.sources.contract import Fetched, Partition, Source, saves, tells_lag
from tidewheel.operators.sources.dealing import reader_of
from tidewheel.operators.sources.dealt_partition import DealtPartition
from tidewheel.operators.sources.lag_watch import LagWatch
from tidewheel.operators.sources.pace import Pace
from tidewheel.operators.sources.partition_epochs import EpochRule, later
from tidewheel.operators.sources.position_saver import PositionSaver
from tidewheel.operators.sources.readings import EndOfPartition, Readings
from tidewheel.operators.sources.saved_positions import SavedPositions
from tidewheel.operators.sources.source_news import EpochBegan, News, PartitionEnded, news_of
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.messages.connector_numbers import SourceNumbers
from tidewheel.runtime.messages.worker_report import NEXT_SNAPSHOT
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort


@dataclass(slots=True)
class _Dealt:
    """The state of one worker's reader.

    Attributes:
        voice: the token with which the reader sends news.
        unopened: tokens shared by all partitions that are not open yet; they are downgraded to the latest epoch.
        partitions: the partitions dealt to this worker, open or not.
    """

    voice: TokenSet
    unopened: TokenSet = field(default_factory=TokenSet)
    partitions: dict[Partition, DealtPartition] = field(default_factory=dict)

    def split(self, workers: int) -> "list[_Dealt]":
        return [
            _Dealt(
                self.voice,
                self.unopened,
                {name: one for name, one in self.partitions.items() if reader_of(one.number, workers) == n},
            )
            for n in range(workers)
        ]

    def merge(self, other: "_Dealt") -> "_Dealt":
        for token in other.voice:
            self.voice.insert(token)
        for token in other.unopened:
            self.unopened.insert(token)
        return _Dealt(self.voice, self.unopened, self.partitions | other.partitions)


@dataclass(frozen=True, slots=True)
class ReaderBuild:
    """The build function of the reader of a source; ``news`` names the source's `SourceNews` on each worker."""

    is_source: ClassVar[bool] = True

    news: str
    source: Source[Any]
    rule: EpochRule
    paced_by: str | None
    epochs_ahead: int
    caught: Caught = ()

    @property
    def endless(self) -> bool:
        """True if the source has no end."""
        return self.source.endless or self.source.look_every_s is not None

    @property
    def asks_for_ends(self) -> bool:
        """True if positions are saved only when their epoch has been processed."""
        return saves(self.source)

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        return _Reader(context, self).schedule


class _Reader:
    """The operator on one worker."""

    def __init__(self, context: OperatorContext, build: ReaderBuild) -> None:
        self._context = context
        self._source = build.source._on_worker(context, reads=True)
        self._rule = build.rule
        self._host, self._instance = host_of(context), instance_of(context)
        division = Division(_Dealt.split, _Dealt.merge)
        self._state = division.state(context, "partitions", lambda: _Dealt(TokenSet([context.token(1)])))
        self._in_hand: dict[Partition, Fetched[Any]] = {}
        self._unopened = [name for name, one in self._by_number() if one.tokens or not one.is_opened]
        self._open: set[Partition] = set()
        self._pace = self._pace_of(build)
        self._told: Time = None
        self._untold: list[News] = []
        self._waiting = SavedPositions()
        self._saves = saves(self._source)
        self._saving = self._host.saving
        self._saver = PositionSaver(self._source, context.name, context.activator)
        self._readings = Readings(self._source, context.name, context.activator, caught=build.caught)
        self._news = news_of(context, build.news)
        self._news.wake.append(context.activate)
        context.on_close(self._source.close)
        context.on_close(self._saver.close)
        context.on_close(self._readings.close)
        self._records = 0
        self._lags = LagWatch(self._source, context.name) if tells_lag(self._source) else None
        if self._lags is not None:
            context.on_close(self._lags.close)
        self._instance.connector = self._numbers
        if self._saves:
            self._save_again()

    def _pace_of(self, build: ReaderBuild) -> Pace | None:
        if build.paced_by is None:
            self._instance.waits_for = "records of its partitions"
            return None
        pace = Pace(partial(self._context.probe, build.paced_by), build.epochs_ahead)
        self._instance.waits_for = pace.describe(build.paced_by)
        return pace

    def _save_again(self) -> None:
        """Save the positions in the restored snapshot, since the previous run may not have saved them."""
        if self._saving.are_taken:
            self._saving.follow(self._instance.number)
        else:
            self._host.probes.follow_ends(self._instance.number)
        self._saver.save(
            {name: one.position for name, one in self._state.partitions.items() if one.position is not None}
        )

    def _by_number(self) -> list[tuple[Partition, DealtPartition]]:
        return sorted(self._state.partitions.items(), key=lambda item: item[1].number)

    # ------------------------------------------------------------------ a step

    def schedule(self, input: InputPort, output: OutputPort, news: OutputPort) -> None:
        """Send one batch of each partition that has a batch, and move the others to the latest epoch."""
        if not self._state.voice:
            return
        self._take_deals(input, output)
        self._open_partitions()
        latest = self._latest(input)
        is_more = False
        for name in list(self._open):
            is_more |= self._take_step(name, latest, output)
        if self._state.unopened and latest is not None:
            self._state.unopened.downgrade([latest])
        self._tell(news)
        self._save()
        self._end(input)
        if is_more:
            self._context.activate()

    def _take_deals(self, input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            self._state.unopened.insert(lent.retain(output))
            for deal in batch:
                self._state.partitions[deal.partition] = DealtPartition(deal.number)
                self._unopened.append(deal.partition)

    def _open_partitions(self) -> None:
        while self._unopened:
            name = self._unopened[0]
            most = self._source._owner(name).at_a_time
            if most is not None and len(self._open) >= most:
                break
            self._unopened.pop(0)
            dealt = self._state.partitions[name]
            if not dealt.is_opened:
                dealt.tokens, dealt.is_opened = TokenSet([token.clone() for token in self._state.unopened]), True
            self._open.add(name)
            self._readings.begin(name, dealt.position)
        if self._state.unopened and all(self._state.partitions[name].is_opened for name in self._unopened):
            self._state.unopened.discard()

    def _latest(self, input: InputPort) -> Time:
        if self._source.says_epochs:
            return None
        latest = self._news.latest
        for time in input.frontier:
            latest = later(latest, time)
        for time in self._state.unopened.times:
            latest = later(latest, time)
        for one in self._state.partitions.values():
            if one.tokens:
                latest = later(latest, one.epoch)
        return latest

    def _take_step(self, name: Partition, latest: Time, output: OutputPort) -> bool:
        """Send a batch of a partition if there is one and the probe allows it; return whether there is another."""
        dealt = self._state.partitions[name]
        if self._context.is_held:
            self._host.agenda.held.add(self._instance.number)
            return False
        read = self._in_hand.pop(name, None) or self._readings.take(name)
        if isinstance(read, Fetched):
            if self._send(name, dealt, read, latest, output):
                return self._readings.has_more(name)
            self._in_hand[name] = read
        elif isinstance(read, Exception):
            raise read
        elif isinstance(read, EndOfPartition):
            self._close(name, dealt)
            return bool(self._unopened)
        elif latest is not None and dealt.place.may_move:
            dealt.move((latest,))
        return False

    def _send(
        self, name: Partition, dealt: DealtPartition, fetched: Fetched[Any], latest: Time, output: OutputPort
    ) -> bool:
        """Send a batch; return False if the probe does not let the partition begin its epoch yet."""
        if self._source.says_epochs:
            self._instance.work_at(fetched.epoch)
            if not dealt.send_said(fetched, output, self._pace):
                return False
            self._records += length(fetched.batch)
            self._note(name, fetched, fetched.epoch)
            if self._source.look_every_s is not None:
                self._begin(fetched.epoch)
            return True
        records, epoch = length(fetched.batch) + len(fetched.refused), dealt.epoch
        if dealt.place.may_move:
            epoch = later(epoch, latest)
        self._instance.work_at(epoch)
        dealt.move((epoch,))
        if self._pace is not None and records and not self._pace.lets_go_to(epoch, dealt.begun):
            return False
        dealt.send(epoch, fetched, output)
        dealt.position = fetched.position
        self._records += length(fetched.batch)
        self._note(name, fetched, epoch if records or dealt.place.records else epoch - 1)
        if dealt.place.fetched(self._rule, records, is_whole=fetched.is_whole):
            dealt.move((epoch + 1,))
            self._begin(epoch + 1)
        return True

    def _note(self, name: Partition, fetched: Fetched[Any], epoch: Time) -> None:
        """Record a position, with the epoch of the last record before it."""
        if self._saves:
            self._waiting.note(name, self._saving.number if self._saving.are_taken else epoch, fetched.position)

    def _begin(self, epoch: Time) -> None:
        if self._told is None or later(self._told, epoch) != self._told:
            self._told = epoch
            if self._news.hear_of(epoch):
                self._untold.append(EpochBegan(epoch))

    def _close(self, name: Partition, dealt: DealtPartition) -> None:
        dealt.tokens.discard()
        self._open.discard(name)
        self._readings.forget(name)
        self._untold.append(PartitionEnded(name))
        if not (self._saves and dealt.position is not None):
            del self._state.partitions[name]

    def _tell(self, news: OutputPort) -> None:
        if self._told is None and not self._source.says_epochs:
            for one in self._state.partitions.values():
                if one.tokens and one.epoch:
                    self._begin(one.epoch)
        if self._untold:
            (voice,) = self._state.voice
            news.send(voice, self._untold)
            self._untold = []

    def _numbers(self) -> SourceNumbers:
        partitions = self._state.partitions
        there = sum(1 for one in partitions.values() if one.tokens or not one.is_opened)
        positions = {name: partitions[name].position for name in self._open}
        return SourceNumbers(there, self._records, {} if self._lags is None else self._lags.look(positions))

    # ------------------------------------------------------------------ saved positions, and the end

    def _save(self) -> None:
        if not self._saves:
            return
        if self._saver.failure is not None:
            raise self._saver.failure
        saved = self._saving.saved
        may_be = (lambda mark: mark < saved) if self._saving.are_taken else self._host.probes.has_processed
        self._saver.save(self._waiting.take(may_be))
        if self._saver.is_idle:
            unsaved = self._waiting.partitions
            for name, dealt in list(self._state.partitions.items()):
                if dealt.is_opened and not dealt.tokens and name not in unsaved:
                    del self._state.partitions[name]

    def _end(self, input: InputPort) -> None:
        number, has_more = self._instance.number, bool(len(input.frontier))
        if not has_more and not self._state.partitions and self._saver.is_idle:
            self._saving.wait(number, -1, has_ended=True)
            self._state.voice.discard()
            return
        if self._saves and self._saving.are_taken:
            is_last = not has_more and not self._open and not self._unopened
            self._saving.wait(number, self._waiting.latest if is_last else -1, has_ended=is_last)
            if is_last:
                self._instance.waits_for = NEXT_SNAPSHOT
        if any(name not in self._in_hand for name in self._open) or not self._saver.is_idle:
            self._host.agenda.expected[number] = False
