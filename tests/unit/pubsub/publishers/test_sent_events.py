"""Workers and publishers that die at any moment: between them they log everything once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.unit.pubsub.exactly_once.test_journal import INTEGERS, integer_runs
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.journal import Journal, checksum_of
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, decode, place_of
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate, WorkerPosition
from tidewheel.pubsub.publishers.sent_events import SavedEvents, SentEvents


class Log:
    """What is written, of which a crash leaves what was synced and as much more as it likes."""

    def __init__(self) -> None:
        self.records: list[FeedEvent] = []
        self.journal = Journal(INTEGERS)

    def feed(self, message: EncodedMessage) -> None:
        """Do what a pubend does."""
        event, place = decode(message), place_of(message)
        assert isinstance(event, DataMessage | LowerFrontierUpdate)
        if isinstance(event, DataMessage):
            assert place is not None
            if self.journal.data(event.time, place.number, checksum_of(event.payload)):
                self.records.append(event)
            return
        changes = self.journal.frontier(event.updates)
        if changes or self.journal.is_completed:
            if not changes:
                self.journal.complete()
            self.records.append(LowerFrontierUpdate(changes))

    def crash(self, left: int) -> None:
        """Begin again with the first records."""
        del self.records[left:]
        self.journal = Journal(INTEGERS)
        for event in self.records:
            if isinstance(event, DataMessage):
                self.journal.record(event.time, checksum_of(event.payload))
            elif event.updates:
                self.journal.advance(list(event.updates))
            else:
                self.journal.complete()


def events_of(run: list[Any]) -> list[FeedEvent]:
    return [
        DataMessage(event[1], bytes([event[3]]), "pickle", 1) if event[0] == "data" else LowerFrontierUpdate(event[1])
        for event in run
    ]


@given(run=integer_runs(), data=st.data())
def test_everything_is_logged_once(run: list[Any], data: st.DataObject) -> None:
    """The publisher dies, and is sent what was not durable; the worker dies, and sends everything; in any order.

    Or it goes on from a snapshot that was taken at any moment.
    """
    events = events_of(run)
    log, worker = Log(), SentEvents(INTEGERS, keeps_end=True)
    at = fed = 0  # how many events the worker has made, and how many of those that wait it has sent
    durable = 0  # how many records are
    saved, saved_at = worker.saved, 0
    steps = ["make", "make", "sync", "publisher", "worker", "snapshot", "goes back"]
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=60)):
        if step == "make" and at < len(events):
            log.feed(worker.add(events[at]))
            at, fed = at + 1, fed + 1
        elif step == "sync":
            durable = len(log.records)
            told = data.draw(st.integers(0, fed))  # the worker may not hear of all
            worker.durable(told)
            fed -= told
        elif step == "publisher":
            log.crash(data.draw(st.integers(durable, len(log.records))))
            log.journal.begin(worker.position)
            for message in worker.messages():
                log.feed(message)
            fed = worker.waiting
        elif step == "snapshot":
            saved, saved_at = worker.saved, at
        else:
            goes_back = step == "goes back"
            worker, at = SentEvents(INTEGERS, saved if goes_back else None, keeps_end=True), saved_at * goes_back
            log.journal.begin(worker.position)
            for message in worker.messages():
                log.feed(message)
            fed = worker.waiting
    for event in events[at:]:
        log.feed(worker.add(event))
    assert log.records == [*events[:-1], LowerFrontierUpdate([])], "the end is logged once all partitions have it"
    worker.durable(worker.waiting)
    assert (worker.waiting, worker.waiting_bytes, worker.position.events) == (0, 0, len(events) - 1)
    assert (worker.saved.kept, worker.saved.lower) == (events[-1:], []), "a snapshot has it to send again"


def test_what_cannot_be() -> None:
    """More that is durable than was sent; and a log that has less than its worker was told."""
    worker = SentEvents(INTEGERS)
    worker.add(DataMessage(0, b"a", "pickle", 1))
    with raises(ProtocolError):
        worker.durable(2)
    worker.durable(1)
    with raises(ProtocolError):
        Journal(INTEGERS).begin(worker.position)
    with raises(ProtocolError):
        Journal(INTEGERS).begin(WorkerPosition([5], {}))


def test_a_snapshot_without_history_is_refused() -> None:
    """The state would lack what was sent before it; one of a worker that had sent nothing lacks nothing."""
    SentEvents(INTEGERS, SavedEvents(WorkerPosition([0], {}), []), has_history=True)
    with raises(DeliveryError):
        SentEvents(INTEGERS, SavedEvents(WorkerPosition([3], {}, 5), []), has_history=True)
