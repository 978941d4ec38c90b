"""The thread that runs a worker: what it reports, when it wakes, and how it ends."""

import logging
import pickle
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import cloudpickle
import pytest

import tidewheel as tw
from tests.kit.runtime.one_operator import flow_of, ignore, scheduled
from tests.waiting import eventually
from tidewheel.runtime.description.dataflow_description import description_of
from tidewheel.runtime.inputs.feeders import Claim
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope, InputCommand
from tidewheel.runtime.messages.feeder_status import FeederName, FeederStatus, Phase, WorkerStatus
from tidewheel.runtime.messages.worker_report import WorkerReport
from tidewheel.runtime.worker import worker_loop
from tidewheel.runtime.worker.worker_loop import WorkerLoop
from tidewheel.transport.link import Sender
from tidewheel.transport.ray_link import CallReceiver
from tidewheel.transport.socket_address import DRIVER, SocketAddress

DEADLINE_S = 30.0
WATCHER = -2
SOON_S = 2.0


class QuietSender(Sender[Envelope]):
    """A link to nobody; ``failure`` is what `check` raises."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.sent: list[tuple[int, Envelope]] = []

    def send(self, peer: int, envelope: Envelope) -> int:
        self.sent.append((peer, envelope))
        return 0

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self, linger_s: float = 0.0) -> None:
        pass


class WatchedLoop(WorkerLoop):
    """A worker with a feeder that sends nothing, and fetches the statuses.

    Attributes:
        told: the numbers of the statuses that were fetched.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.told: list[int] = []
        self._last = WorkerStatus(Phase.RUNNING)
        super().__init__(*arguments, **options)
        self.deliver(Envelope(WATCHER, 0, 0, status=FeederStatus(None)))

    def watch(self, timeout_s: float = 0.0) -> WorkerStatus:
        """Return the last status; wait for a new one, ``timeout_s`` seconds at most."""
        for head, *_ in self.mail.fetch(WATCHER, timeout_s):
            envelope = ENVELOPES.decode(head, ())
            assert isinstance(envelope.status, WorkerStatus)
            self.told.append(envelope.sequence)
            self._last = envelope.status
        return self._last


def loop_of(flow: tw.Dataflow, sender: Sender[Envelope] | None = None, workers: int = 1) -> WatchedLoop:
    """Make a worker to which envelopes are delivered by calls; it does not step."""
    link = sender if sender is not None else QuietSender()
    receiver = CallReceiver[Envelope]()
    config = tw.RuntimeConfig()
    return WatchedLoop(
        description_of(flow).plan(), 0, workers, {}, link, receiver, lambda _: link, incarnation=0, config=config
    )


@contextmanager
def running(flow: tw.Dataflow, link: QuietSender | None = None, workers: int = 1) -> Iterator[WatchedLoop]:
    """Run a worker, and end its thread."""
    loop = loop_of(flow, link, workers)
    loop.start()
    loop.start()
    try:
        yield loop
    finally:
        loop.stop()
        loop._thread.join(DEADLINE_S)
        assert not loop._thread.is_alive()


def command(loop: WorkerLoop, sequence: int, action: Any, time: Any = None, batch: Any = None) -> None:
    loop.deliver(Envelope(DRIVER, 0, sequence, commands=[InputCommand("numbers", action, time, batch)]))


def watch_until(
    loop: WatchedLoop, condition: Callable[[WorkerStatus], bool], timeout_s: float = DEADLINE_S
) -> WorkerStatus:
    """Watch a worker as the driver does, until its status is as wanted."""
    while not condition(status := loop.watch()):
        told = len(loop.told)
        status = loop.watch(timeout_s)
        if len(loop.told) == told:
            pytest.fail(f"no news within {timeout_s} s: {status}")
    return status


def squares() -> tw.Dataflow:
    flow = tw.Dataflow("test")
    flow.input("numbers").map(lambda number: number * number).probe("done").capture("results")
    return flow


def test_it_works_off_what_arrives_and_reports_how_far_it_is() -> None:
    """Each change of a probe and the end are a new version of the status; captures can be read meanwhile."""
    with running(squares()) as loop:
        command(loop, 0, "send", 0, [2, 3])
        command(loop, 1, "advance", 1)
        status = watch_until(loop, lambda status: status.probes.get("done") == (1,))
        assert (status.phase, loop.captured("results")) == (Phase.RUNNING, [(0, [4, 9])])
        command(loop, 2, "close")
        status = watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        assert (status.probes, status.failure) == ({"done": ()}, None)


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_at_debug_it_logs_its_start_its_frontiers_and_its_end(caplog: pytest.LogCaptureFixture, level: int) -> None:
    """With how many records have passed until then; at other levels it says nothing."""
    caplog.set_level(level, "tidewheel")
    with running(squares()) as loop:
        command(loop, 0, "send", 0, [1, 2, 3])
        command(loop, 1, "close")
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
    lines = [record.getMessage() for record in caplog.records if record.name == worker_loop.__name__]
    if level == logging.INFO:
        assert lines == []
        return
    assert lines[0] == "worker 0 of 1 starts 'test'"
    assert re.fullmatch(r"worker 0, 'test': complete; reached: done: ended; [1-9]\d* records passed .*", lines[-1])


