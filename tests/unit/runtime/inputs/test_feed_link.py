"""A feeder's end of the link: statuses arrive as they are sent, errors are told, and waiting ends."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count

import pytest

import tidewheel as tw
from tests.kit.runtime.list_feed import ListFeed
from tests.waiting import eventually
from tidewheel.runtime.inputs.feed import Admission
from tidewheel.runtime.inputs.feed_link import FeedAddress, FeedLink, LinkEnds
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.messages.feeder_status import FeederStatus, Phase, WorkerStatus
from tidewheel.runtime.messages.questions import Question
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.transport.link import PeerLost, Sender
from tidewheel.transport.ray_link import CallReceiver

DEADLINE_S = 30.0
NUMBER = -7


class Workers(Sender[Envelope]):
    """Two workers that answer each status; ``steps`` is how many steps each says that it has taken."""

    def __init__(self) -> None:
        self.receiver = CallReceiver[Envelope]()
        self.sent: list[tuple[int, Envelope]] = []
        self.steps: list[int | None] = [3, None]
        self.silent: set[int] = set()
        self.failure: Exception | None = None
        self.is_closed = False
        self._told = 0

    def tell(self, worker: int, status: WorkerStatus, number: int | None = None) -> None:
        """Send the feeder a status."""
        self._told += 1
        self.receiver.deliver(Envelope(worker, 0, self._told if number is None else number, status=status))

    def send(self, peer: int, item: Envelope) -> int:
        self.sent.append((peer, item))
        if isinstance(item.status, FeederStatus) and peer not in self.silent:
            self.tell(peer, WorkerStatus(Phase.RUNNING, heard=item.sequence + 1, steps=self.steps[peer]))
        return 0

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self, linger_s: float = 0.0) -> None:
        self.is_closed = True


class OwnFeed(ListFeed):
    """A feeder that is linked to two workers of the test."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(2)
        self.number = NUMBER
        self.lost: list[Exception] = []
        address = FeedAddress("job", [None, None], None, {}, {}, tw.RuntimeConfig())
        self.link = FeedLink(self, address, LinkEnds(workers, workers.receiver), threading.Condition())

    def check_alive(self) -> None:
        if self.lost:
            raise self.lost[0]

    def send(self, worker: int, envelope: Envelope) -> int:
        size = self.link.send(worker, envelope)
        self.note_sent(worker, envelope)
        return size

    def tell(self, worker: int) -> None:
        with self.lock:
            if not self.link.is_closed:
                self.send(worker, self.envelope(worker, status=FeederStatus(None)))

    def lose(self, error: Exception) -> None:
        self.lost.append(error)
        self.link.is_closed = True

    def written(self, part: WrittenPart) -> None:
        raise NotImplementedError

    def snapshot_begun(self, number: int) -> None:
        """Take part in no snapshot."""

    def look(self) -> None:
        """Do nothing."""

    def go_on(self) -> None:
        """Do nothing."""

    def disconnected(self) -> None:
        """Do nothing."""


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def feed(workers: Workers) -> Iterator[OwnFeed]:
    feed = OwnFeed(workers)
    with closing(feed.link):
        yield feed


def soon() -> float:
    return time.monotonic() + DEADLINE_S


def never() -> bool:
    return False


def test_the_newest_status_of_each_worker_counts(feed: OwnFeed, workers: Workers) -> None:
    """Small envelopes may overtake others: one that is older than the last changes nothing."""
    feed.link.join(soon())
    newest = WorkerStatus(Phase.RUNNING, {"done": (3,)}, taken=10)
    workers.tell(1, newest, number=9)
    workers.tell(1, WorkerStatus(Phase.RUNNING), number=8)
    workers.tell(0, WorkerStatus(Phase.COMPLETE))
    assert eventually(lambda: feed.link.statuses[0].phase is Phase.COMPLETE)
    assert feed.link.statuses[1] == newest


def test_a_worker_that_does_not_answer_is_named(feed: OwnFeed, workers: Workers) -> None:
    """Deploying fails in time, and can be cleaned up."""
    workers.silent = {1}
    with pytest.raises(tw.JobError, match="nothing came from worker 1: can the nodes reach each other"):
        feed.link.join(time.monotonic() + 0.2)


