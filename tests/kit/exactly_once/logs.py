"""The log of a partition in memory, with its journal, which dies at any moment."""

from random import Random

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.exactly_once.journal import Journal, LogPlace
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, encode
from tidewheel.pubsub.messages.tick_set import TickSet
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, WentBack
from tidewheel.pubsub.protocol.epochs import EpochStates
from tidewheel.pubsub.publishers.confirmed import Confirmed, Unconfirmed
from tidewheel.pubsub.publishers.epochs_again import EpochsAgain
from tidewheel.pubsub.publishers.partition_log import END, Step, last_messages, new_messages
from tidewheel.pubsub.publishers.sent_events import SentEvents


class Log:
    """One partition: what is logged, the first part of it durable.

    Attributes:
        steps: the messages that it has.
        durable: how many of them are durable.
        journal: the epochs.
        again: complete epochs that come again.
    """

    def __init__(self, domain: TimeDomain, number: int, partitions: int) -> None:
        self._domain, self._number, self._partitions = domain, number, partitions
        self.steps: list[Step] = []
        self.durable = 0
        self.journal = Journal(domain)
        self._unconfirmed = Unconfirmed()
        self.again: EpochsAgain | None = None

    def tick_of(self, index: int) -> int:
        return (index + 1) * self._partitions + self._number

    def begin(self, worker: SentEvents) -> None:
        """Do what a pubend does as a worker connects."""
        assert worker.position.number <= self.tick_of(len(self.steps) - 1)
        self._unconfirmed = Unconfirmed()
        returned = self.journal.begin(worker.position)
        self.again = None
        if returned is not None:
            again = EpochsAgain(self._domain, worker.position, self.tick_of(len(self.steps) - 1) + 1)
            self.again = None if again.have_come else again
            self._log(Step(encode(returned), None, returned))

    def feed(self, message: EncodedMessage) -> None:
        if self.again is not None:
            self.again.receive(message)
        for step in new_messages(self.journal, message):
            self._log(step)
        confirmed = Confirmed(1, 0, self.journal.reached)
        self._unconfirmed.add(len(self.steps), confirmed, is_sure=self.journal.is_sure)

    def _log(self, step: Step) -> None:
        self.steps.append(step)
        step.note(self.journal, self.tick_of(len(self.steps) - 1))

    def confirm(self, worker: SentEvents) -> None:
        """Tell the worker what is durable."""
        confirmed = self._unconfirmed.take(self.durable)
        if confirmed.messages:
            worker.durable(confirmed.messages, confirmed.number)

    def crash(self, random: Random) -> None:
        """Die, with as much in the log as is durable or more, and start again."""
        del self.steps[random.randint(self.durable, len(self.steps)) :]
        self.durable = len(self.steps)
        before = self.journal
        self.journal = Journal(self._domain)
        for at, step in enumerate(self.steps):
            if step.changes is None:
                assert step.checksum is not None
                self.journal.record(step.time, step.checksum)
            elif isinstance(step.changes, WentBack):
                self.journal.go_back(step.changes)
            elif step.changes:
                self.journal.advance(list(step.changes))
            else:
                self.journal.complete()
            step.note(self.journal, self.tick_of(at))
        if random.random() < 0.5:
            self.journal = Journal.restore(self._domain, self.journal.snapshot())
        assert before is not self.journal
        self._unconfirmed = Unconfirmed()
        self.again = None
        if self.journal.has_ended and self.steps[-1].changes:  # which is the last move of the frontier
            self._log(END)

    def place(self) -> LogPlace:
        epochs = self._epochs(self.durable)
        return LogPlace(epochs.has_begun, list(epochs.lower), epochs.generation, epochs.complete, epochs.has_all)

    def conclude(self) -> None:
        """End the partition, as all have everything."""
        for step in last_messages(self.journal):
            self._log(step)
        self.durable = len(self.steps)

    def _epochs(self, count: int) -> EpochStates:
        epochs = EpochStates(self._domain)
        for step in self.steps[:count]:
            step.take(epochs)
        return epochs

    def read(self, first: int, end: int, _: int) -> tuple[list[tuple[int, EncodedMessage]], int]:
        """Do what `PartitionLog.read` does."""
        at = max(0, -(-(first - self._number) // self._partitions) - 1)
        return [(self.tick_of(at), self.steps[at].message)] if self.tick_of(at) < end else [], self.tick_of(at) + 1

    def beginnings(self, _: TimeDomain) -> list[tuple[int, EpochStates]]:
        """Do what `ReplayedLog.beginnings` does: segments have any size, and the first ones are removed at times."""
        random = Random(len(self.steps))
        begin = random.choice((0, 0, random.randint(0, len(self.steps))))
        cuts = sorted({begin, *(random.randint(begin, len(self.steps)) for _ in range(3))}, reverse=True)
        return [(self.tick_of(at - 1) + 1, self._epochs(at)) for at in cuts]

    @property
    def end(self) -> int:
        return self.tick_of(self.durable - 1) + 1 if self.durable else 0

    def frontiers_at(self, tick: int) -> InitialFrontierSnapshot:
        return self._epochs(sum(self.tick_of(at) < tick for at in range(self.durable))).snapshot()

    def knowledge(self, end: int) -> KnowledgeMessage:
        """All that is known up to a tick."""
        data = tuple((self.tick_of(at), step.message) for at, step in enumerate(self.steps[: self.durable]))
        data = tuple((tick, message) for tick, message in data if tick < end)
        final = TickSet([(0, end)])
        for tick, _ in data:
            final.remove(tick, tick + 1)
        return KnowledgeMessage(self._number, final.ranges(), data)