def test_it_tells_each_status_to_all_who_feed_it() -> None:
    """They need not ask; numbers grow, since small envelopes may overtake others. One that asks is answered."""
    link = QuietSender()
    with running(squares(), link) as loop:
        loop.deliver(Envelope(DRIVER, 0, 0, status=FeederStatus(SocketAddress("a", "ipc://s", "d"))))
        command(loop, 1, "advance", 1)
        command(loop, 2, "close")
        last = watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
        loop.deliver(Envelope(WATCHER, 0, 1, status=FeederStatus(None)))
        answer = loop.watch(DEADLINE_S)
    told = [status for _, envelope in link.sent if isinstance(status := envelope.status, WorkerStatus)]
    assert (replace(told[-1], heard=1), last.probes) == (last, {"done": ()})
    assert (told[-1].heard, last.heard, answer.heard) == (3, 1, 2)
    report = loop.report(DEADLINE_S)
    assert isinstance(report, WorkerReport)
    assert (last.steps, answer.steps) == (None, report.statistics.steps)
    assert loop.told == sorted(set(loop.told))


def test_it_tells_feeders_of_a_snapshot_that_has_begun() -> None:
    """At once, though nothing else has happened; who claims a handle then begins in it."""
    with running(squares()) as loop:
        vars(loop._core.memory).update(_taken=lambda number: None, _complete=lambda: None)
        loop.watch(DEADLINE_S)
        loop.deliver(Envelope(DRIVER, 0, 0, snapshot=3, marker={}))
        [[head, *_]] = loop.mail.fetch(WATCHER, DEADLINE_S)
        assert ENVELOPES.decode(head, ()).snapshot == 3
        assert loop.feeders.claim(7, FeederName(-9, "process 12")) == Claim(snapshot=3)


def test_a_feeder_that_leaves_is_told_that_all_has_come_and_then_nothing() -> None:
    """Whoever closes its handles may end its process then, though the dataflow goes on."""
    with running(squares()) as loop:
        command(loop, 0, "send", 0, [2])
        watch_until(loop, lambda status: status.heard == 1)
        loop.deliver(Envelope(WATCHER, 0, 2, status=FeederStatus(None, is_leaving=True)))
        loop.deliver(Envelope(WATCHER, 0, 1, commands=[InputCommand("numbers", "send", 0, [3])]))
        watch_until(loop, lambda status: status.heard == 3)
        command(loop, 1, "close")
        assert eventually(lambda: loop.captured("results") == [(0, [4]), (0, [9])])
        told = len(loop.told)
    loop.watch()
    assert len(loop.told) == told


class UnpicklableError(Exception):
    """An error that cannot leave its process."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


def test_a_failure_that_cannot_be_pickled_reaches_the_driver_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver learns of every failure."""
    failure = tw.JobError("the link has broken")
    failure.cause_of_it = UnpicklableError()  # type: ignore[attr-defined]
    monkeypatch.setattr(worker_loop, "_LINK_CHECK_S", 0.001)
    link = QuietSender()
    with running(squares(), link) as loop:
        watch_until(loop, lambda status: bool(status.probes))
        link.failure = failure
        told = watch_until(loop, lambda status: status.phase is Phase.FAILED)
    assert str(told.failure) == "the link has broken"


def test_it_does_not_run_before_it_is_started() -> None:
    """What arrives early is kept; whoever asks is answered."""
    loop = loop_of(squares())
    command(loop, 0, "send", 0, [2])
    command(loop, 1, "close")
    status = watch_until(loop, lambda status: status.heard == 1)
    assert (status.steps, loop.captured("results")) == (None, [])
    loop.start()
    watch_until(loop, lambda status: status.phase is Phase.COMPLETE)
    assert loop.captured("results") == [(0, [4])]
    loop.stop()
    loop._thread.join(DEADLINE_S)


