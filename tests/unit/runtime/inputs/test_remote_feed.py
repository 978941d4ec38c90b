"""The end of the link of a process to which handles were handed: it leaves when they are closed, and not before."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.links.link_kind import Task
from tests.unit.runtime.inputs.test_feed_link import DEADLINE_S, Workers
from tidewheel.progress import IntegerDomain
from tidewheel.runtime.inputs import remote_feed
from tidewheel.runtime.inputs.feed_link import FeedAddress, LinkEnds
from tidewheel.runtime.inputs.feeders import Claim
from tidewheel.runtime.inputs.remote_feed import RemoteFeed
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.feeder_status import FeederStatus, Phase, WorkerStatus
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport

HANDLE = 5
POSITIONS = {"numbers": {HANDLE: tw.types.InputPosition(2)}}


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> RemoteFeed:
    """Return a feed that is linked to two workers of the test, and whose claims are granted."""

    def claim(feed: Any, handle: int, name: str) -> None:
        feed._claimed.add(handle)
        feed._is_member = True

    workers = Workers()
    monkeypatch.setattr(remote_feed, "link_ends", lambda *_: LinkEnds(workers, workers.receiver))
    monkeypatch.setattr(RemoteFeed, "_claim", claim)
    address = FeedAddress("job", [None, None], None, {"numbers": IntegerDomain()}, {}, tw.RuntimeConfig())
    return RemoteFeed(address)


def said(sent: list[tuple[int, Envelope]]) -> list[tuple[int, str]]:
    """Return what each worker was told, but for signs of life."""
    found: list[tuple[int, str]] = [
        (worker, command.action) for worker, envelope in sent for command in envelope.commands
    ]
    for worker, envelope in sent:
        if isinstance(envelope.status, FeederStatus) and envelope.status.is_leaving:
            found.append((worker, "leave"))
    return found


def test_worker_0_is_left_last(feed: RemoteFeed) -> None:
    """It watches over this process until all others have what was sent; closing waits for that."""
    workers: Any = feed._link._ends.sender
    feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 0).close()
    assert said(workers.sent) == [(0, "close"), (1, "close"), (1, "leave"), (0, "leave")]
    assert workers.is_closed
    with raises(tw.JobError):
        feed.check_alive()


def test_it_does_not_leave_before_it_has_said_that_a_handle_is_closed(feed: RemoteFeed) -> None:
    """The thread may look at any moment while a handle is closed: here, after one worker was told of two."""
    workers: Any = feed._link._ends.sender
    handle = feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 0)
    looks: list[Task] = []
    send = workers.send

    def send_and_look(peer: int, item: Envelope) -> int:
        size: int = send(peer, item)
        if item.commands and not looks:
            looks.append(Task(feed.go_on))
            with pytest.raises(AssertionError):
                looks[0].join(0.2)
        return size

    vars(workers)["send"] = send_and_look
    handle.close()
    looks[0].join()
    assert said(workers.sent)[:2] == [(0, "close"), (1, "close")]


def test_worker_0_is_told_nothing_after_the_leave(feed: RemoteFeed) -> None:
    """It has forgotten this process by then and would count no further envelope, so closing would wait for ever."""
    workers: Any = feed._link._ends.sender
    send, is_answered = workers.send, threading.Event()

    def send_and_stay_silent(peer: int, item: Envelope) -> int:
        leaves = isinstance(item.status, FeederStatus) and item.status.is_leaving and peer == 0
        if leaves:
            workers.silent.add(0)
            feed._link._look()  # as the thread does every second; before the answer is there
            feed.tell(0)  # as a wait on another thread does
            workers.tell(0, WorkerStatus(Phase.RUNNING, heard=item.sequence + 1))
            is_answered.set()
        size: int = send(peer, item)
        return size

    vars(workers)["send"] = send_and_stay_silent
    closing = Task(feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 0).close)
    assert is_answered.wait(DEADLINE_S)
    closing.join(DEADLINE_S)
    assert said(workers.sent)[-1] == (0, "leave")
    assert workers.sent[-1][1].status.is_leaving


def test_closing_ends_with_an_error_if_the_workers_do_not_answer(
    feed: RemoteFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that runs an operator for long is waited for; one that has nothing to do should have answered."""
    reports: list[list[WorkerReport | BusyWorker]] = [[BusyWorker(0), BusyWorker(1)], [BusyWorker(0, "slow")]]
    monkeypatch.setattr(remote_feed, "ask_workers", lambda actors, job: reports.pop())
    workers: Any = feed._link._ends.sender
    workers.silent.add(1)
    handle = feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 0)
    object.__setattr__(feed._address, "config", tw.RuntimeConfig(hang_timeout_s=1.0))
    with raises(tw.JobError):
        handle.close()
    assert not reports
    feed._link.close()