@pytest.mark.parametrize(
    "breaks",
    [
        lambda workers: workers.tell(1, WorkerStatus(Phase.FAILED, failure=tw.JobError("out of order"))),
        lambda workers: setattr(workers, "failure", RuntimeError("out of order")),
        lambda workers: setattr(workers.receiver, "receive", None),
    ],
)
def test_what_goes_wrong_is_told(feed: OwnFeed, workers: Workers, breaks: Callable[[Workers], None]) -> None:
    """A worker that fails, a link that breaks, or what cannot be read: the thread does not end in silence."""
    feed.link.join(soon())
    breaks(workers)
    workers.receiver.wake()
    assert eventually(lambda: bool(feed.lost))
    assert isinstance(feed.lost[0], tw.JobError)
    with pytest.raises(tw.JobError):
        feed.link.wait(never, None)
    assert eventually(lambda: workers.is_closed)


def test_a_worker_that_fails_and_goes_is_heard(
    feed: OwnFeed, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last status says why; that its connection has broken does not, though it is noticed first."""
    failure = tw.JobError("an operator has failed")

    def tell_and_break() -> None:
        workers.tell(1, WorkerStatus(Phase.FAILED, failure=failure))
        raise PeerLost("the connection to worker 1 has broken")

    monkeypatch.setattr(workers, "check", tell_and_break)
    feed.link.join()
    assert eventually(lambda: bool(feed.lost))
    assert feed.lost[0] is failure


def test_closing_ends_the_thread(feed: OwnFeed, workers: Workers) -> None:
    """Nothing listens any more after close, and closing twice does nothing."""
    feed.link.join(soon())
    feed.link.close()
    feed.link.close()
    assert not feed.link._thread.is_alive()
    assert workers.is_closed


def test_waiting_ends_when_there_is_room(feed: OwnFeed, workers: Workers) -> None:
    """A status that changes something is looked at when it comes."""
    feed.link.join(soon())
    waited = threading.Thread(target=lambda: workers.tell(0, WorkerStatus(Phase.RUNNING, taken=5)), daemon=True)

    def has_room() -> bool:
        if waited.ident is None:
            waited.start()
        return feed.link.statuses[0].taken == 5

    assert feed.link.wait(has_room, DEADLINE_S) is Admission.ROOM


def test_waiting_ends_in_time(feed: OwnFeed) -> None:
    """At once if there is no time to wait."""
    feed.link.join(soon())
    assert feed.link.wait(never, 0) is Admission.TIMED_OUT
    assert feed.link.wait(never, 0.3) is Admission.TIMED_OUT


def test_who_waits_for_workers_at_rest_is_let_in(feed: OwnFeed, workers: Workers) -> None:
    """They have to say so twice, with no step in between; not one that has something to do, or does not answer."""
    feed.link.join(soon())
    assert feed.link.wait(never, 1.0) is Admission.TIMED_OUT
    workers.steps = [3, 5]
    workers.silent = {0}
    assert feed.link.wait(never, 1.0) is Admission.TIMED_OUT
    workers.silent = set()
    assert feed.link.wait(never, None) is Admission.LET_IN


def test_questions_do_not_keep_workers_from_rest(feed: OwnFeed, workers: Workers) -> None:
    """One that is always under way neither, as no step answers it."""
    feed.link.join(soon())
    workers.steps = [3, 5]
    numbers = count()

    def ask() -> bool:
        feed.questions.ask(0, Question(next(numbers), 0, ["a"]))
        return False

    assert feed.link.wait(ask, 10.0) is Admission.LET_IN


def test_what_cannot_be_sent_leaves_no_gap(feed: OwnFeed, workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Envelopes to each worker are numbered without a gap, so the job goes on."""
    feed.link.join(soon())

    def refuse(peer: int, item: Envelope) -> None:
        raise TypeError("it stays here")

    with monkeypatch.context() as broken:
        broken.setattr(workers, "send", refuse)
        with pytest.raises(tw.JobError, match=r"a batch cannot be pickled, so it was not sent: .*it stays here"):
            feed.submit(1, InputCommand("numbers", "send", 0, [1]))
    feed.submit(1, InputCommand("numbers", "send", 0, [2]))
    assert [(peer, envelope.sequence) for peer, envelope in workers.sent] == [(0, 0), (1, 0), (1, 1)]