def test_a_token_that_another_thread_uses_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that sleeps finds out at once when a token is taken forward or discarded elsewhere."""
    monkeypatch.setattr(worker_loop, "_LINK_CHECK_S", 2 * DEADLINE_S)
    tokens: list[tw.TimestampToken] = []
    held = threading.Event()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, _ in input:
            tokens.append(lent.retain())
            held.set()

    with running(flow_of(scheduled(schedule))) as loop:
        command(loop, 0, "send", 0, [1])
        command(loop, 1, "close")
        assert held.wait(DEADLINE_S)
        tokens[0].downgrade(8)
        watch_until(loop, lambda status: status.probes.get("done") == (8,))
        tokens.pop().discard()
        watch_until(loop, lambda status: status.phase is Phase.COMPLETE)


def test_an_operator_that_raises_ends_it_with_the_error() -> None:
    """The last status has the error, with operator, worker, time and traceback."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in input:
            output.send(lent, [1 // number for number in batch])

    with running(flow_of(scheduled(schedule))) as loop:
        command(loop, 0, "send", 0, [0])
        failure = watch_until(loop, lambda status: status.phase is Phase.FAILED).failure
    assert isinstance(failure, tw.JobError)
    assert (failure.operator, failure.worker, failure.time) == ("subject", 0, 0)
    assert "ZeroDivisionError" in failure.traceback_text


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_operator_that_exits_ends_it_with_an_error_too(raised: type[BaseException]) -> None:
    """`sys.exit()` in a user's function, and whatever else is no Exception, fails the job and does not hang it."""

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in input:
            raise raised

    with running(flow_of(scheduled(schedule))) as loop:
        command(loop, 0, "send", 0, [0])
        loop._thread.join(DEADLINE_S)
        assert not loop._thread.is_alive()
        assert loop.watch().phase is Phase.FAILED


def test_a_broken_protocol_ends_it_with_the_error() -> None:
    """An envelope of another incarnation is not taken in."""
    with running(squares(), workers=2) as loop:
        loop.deliver(Envelope(1, 0, 0, progress=[]))
        loop.deliver(Envelope(1, 5, 1, progress=[]))
        failure = watch_until(loop, lambda status: status.phase is Phase.FAILED).failure
    assert isinstance(failure, tw.progress.ProtocolError)


def test_a_failure_outside_the_operators_is_reported_as_the_workers(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong, the driver hears of it."""
    with running(squares()) as loop:
        loop.deliver(Envelope(DRIVER, 0, 0, commands=[InputCommand("nonsense", "close")]))
        failure = watch_until(loop, lambda status: status.phase is Phase.FAILED).failure
    assert isinstance(failure, tw.JobError)
    assert str(failure) == "worker 0 failed: KeyError: 'nonsense'"
    assert (failure.operator, failure.worker) == (None, 0)
    assert "worker 0 failed outside its operators" in caplog.text


def test_a_link_that_lost_something_is_noticed_while_it_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing arrives, so it asks the link now and then."""
    monkeypatch.setattr(worker_loop, "_LINK_CHECK_S", 0.001)
    link = QuietSender()
    with running(squares(), link) as loop:
        watch_until(loop, lambda status: bool(status.probes))
        link.failure = tw.JobError("peer 1 is gone", worker=1)
        failure = watch_until(loop, lambda status: status.phase is Phase.FAILED).failure
    assert str(failure) == "peer 1 is gone"


class PicklingLink(QuietSender):
    """A link that pickles what it is given, as any link to another process does."""

    def send(self, peer: int, envelope: Envelope) -> int:
        return super().send(peer, pickle.loads(cloudpickle.dumps(envelope)))


def test_a_record_that_cannot_be_pickled_names_where_it_was_going() -> None:
    """The error is not that of the link: it has the operator that was to get the record, and the time."""
    flow = tw.Dataflow("test")
    locks = flow.input("numbers").map(lambda number: (number, threading.Lock()))
    locks.unary(scheduled(ignore), exchange=lambda pair: pair[0], name="subject")
    with running(flow, PicklingLink(), workers=2) as loop:
        command(loop, 0, "advance", 3)
        command(loop, 1, "send", 3, list(range(10)))
        failure = watch_until(loop, lambda status: status.phase is Phase.FAILED).failure
    assert isinstance(failure, tw.JobError)
    assert (failure.operator, failure.worker, failure.time) == ("subject", 0, 3)
    assert "a record on its way to input 0 of 'subject' at time 3 cannot be pickled" in str(failure)


def test_stopping_ends_it_after_the_step_under_way() -> None:
    """A worker that is busy, with an operator that never ends, stops when asked between two steps."""
    stepped = threading.Event()

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            stepped.set()
            context.activate()

        return schedule

    with running(flow_of(build)) as loop:
        assert stepped.wait(DEADLINE_S)
        assert loop.watch().phase is Phase.RUNNING


def test_an_idle_worker_sleeps() -> None:
    """Without news it takes no step at all."""
    steps: list[int] = []
    called = threading.Event()

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        steps.append(0)
        called.set()

    switching = sys.getswitchinterval()
    with running(flow_of(scheduled(schedule))) as loop:
        assert called.wait(DEADLINE_S)
        for _ in range(20):
            loop.watch(switching)
        assert len(steps) == 1


def test_an_operator_that_another_thread_activates_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has finished some work says so, and the operator comes to send it."""
    monkeypatch.setattr(worker_loop, "_LINK_CHECK_S", DEADLINE_S)
    contexts: list[tw.OperatorContext] = []
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()

    def build(context: tw.OperatorContext) -> Any:
        contexts.append(context)
        return lambda input, output: calls.put(0)

    with running(flow_of(build)) as loop:
        calls.get(timeout=DEADLINE_S)
        while not loop._core.is_idle:
            loop.watch()
        contexts[0].activate()
        try:
            calls.get(timeout=0.3)
        except queue.Empty:
            pytest.fail("it was not called")
