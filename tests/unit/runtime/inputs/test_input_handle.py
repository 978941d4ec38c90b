"""The driver's end of an input."""

import pickle
import re
import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.list_feed import ListFeed
from tests.kit.runtime.one_operator import captured, flow_of, scheduled, settle
from tidewheel.batches.batches import size_in_bytes
from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.runtime.messages.credit import OVERHEAD_BYTES
from tidewheel.runtime.messages.envelope import Envelope, InputCommand

DEADLINE_S = 30.0


def pass_on(input: tw.InputPort, output: tw.OutputPort) -> None:
    for lent, batch in input:
        output.send(lent, batch)


@pytest.fixture
def submitted(feed: ListFeed) -> list[tuple[int, InputCommand]]:
    """What its handles say, with the number of the worker that it is for."""
    return feed.submitted


def test_batches_go_to_each_worker_in_turn(handle: tw.types.InputHandle, submitted: list[Any]) -> None:
    """Each whole, at the current time; an empty one goes nowhere and takes nobody's turn."""
    for batch in ([1], [], [2], pa.table({"n": [3]}), np.array([4])):
        handle.send(batch)
    assert [(worker, command.action, command.time) for worker, command in submitted] == [
        (0, "send", 0),
        (1, "send", 0),
        (0, "send", 0),
        (1, "send", 0),
    ]


def test_advancing_tells_every_worker(handle: tw.types.InputHandle, submitted: list[Any]) -> None:
    """All of them have a token to take forward; the same time again is no news."""
    handle.advance_to(4)
    handle.advance_to(4)
    assert handle.time == 4
    handle.send([1])
    assert submitted == [
        (0, InputCommand("numbers", "advance", 4)),
        (1, InputCommand("numbers", "advance", 4)),
        (0, InputCommand("numbers", "send", 4, [1], size_in_bytes([1], RecordSizes()) + OVERHEAD_BYTES)),
    ]


def test_closing_tells_every_worker_once(handle: tw.types.InputHandle, submitted: list[Any]) -> None:
    """Closing again does nothing."""
    seen = [handle.is_closed]
    handle.close()
    handle.close()
    seen.append(handle.is_closed)
    assert seen == [False, True]
    assert submitted == [(0, InputCommand("numbers", "close")), (1, InputCommand("numbers", "close"))]


@pytest.mark.parametrize(
    ("use", "action"), [(lambda handle: handle.send([1]), "send to"), (lambda handle: handle.advance_to(9), "advance")]
)
def test_a_closed_input_takes_nothing(
    handle: tw.types.InputHandle, submitted: list[Any], use: Any, action: str
) -> None:
    """The error names the input and the time at which it was closed."""
    handle.advance_to(3)
    handle.close()
    submitted.clear()
    with pytest.raises(
        tw.errors.TokenError, match=f"cannot {action} input 'numbers', which was closed at time 3: close it"
    ):
        use(handle)
    assert submitted == []


@pytest.mark.parametrize("time", [2, 0])
def test_an_input_does_not_go_back(handle: tw.types.InputHandle, submitted: list[Any], time: int) -> None:
    """The error names input and times, and the input stays where it is."""
    handle.advance_to(3)
    submitted.clear()
    with pytest.raises(
        tw.errors.TokenError, match=f"input 'numbers' is at time 3 and cannot go back to {time}: times already"
    ):
        handle.advance_to(time)
    assert (handle.time, submitted) == (3, [])


@pytest.mark.parametrize("time", ["4", 4.0, None, (4, 0), -1, True, 2**63, [4]])
def test_an_input_advances_to_times_only(handle: tw.types.InputHandle, submitted: list[Any], time: Any) -> None:
    """What is no time of the dataflow is refused with an example of one."""
    with raises(tw.errors.TokenError):
        handle.advance_to(time)
    assert (handle.time, submitted) == (0, [])


@pytest.mark.parametrize("batch", [(1, 2), "text", 7, None, {1: 2}, iter([1]), range(3), np.array(1), pa.array([1])])
def test_only_batches_are_sent(handle: tw.types.InputHandle, submitted: list[Any], batch: Any) -> None:
    """A tuple, a generator, a text or a single record is refused at once, and says what to do."""
    with pytest.raises(TypeError, match=rf"not {type(batch).__qualname__}\. .*single record"):
        handle.send(batch)
    assert submitted == []


def test_leaving_a_with_block_closes(handle: tw.types.InputHandle) -> None:
    """Unless it is left by an error: then the input is as open as it was, and nothing is completed by mistake."""
    with pytest.raises(RuntimeError, match="stop"), handle:
        raise RuntimeError("stop")
    closed = [handle.is_closed]
    with handle as entered:
        assert entered is handle
    closed.append(handle.is_closed)
    assert closed == [False, True]


