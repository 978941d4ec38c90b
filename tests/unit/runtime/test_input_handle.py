"""The driver's end of an input."""

import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.unit.runtime.one_operator import captured, flow_of, scheduled, settle
from tidewheel.runtime.batches import size_in_bytes
from tidewheel.runtime.envelope import InputCommand
from tidewheel.runtime.flow_control import OVERHEAD_BYTES

DEADLINE_S = 30.0


def pass_on(input: tw.InputPort, output: tw.OutputPort) -> None:
    for lent, batch in input:
        output.send(lent, batch)


@pytest.fixture
def submitted() -> list[tuple[int, InputCommand]]:
    return []


@pytest.fixture
def handle(submitted: list[tuple[int, InputCommand]]) -> tw.InputHandle:
    """The handle of an input of two workers, whose commands go into a list."""
    return tw.InputHandle(
        "numbers",
        tw.IntegerDomain(),
        2,
        lambda worker, command: submitted.append((worker, command)),
        threading.RLock(),
    )


def test_batches_go_to_each_worker_in_turn(handle: tw.InputHandle, submitted: list[Any]) -> None:
    """Each whole, at the current time; an empty one goes nowhere and takes nobody's turn."""
    for batch in ([1], [], [2], pa.table({"n": [3]}), np.array([4])):
        handle.send(batch)
    assert [(worker, command.action, command.time) for worker, command in submitted] == [
        (0, "send", 0),
        (1, "send", 0),
        (0, "send", 0),
        (1, "send", 0),
    ]


def test_advancing_tells_every_worker(handle: tw.InputHandle, submitted: list[Any]) -> None:
    """All of them have a token to take forward; the same time again is no news."""
    handle.advance_to(4)
    handle.advance_to(4)
    assert handle.time == 4
    handle.send([1])
    assert submitted == [
        (0, InputCommand("numbers", "advance", 4)),
        (1, InputCommand("numbers", "advance", 4)),
        (0, InputCommand("numbers", "send", 4, [1], size_in_bytes([1]) + OVERHEAD_BYTES)),
    ]


def test_closing_tells_every_worker_once(handle: tw.InputHandle, submitted: list[Any]) -> None:
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
def test_a_closed_input_takes_nothing(handle: tw.InputHandle, submitted: list[Any], use: Any, action: str) -> None:
    """The error names the input and the time at which it was closed."""
    handle.advance_to(3)
    handle.close()
    submitted.clear()
    with pytest.raises(tw.TokenError, match=f"cannot {action} input 'numbers', which was closed at time 3: close it"):
        use(handle)
    assert submitted == []


@pytest.mark.parametrize("time", [2, 0])
def test_an_input_does_not_go_back(handle: tw.InputHandle, submitted: list[Any], time: int) -> None:
    """The error names input and times, and the input stays where it is."""
    handle.advance_to(3)
    submitted.clear()
    with pytest.raises(
        tw.TokenError, match=f"input 'numbers' is at time 3 and cannot go back to {time}: times already"
    ):
        handle.advance_to(time)
    assert (handle.time, submitted) == (3, [])


@pytest.mark.parametrize("time", ["4", 4.0, None, (4, 0), -1, True, 2**63, [4]])
def test_an_input_advances_to_times_only(handle: tw.InputHandle, submitted: list[Any], time: Any) -> None:
    """What is no time of the dataflow is refused with an example of one."""
    with pytest.raises(tw.TokenError, match=r"input 'numbers' cannot advance to .*: that is not a time .* are like 0"):
        handle.advance_to(time)
    assert (handle.time, submitted) == (0, [])


@pytest.mark.parametrize("batch", [(1, 2), "text", 7, None, {1: 2}, iter([1]), range(3), np.array(1), pa.array([1])])
def test_only_batches_are_sent(handle: tw.InputHandle, submitted: list[Any], batch: Any) -> None:
    """A tuple, a generator, a text or a single record is refused at once, and says what to do."""
    with pytest.raises(TypeError, match=rf"not {type(batch).__qualname__}: .*single record"):
        handle.send(batch)
    assert submitted == []


def test_leaving_a_with_block_closes(handle: tw.InputHandle) -> None:
    """Unless it is left by an error: then the input is as open as it was, and nothing is completed by mistake."""
    with pytest.raises(RuntimeError, match="stop"), handle:
        raise RuntimeError("stop")
    closed = [handle.is_closed]
    with handle as entered:
        assert entered is handle
    closed.append(handle.is_closed)
    assert closed == [False, True]


def test_a_handle_is_shown_with_its_time(handle: tw.InputHandle) -> None:
    """Printing one says how far it is."""
    assert repr(handle) == "InputHandle('numbers', at 0)"
    handle.close()
    assert repr(handle) == "InputHandle('numbers', closed)"


def test_the_same_handle_each_time() -> None:
    """`job.input` may be called again and again; the time is that of the input."""
    with tw.run(flow_of(scheduled(pass_on)), engine="local") as job:
        job.input("numbers").advance_to(4)
        assert job.input("numbers").time == 4
        assert job.input("numbers") is job.input("numbers")


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
    lock = threading.RLock()
    got_in: list[bool] = []

    def try_to_get_in() -> None:
        got_in.append(lock.acquire(blocking=False))

    def submit(worker: int, command: InputCommand) -> None:
        other = threading.Thread(target=try_to_get_in)
        other.start()
        other.join(DEADLINE_S)

    use(tw.InputHandle("numbers", tw.IntegerDomain(), 1, submit, lock))
    assert got_in == [False]


def test_two_workers_share_what_is_sent_evenly(handle: tw.InputHandle, submitted: list[Any]) -> None:
    """Over many batches no worker gets one more than the other by more than one."""
    for number in range(7):
        handle.send([number])
    assert Counter(worker for worker, _ in submitted) == Counter({0: 4, 1: 3})


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
