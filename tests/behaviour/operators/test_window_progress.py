"""The progress of windows: when they come out, what they hold back meanwhile, and what is kept of them."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import pytest

import tidewheel as tw
from tests.kit.operators.harness import DEADLINE_S, settle
from tests.kit.operators.window_oracle import Kind
from tidewheel.runtime.state.operator_state import CAPTURED


def _key(number: int) -> int:
    """Return a key by which two workers both get some numbers."""
    return 3 * (number % 2)


@contextmanager
def running(
    kind: Kind, workers: int = 2, at: Callable[[int], Any] | None = lambda n: n, **arguments: Any
) -> Iterator[tw.types.Job]:
    """A job with windows of even and odd numbers, whose results can be probed and read at any moment."""
    flow = tw.Dataflow("windows")
    windowed = flow.input("numbers").window(kind, key=_key, at=at, **arguments)
    windowed.results.probe("results").capture("results")
    windowed.late.probe("late").capture("late")
    with tw.run(flow, workers=workers, engine="local", paused=True) as job:
        job.start()
        yield job
        job.stop()


def feed(job: tw.types.Job, epochs: dict[int, list[int]]) -> None:
    """Send numbers at each epoch, take the input past the last of them and have the job do what it can."""
    for epoch, numbers in epochs.items():
        job.input("numbers").advance_to(epoch)
        for number in numbers:
            job.input("numbers").send([number])
    job.input("numbers").advance_to(max(epochs) + 1)
    settle(job)


def results(job: tw.types.Job) -> list[tuple[Any, ...]]:
    """Return all results so far: (epoch, key, start, end, value)."""
    return sorted((captured.time, *result) for captured in job.captured("results") for result in captured.batch)


def frontier(job: tw.types.Job, name: str) -> list[Any]:
    """Return the times that can still arrive there."""
    return list(job.probe(name).frontier)


def test_results_come_as_soon_as_the_epoch_that_closes_their_window_is_complete() -> None:
    """Nothing is needed of the epochs after, and nothing comes before."""
    with running(tw.TumblingWindows(10), finish=len) as job:
        job.input("numbers").send([1, 2, 3, 25])
        settle(job)
        assert results(job) == []
        feed(job, {0: [4]})
        assert results(job) == [(0, 0, 0, 10, 2), (0, 3, 0, 10, 2)]
        feed(job, {1: [30]})
        assert results(job)[2:] == [(1, 3, 20, 30, 1)]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert results(job)[2:] == [(1, 0, 30, 40, 1), (1, 3, 20, 30, 1)]


def test_the_last_epoch_with_records_is_open_until_another_is_complete() -> None:
    """What is left may come at that epoch, if the input ends; what was late is complete at once."""
    with running(tw.TumblingWindows(10)) as job:
        feed(job, {3: [1]})
        assert frontier(job, "results") == [3]
        job.input("numbers").advance_to(8)
        settle(job)
        assert (frontier(job, "results"), frontier(job, "late")) == ([3], [8])
        feed(job, {8: [2]})
        assert frontier(job, "results") == [8]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert frontier(job, "results") == []


def test_with_an_epoch_for_the_end_nothing_is_held_back() -> None:
    """Each epoch is complete behind windows when it is complete before them; what is left comes at the epoch given."""
    with running(tw.TumblingWindows(10), flush_at=100) as job:
        feed(job, {3: [1]})
        assert frontier(job, "results") == [4]
        job.input("numbers").advance_to(9)
        settle(job)
        assert frontier(job, "results") == [9]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert results(job) == [(100, 3, 0, 10, [1])]


def test_an_epoch_for_the_end_that_others_pass_is_moved_on() -> None:
    """What is left comes out at the last epoch with records if that is later."""
    with running(tw.SessionWindows(10), flush_at=2) as job:
        feed(job, {1: [1], 4: [3], 5: [20]})
        assert frontier(job, "results") == [5]
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert results(job) == [(5, 0, 20, 30, [20]), (5, 3, 1, 13, [1, 3])]


def test_the_greatest_epoch_there_is_can_be_that_of_the_end() -> None:
    """It can pass no further loop, and is after everything."""
    greatest = 2**63 - 1
    with running(tw.TumblingWindows(10), flush_at=greatest) as job:
        feed(job, {3: [1]})
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert results(job) == [(greatest, 3, 0, 10, [1])]


@pytest.mark.parametrize("kind", [tw.TumblingWindows(3), tw.SessionWindows(2), tw.SlidingWindows(3, step=3)])
def test_windows_of_epochs_hold_back_their_own_end_only(kind: Kind) -> None:
    """They come out when their last epoch is complete, and the input need not go on to another record."""
    with running(kind, at=None, finish=len) as job:
        feed(job, {0: [1], 1: [3]})
        assert (results(job), frontier(job, "results")) == ([], [2])
        job.input("numbers").advance_to(3)
        settle(job)
        assert results(job) == [(2, 3, 0, 3, 2)]
        assert frontier(job, "results") == [3]
        job.stop()


def test_windows_of_the_last_epochs_there_are_come_out_too() -> None:
    """A window that would end after the greatest epoch comes out at that."""
    greatest = 2**63 - 1
    for kind in (tw.TumblingWindows(10), tw.SessionWindows(10)):
        with running(kind, at=None, finish=len) as job:
            job.input("numbers").advance_to(greatest)
            job.input("numbers").send([1])
            job.input("numbers").close()
            job.wait(DEADLINE_S)
            assert [(result[0], result[-1]) for result in results(job)] == [(greatest, 1)]


def test_what_is_late_is_counted_though_nobody_reads_it() -> None:
    """A stream that is left lying still shows in the statistics what has gone that way."""
    flow = tw.Dataflow("windows")
    numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 20]), (1, [2, 3, 25])]]))
    windowed = numbers.window(tw.TumblingWindows(10), key=_key, at=lambda n: n)
    windowed.results.capture("results")
    windowed.late.ignore()
    with tw.run(flow, engine="local") as job:
        job.wait(DEADLINE_S)
        assert job.statistics().operators["window late"].records_in == 2


class Kept(list[int]):
    """A state that can be counted while it is alive."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