def test_a_handle_is_shown_with_its_time(handle: tw.types.InputHandle) -> None:
    """Printing one says how far it is."""
    assert repr(handle) == "InputHandle('numbers', at 0)"
    handle.close()
    assert repr(handle) == "InputHandle('numbers', closed at time 0)"


def test_the_same_handle_each_time() -> None:
    """`job.input` may be called again and again; the time is that of the input."""
    with tw.run(flow_of(scheduled(pass_on)), engine="local") as job:
        job.input("numbers").advance_to(4)
        assert job.input("numbers").time == 4
        assert job.input("numbers") is job.input("numbers")
        job.stop()


def test_threads_may_share_an_input() -> None:
    """What several threads send at once arrives once each, at the time that the input had."""
    with tw.run(flow_of(scheduled(pass_on)), workers=2, engine="local") as job:

        def work(first: int) -> None:
            for number in range(first, first + 100):
                job.input("numbers").send([number])

        for epoch in range(2):
            threads = [threading.Thread(target=work, args=(1000 * thread,)) for thread in range(4)]
            for thread in threads:
                thread.start()
            settle(job)
            for thread in threads:
                thread.join(DEADLINE_S)
            job.input("numbers").advance_to(epoch + 1)
        job.input("numbers").close()
        job.wait()
        counts = Counter((time, number) for time, batch in captured(job) for number in batch)
    assert counts == Counter(
        (epoch, 1000 * thread + number) for epoch in range(2) for thread in range(4) for number in range(100)
    )


@pytest.mark.parametrize(
    "use", [lambda handle: handle.send([1]), lambda handle: handle.advance_to(1), lambda handle: handle.close()]
)
def test_each_use_is_under_the_lock(use: Any) -> None:
    """While one thread sends, advances or closes, no other gets in between: all workers are told the same story."""
    got_in: list[bool] = []

    class WatchedFeed(ListFeed):
        def send(self, worker: int, envelope: Envelope) -> int:
            other = threading.Thread(target=lambda: got_in.append(self.lock.acquire(blocking=False)))
            other.start()
            other.join(DEADLINE_S)
            return 0

    use(WatchedFeed(1).handle())
    assert set(got_in) == {False}


def test_two_workers_share_what_is_sent_evenly(handle: tw.types.InputHandle, submitted: list[Any]) -> None:
    """Over many batches no worker gets one more than the other by more than one."""
    for number in range(7):
        handle.send([number])
    assert Counter(worker for worker, _ in submitted) == Counter({0: 4, 1: 3})


def test_a_batch_goes_to_the_worker_that_is_said(handle: tw.types.InputHandle, submitted: list[Any]) -> None:
    """It takes nobody's turn."""
    handle.send([0], worker=1)
    handle.send([1])
    handle.send([2], worker=1)
    handle.send([3])
    assert [(worker, command.batch) for worker, command in submitted] == [(1, [0]), (0, [1]), (1, [2]), (1, [3])]
    assert handle.workers == 2


@pytest.mark.parametrize("worker", [2, -1, 0.5, "a", True, (0,)])
@pytest.mark.parametrize("batch", [[4], []])
def test_a_batch_goes_to_workers_only(
    handle: tw.types.InputHandle, submitted: list[Any], worker: Any, batch: list[int]
) -> None:
    """What is no number of one is refused, also if there is nothing to send."""
    with pytest.raises(
        tw.errors.TokenError, match=f"'numbers' has no worker {re.escape(repr(worker))}: there are 2, from 0"
    ):
        handle.send(batch, worker=worker)
    assert submitted == []


def test_a_list_may_be_used_again_after_it_was_sent() -> None:
    """A driver that fills one list again and again loses nothing, on either engine."""
    with tw.run(flow_of(scheduled(pass_on)), engine="local") as job:
        batch: list[int] = []
        for number in range(3):
            batch.append(number)
            job.input("numbers").send(batch)
            batch.clear()
        job.input("numbers").close()
        job.wait()
        assert captured(job) == [(0, [0]), (0, [1]), (0, [2])]


