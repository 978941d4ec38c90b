"""The threads to tell when the job of a handle goes back to a snapshot: each is told, and before it can send."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.runtime.list_feed import ListFeed

DEADLINE_S = 30.0
WAIT: Callable[[tw.types.InputHandle], object] = tw.types.InputHandle.wait_until_saved
USES: list[Callable[[tw.types.InputHandle], object]] = [
    lambda handle: handle.send([3]),
    lambda handle: handle.advance_to(9),
    lambda handle: handle.clone(),
    lambda handle: handle.delayed(9),
    lambda handle: handle.end_substream("key"),
    WAIT,
    lambda handle: handle.close(),
]


class Other:
    """A thread that does what the test asks it to do."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor
        self.does(threading.current_thread)  # so that it is there

    def does(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Call it there, and return or raise what comes of it."""
        return self._executor.submit(do, *arguments).result(DEADLINE_S)


@pytest.fixture
def begin() -> Iterator[Callable[[], Other]]:
    """Return a function that begins a thread."""
    with ExitStack() as stack:
        yield lambda: Other(stack.enter_context(ThreadPoolExecutor(1)))


def goes_back(handle: tw.types.InputHandle, position: tw.types.InputPosition) -> None:
    handle._go_back(handle._feed, handle.number, position)


@pytest.mark.parametrize("use", USES)
def test_each_thread_is_told_once(
    handle: tw.types.InputHandle, feed: ListFeed, begin: Callable[[], Other], use: Callable[..., object]
) -> None:
    """Whatever it does first, it has not done then; also where another thread has sent again meanwhile."""
    other, saved = begin(), handle.position
    handle.send([1])
    other.does(handle.send, [2])
    goes_back(handle, saved)
    feed.submitted.clear()
    with pytest.raises(tw.JobRolledBack, match="is at time 0 again, after 0 batches: send what comes after its"):
        use(handle)
    assert feed.submitted == []
    handle.send([1])
    with pytest.raises(tw.JobRolledBack, match="is at time 0 again, after 1 batches"):
        other.does(use, handle)
    assert [command.batch for _, command in feed.submitted] == [[1]]
    other.does(handle.send, [2])
    handle.close()


def waits_for_room(handle: tw.types.InputHandle) -> None:
    with pytest.MonkeyPatch.context() as full:
        full.setattr(handle._feed, "has_room", lambda worker, size: False)
        full.setattr(handle._feed, "wait", lambda condition, timeout: handle._feed.check_alive())
        handle.send([3])


@pytest.mark.parametrize("use", [waits_for_room, *(use for use in USES if use is not WAIT)])
def test_a_thread_that_is_in_the_middle_of_a_call_is_told_once(
    handle: tw.types.InputHandle, feed: ListFeed, monkeypatch: pytest.MonkeyPatch, use: Callable[..., object]
) -> None:
    """It finds out before the handle is back at its position, and is told only then: it goes on from there at once."""
    saved = handle.position
    handle.send([1])

    def raise_rewound() -> None:
        raise tw.JobRolledBack("the job goes back to a snapshot")

    def have_gone_back() -> None:
        monkeypatch.undo()
        goes_back(handle, saved)

    waits = iter([lambda: None, have_gone_back])

    def wait_until_usable() -> None:
        next(waits)()

    monkeypatch.setattr(feed, "check_alive", raise_rewound)
    monkeypatch.setattr(feed, "wait_until_usable", wait_until_usable)
    with pytest.raises(tw.JobRolledBack, match="is at time 0 again, after 0 batches"):
        use(handle)
    feed.submitted.clear()
    handle.send([1])
    assert [command.batch for _, command in feed.submitted] == [[1]]
    handle.close()


def test_a_thread_of_a_closed_handle_is_told(handle: tw.types.InputHandle, begin: Callable[[], Other]) -> None:
    """The handle is open again: to close it once more, before all was sent again, would lose the rest."""
    other, saved = begin(), handle.position
    handle.send([1])
    handle.close()
    goes_back(handle, saved)
    for does in (other.does, lambda close: close()):
        with pytest.raises(tw.JobRolledBack):
            does(handle.close)
    assert not handle.is_closed
    handle.close()


def test_a_return_that_nobody_was_told_of_is_not_forgotten(handle: tw.types.InputHandle) -> None:
    """Here the job goes back twice to the same place, the second time before anything was sent."""
    saved = handle.position
    handle.send([1])
    handle.close()
    goes_back(handle, saved)
    goes_back(handle, saved)
    assert handle.is_reopened
    with pytest.raises(tw.JobRolledBack):
        handle.send([2])
    handle.send([1])
    assert not handle.is_reopened


def test_a_thread_that_begins_later_is_told_if_it_is_the_first(
    handle: tw.types.InputHandle, begin: Callable[[], Other]
) -> None:
    """A program may begin a thread for each attempt; the second one begins where the handle is."""
    saved = handle.position
    handle.send([1])
    goes_back(handle, saved)
    with pytest.raises(tw.JobRolledBack):
        begin().does(handle.send, [2])
    begin().does(handle.send, [1])
    with pytest.raises(tw.JobRolledBack):
        handle.send([2])


def test_nothing_is_told_where_nothing_is_to_be_sent_again(handle: tw.types.InputHandle) -> None:
    """The snapshot has all that was sent."""
    handle.send([1])
    goes_back(handle, handle.position)
    handle.send([2])
    assert handle.position.batches == 2


def test_who_hands_over_a_handle_that_was_handed_over_is_not_told(handle: tw.types.InputHandle) -> None:
    """Its position goes with it; the process that had it has said that the job has gone back."""
    saved = handle.position
    handle.__reduce__()
    goes_back(handle, saved)
    handle.__reduce__()
    assert handle.is_closed