@pytest.mark.parametrize("kind", [tw.TumblingWindows(10), tw.SlidingWindows(10, step=5), tw.SessionWindows(3)])
@pytest.mark.parametrize("combine", [lambda one, other: Kept(one + other), None])
def test_nothing_is_kept_of_a_window_that_is_closed(kind: Kind, combine: Any) -> None:
    """However long the input goes on, there are no more states, records and times than windows that are open."""
    alive: WeakSet[Kept] = WeakSet()

    def start() -> Kept:
        made = Kept()
        alive.add(made)
        return made

    def add(state: Kept, number: int) -> Kept:
        state.append(number)
        return state

    with (
        recorded_states() as states,
        running(kind, start=start, add=add, finish=len, combine=combine, lateness=5) as job,
    ):
        sizes = []
        for epoch in range(30):
            feed(job, {epoch: [10 * epoch, 10 * epoch + 5, 10 * epoch + 6, 10 * epoch - 3]})
            assert len(alive) <= 8
            sizes.append(len(pickle.dumps(states)))
        assert max(sizes[20:]) <= max(sizes[5:15]) + 60, "only numbers grow"
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert not alive


@contextmanager
def recorded_states(given: dict[Any, Any] | None = None) -> Iterator[dict[Any, Any]]:
    """Note everything that operators keep, by operator, worker and name; have them begin with what is given."""
    found: dict[Any, Any] = {} if given is None else given
    plain, by_key = tw.OperatorContext.state, tw.OperatorContext.keyed_state

    def state(self: tw.OperatorContext, name: str, make: Callable[[], Any], **divided: Any) -> Any:
        return found.setdefault((self.name, self.worker, name), plain(self, name, make, **divided))

    def keyed_state(self: tw.OperatorContext, name: str, **owned: Any) -> Any:
        kept = by_key(self, name, **owned)
        return kept if name == CAPTURED else found.setdefault((self.name, self.worker, name), kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tw.OperatorContext, "state", state)
        patch.setattr(tw.OperatorContext, "keyed_state", keyed_state)
        yield found


@pytest.mark.parametrize("kind", [tw.TumblingWindows(10), tw.SlidingWindows(10, step=5), tw.SessionWindows(3)])
@pytest.mark.parametrize("combine", [lambda one, other: one + other, None])
def test_state_can_be_pickled_and_is_all_that_there_is(kind: Kind, combine: Any) -> None:
    """A job that begins with the pickled state of another goes on as that would have."""
    arguments = {"start": list, "add": lambda kept, n: [*kept, n], "combine": combine, "lateness": 4}
    first = {0: [1, 2, 3, 7, 12], 1: [20, 4, 9, 22], 2: [25, 27]}
    second = {3: [24, 30, 11, 18], 4: [29, 50], 5: [41, 48]}
    with recorded_states() as states, running(kind, **arguments) as job:
        feed(job, first)
        saved = pickle.dumps(states)
        before = results(job)
        feed(job, second)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        whole, late = results(job), [captured.batch for captured in job.captured("late") if captured.time > 2]
    with recorded_states(pickle.loads(saved)), running(kind, **arguments) as job:
        feed(job, second)
        job.input("numbers").close()
        job.wait(DEADLINE_S)
        assert sorted(before + results(job)) == whole
        assert [captured.batch for captured in job.captured("late")] == late