def markers(feed: RemoteFeed) -> list[tuple[int, int, Any]]:
    workers: Any = feed._link._ends.sender
    return [(worker, sent.snapshot, sent.marker) for worker, sent in workers.sent if sent.marker is not None]


def test_it_takes_part_in_a_snapshot_that_a_worker_tells_of(feed: RemoteFeed) -> None:
    """All workers are told that it has begun it, and worker 0 where its handles are; what it sends next names it."""
    handle = feed.take_over("numbers", HANDLE, tw.types.InputPosition(2, 3, 4), 0)
    handle.send([1, 2])
    for _ in range(2):
        feed.snapshot_begun(1)
    position = tw.types.InputPosition(2, 4, 6, batches_at_time=1)
    assert markers(feed) == [(0, 1, {"numbers": {HANDLE: position}}), (1, 1, ())]
    handle.send([3])
    workers: Any = feed._link._ends.sender
    assert [sent.snapshot for _, sent in workers.sent if sent.commands] == [0, 1]
    handle.close()
    feed.snapshot_begun(2)
    assert len(markers(feed)) == 2
    assert said(workers.sent)[-2:] == [(1, "leave"), (0, "leave")]


def test_a_handle_is_used_in_the_snapshot_in_which_it_was_handed_over(feed: RemoteFeed) -> None:
    """Or a later one: else a snapshot could have what it has sent, and not the handle."""
    first = feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 3)
    assert (feed.snapshot, markers(feed)) == (3, [])
    first.send([1])
    second = feed.take_over("numbers", HANDLE + 1, tw.types.InputPosition(0), 4)
    assert [number for _, number, _ in markers(feed)] == [4, 4]
    first.close()
    second.close()


class Claims:
    """Worker 0, which grants claims in a snapshot."""

    def __init__(self, snapshot: int) -> None:
        self.claim = SimpleNamespace(remote=lambda *_: Claim(snapshot=snapshot))


@pytest.mark.parametrize(("worker_0_is_in", "told"), [(3, [(0, 4, POSITIONS), (1, 4, ())]), (4, []), (5, [])])
def test_it_joins_in_the_snapshot_that_it_has_heard_of(
    monkeypatch: pytest.MonkeyPatch, worker_0_is_in: int, told: list[Any]
) -> None:
    """Where worker 0 has not begun that, all workers wait for this process in it: so it tells them, before all else."""
    workers = Workers()
    monkeypatch.setattr(remote_feed, "link_ends", lambda *_: LinkEnds(workers, workers.receiver))
    monkeypatch.setattr("ray.get", lambda claim, timeout: claim)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(get_actor_id=lambda: None))
    inputs = {"numbers": IntegerDomain()}
    feed = RemoteFeed(FeedAddress("job", [Claims(worker_0_is_in), None], None, inputs, {}, tw.RuntimeConfig()))
    monkeypatch.setattr(feed._link, "join", lambda: None)  # without the thread, the first use claims
    handle = feed.take_over("numbers", HANDLE, tw.types.InputPosition(2), 3)
    feed.snapshot_begun(4)  # from worker 1
    handle.send([1])
    assert markers(feed) == told
    assert [sent.snapshot for _, sent in workers.sent if sent.commands] == [max(worker_0_is_in, 4)]
    assert workers.sent[-1][1].commands
    feed._link.close()
    handle._ended = "is of no more use"


@pytest.mark.parametrize(("goes_back", "error"), [(True, tw.JobRolledBack), (False, tw.JobError)])
def test_a_lost_link_means_that_the_job_has_ended_or_gone_back(
    feed: RemoteFeed, monkeypatch: pytest.MonkeyPatch, goes_back: bool, error: type[Exception]
) -> None:
    """What it sends next says which; an operator that has failed is the end in any case."""
    monkeypatch.setattr(remote_feed, "has_gone_back", lambda address: True)
    object.__setattr__(feed._address, "goes_back", goes_back)
    handle = feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 0)
    feed.lose(tw.JobError("worker 1 has died", worker=1))
    with raises(error):
        handle.send([1])
    failed = RemoteFeed(feed._address)
    failed.lose(tw.JobError("operator 'map' failed", operator="map"))
    with raises(tw.JobError):
        failed.check_alive()


def test_only_the_driver_knows_when_a_snapshot_is_complete(feed: RemoteFeed) -> None:
    """A process that would wait for one is told so."""
    handle = feed.take_over("numbers", HANDLE, tw.types.InputPosition(0), 0)
    handle.wait_until_saved()
    object.__setattr__(feed._address, "keeps_snapshots", True)
    with raises(tw.JobError):
        handle.wait_until_saved()
    handle.close()