def test_a_clone_is_a_handle_of_its_own(handle: tw.types.InputHandle, submitted: list[Any]) -> None:
    """It has a number of its own by which workers know it, begins where its origin is, and goes its own way."""
    handle.advance_to(2)
    other = handle.clone()
    third = other.delayed(5)
    other.advance_to(3)
    third.send([1])
    handle.close()
    assert (handle.time, other.time, third.time) == (2, 3, 5)
    assert [one.is_closed for one in (handle, other, third)] == [True, False, False]
    numbers = {command.handle for _, command in submitted}
    told = [
        (command.action, command.time, command.handle == 0, command.origin == 0)
        for worker, command in submitted
        if worker == 0 or command.action == "send"
    ]
    assert told == [
        ("advance", 2, True, True),
        ("clone", 2, False, True),
        ("clone", 5, False, False),
        ("advance", 3, False, True),
        ("send", 5, False, True),
        ("close", None, True, True),
    ]
    assert len(numbers) == 3
    assert handle.statistics == other.statistics == third.statistics
    assert handle.statistics.records == 1


@pytest.mark.parametrize(("time", "error"), [(2, "cannot go back to 2"), ("x", "cannot make a handle at 'x': that is")])
def test_a_delayed_handle_is_not_before_its_origin(handle: tw.types.InputHandle, time: Any, error: str) -> None:
    """Nor at what is no time."""
    handle.advance_to(3)
    with pytest.raises(tw.errors.TokenError, match=error):
        handle.delayed(time)


def test_a_pickled_handle_is_handed_over(feed: ListFeed, handle: tw.types.InputHandle) -> None:
    """The workers make a token for the new one and give up the old one; which says so to whoever uses it here."""
    handle.advance_to(4)
    feed.submitted.clear()
    name, number, time = pickle.loads(pickle.dumps(handle))
    assert (name, time) == ("numbers", 4)
    assert [command for worker, command in feed.submitted if worker == 1] == [
        InputCommand("numbers", "clone", 4, tw.types.InputPosition(4, is_first=True), handle=number),
        InputCommand("numbers", "close"),
    ]
    use: list[Any] = [
        lambda: handle.send([1]),
        lambda: handle.advance_to(9),
        handle.clone,
        lambda: pickle.dumps(handle),
    ]
    for one in use:
        with raises(tw.errors.TokenError):
            one()
    assert handle.is_closed
    handle.close()
    assert "pickled, so another process has it now" in repr(handle)


def test_handles_of_the_local_engine_stay_here() -> None:
    """Pickling one is refused, and it can be used as before."""
    with tw.run(flow_of(scheduled(pass_on)), engine="local") as job:
        with raises(tw.errors.TokenError):
            pickle.dumps(job.input("numbers"))
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.wait()
        assert captured(job) == [(0, [1])]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_input_takes_records_in_any_order_of_times(workers: int) -> None:
    """With a handle for each time: a time is complete once its own handle, and all that could make one, are closed."""
    flow = tw.Dataflow("unordered")
    flow.input("numbers").exchange(lambda n: n).probe("done").capture("results")
    with tw.run(flow, engine="local", workers=workers) as job:
        first, done = job.input("numbers"), job.probe("done")
        handles = {time: first.delayed(time) for time in range(10)}
        first.close()
        assert job.input("numbers").is_closed
        for time in (7, 2, 9, 2, 0, 5):
            handles[time].send([10 * time])
        lowest: list[Any] = []
        for time in (1, 3, 2, 0, 4):
            handles[time].close()
            settle(job)
            lowest += done.frontier
        assert lowest == [0, 0, 0, 4, 5]
        with raises(tw.JobError):
            job.wait()
        for handle in handles.values():
            handle.close()
        job.wait()
        results = Counter((entry.time, number) for entry in job.captured("results") for number in entry.batch)
    assert results == Counter([(7, 70), (2, 20), (9, 90), (2, 20), (0, 0), (5, 50)])


def test_the_explanation_names_the_handle_that_lags() -> None:
    """Of several handles it is the one that is at the time, or one that was handed over."""
    flow = tw.Dataflow("lagging")
    flow.input("numbers").probe("done")
    with tw.run(flow, engine="local") as job:
        first = job.input("numbers")
        other = first.clone()
        first.advance_to(8)
        settle(job)
        assert "its handle at that time: advance_to(...) or close() lets it go on" in str(job.explain("done"))
        other.advance_to(9)
        assert "the driver took it to 8, 9" in str(job.explain("done"))
        job.stop()


def test_a_handle_that_is_handed_over_goes_on_counting(feed: ListFeed, handle: tw.types.InputHandle) -> None:
    """What it is pickled as has its position, and says that it has the place of the first one."""
    handle.advance_to(2)
    handle.send([1, 2])
    pickle.dumps(handle)
    [clone] = [command for worker, command in feed.submitted if worker == 0 and command.action == "clone"]
    assert clone.batch == tw.types.InputPosition(2, 1, 2, batches_at_time=1, is_first=True)
