"""Looking before sleeping: only after short waits, for a short time, and not where another thread needs the core."""

import asyncio
import os
import select
import threading
from collections.abc import Iterable, Iterator
from math import inf
from time import perf_counter

import pytest

from tidewheel.transport import eager_poll
from tidewheel.transport.eager_poll import EagerLoop, EagerPoll

DEADLINE_MS = 30_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def yields(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each time that a poll has let other threads run, which it does between two looks."""
    found: list[None] = []
    monkeypatch.setattr(os, "sched_yield", lambda: found.append(None))
    return found


def polled(pipe: tuple[int, int], short_s: float, *, eager: bool = False) -> EagerPoll:
    """Return what polls a pipe; as after short waits if it is to be eager."""
    poll = EagerPoll(short_s)
    poll.register(pipe[0])
    if eager:
        poll._usual_s = 0.0
    return poll


def test_it_returns_the_ready_descriptors(pipe: tuple[int, int]) -> None:
    """At once if there are some, else as soon as there are, else none in time."""
    poll = polled(pipe, 0.001)
    assert poll.poll(0) == []
    assert poll.poll(1) == []
    os.write(pipe[1], b"x")
    assert poll.poll(DEADLINE_MS) == [(pipe[0], select.POLLIN)]
    os.read(pipe[0], 1)
    threading.Timer(0.02, os.write, [pipe[1], b"x"]).start()
    assert poll.poll(None) == [(pipe[0], select.POLLIN)]


def test_it_waits_until_a_descriptor_can_be_written(pipe: tuple[int, int]) -> None:
    """A reader with something to say waits for that, too."""
    poll = EagerPoll(0.001)
    poll.register(pipe[1], select.POLLOUT)
    assert poll.poll(DEADLINE_MS) == [(pipe[1], select.POLLOUT)]


def test_after_long_waits_it_sleeps_at_once(pipe: tuple[int, int], yields: list[None]) -> None:
    """An idle process does not poll."""
    poll = polled(pipe, 0.0002)
    for _ in range(3):
        assert poll.poll(2) == []
    assert yields == []


def test_where_long_and_very_short_waits_alternate_it_sleeps_at_once(
    pipe: tuple[int, int], yields: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two messages that come together, now and then, do not make it look."""
    clock = iter(range(1000))
    monkeypatch.setattr(eager_poll, "perf_counter", lambda: next(clock))
    poll = polled(pipe, 1.0)
    for _ in range(20):
        poll._usual_s = (poll._usual_s + poll._longest_s) / 2  # a long wait
        poll._usual_s = (poll._usual_s + 0) / 2  # a very short one
        usual_s = poll._usual_s
        poll.poll(1)
        poll._usual_s = usual_s
    assert yields == []


def test_after_short_waits_it_looks_before_it_sleeps(pipe: tuple[int, int], yields: list[None]) -> None:
    """If nothing has come by then it sleeps; after some such waits it does not look any more."""
    poll = polled(pipe, 0.005, eager=True)
    began = perf_counter()
    assert poll.poll(20) == []
    assert perf_counter() - began >= 0.02
    assert yields
    yields.clear()
    assert poll.poll(20) == []
    assert yields == []


def test_it_becomes_eager_by_short_waits(pipe: tuple[int, int], yields: list[None]) -> None:
    """The waits themselves decide; this one expires five times, and is short each time."""
    poll = polled(pipe, 0.05)
    for _ in range(5):
        assert poll.poll(1) == []
    assert yields


def test_what_comes_while_it_looks_is_found_and_keeps_it_eager(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that answers at once is found without sleeping."""
    monkeypatch.setattr(os, "sched_yield", lambda: os.write(pipe[1], b"x"))
    poll = polled(pipe, 5.0, eager=True)
    assert poll.poll(DEADLINE_MS)
    assert poll._usual_s < 5.0


def test_of_several_that_wait_in_a_process_none_looks(
    pipe: tuple[int, int], yields: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten subscribers in one process do not fight for its interpreter."""
    monkeypatch.setattr(eager_poll, "_waiting", {1})
    assert polled(pipe, 0.05, eager=True).poll(1) == []
    assert yields == []
    eager_poll._waiting.clear()
    assert polled(pipe, 0.05, eager=True).poll(1) == []
    assert yields
    assert not eager_poll._waiting


def test_it_sleeps_when_another_thread_needs_the_core(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread has run if it takes long until the poll may look again."""
    yields: list[None] = []

    def run_another() -> None:
        yields.append(None)
        began = perf_counter()
        while perf_counter() - began < 10 * eager_poll._CONTENDED_S:
            pass

    monkeypatch.setattr(os, "sched_yield", run_another)
    assert polled(pipe, 0.05, eager=True).poll(50) == []
    assert len(yields) == 1


class Clock:
    """Stands for the clock, which each yield and each message move on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, yield_s: float, work_s: float = 0.0) -> None:
        self.now_s = 1000.0
        self._work_s = work_s
        self.yields = 0
        self._yield_s = yield_s
        monkeypatch.setattr(eager_poll, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(os, "sched_yield", self._yield)

    def work(self) -> None:
        """Do what a message needs."""
        self.now_s += self._work_s

    def _yield(self) -> None:
        self.yields += 1
        self.now_s += self._yield_s


def yields_after(clock: Clock, gaps_s: Iterable[float], short_s: float = 0.001) -> list[int]:
    """Return how often a loop has looked until each of some messages, which come after these times, and at the end."""

    async def looked(eager: EagerLoop, until_s: float) -> int:
        before = clock.yields
        for _ in range(500):
            if eager._is_looking and clock.now_s < until_s:
                await asyncio.sleep(0)
        return clock.yields - before

    async def scenario() -> list[int]:
        eager = EagerLoop(asyncio.get_running_loop(), clock.work, short_s)
        found = []
        for gap_s in gaps_s:
            until_s = clock.now_s + gap_s
            found.append(await looked(eager, until_s))
            clock.now_s = max(clock.now_s, until_s)
            eager.readable()
        return [*found, await looked(eager, inf)]

    return asyncio.run(scenario())


def test_a_loop_looks_after_messages_at_short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once their average is short it looks until the next one, and after the last one for a millisecond."""
    looks = yields_after(Clock(monkeypatch, 10e-6), [5.0] + [100e-6] * 10)
    assert looks[:2] == [0, 0], "the first message is no sign of a second"
    assert all(9 <= each <= 11 for each in looks[-4:-1]), looks
    assert 99 <= looks[-1] <= 101, looks


def test_the_time_that_messages_need_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher of large messages waits for a short time only, however long it needs for each."""
    looks = yields_after(Clock(monkeypatch, 10e-6, work_s=3e-3), [100e-6] * 10)
    assert 99 <= looks[-1] <= 101, looks


def test_a_loop_sleeps_after_messages_at_long_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 200 messages a second it would look in vain each time; with pairs of them as well."""
    assert yields_after(Clock(monkeypatch, 10e-6), [5e-3] * 20) == [0] * 21
    assert sum(yields_after(Clock(monkeypatch, 10e-6), [8e-3, 10e-6] * 20)) == 0


def test_a_loop_sleeps_when_another_thread_needs_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes long has let another thread run, and is the last."""
    looks = yields_after(Clock(monkeypatch, 2 * eager_poll._CONTENDED_S), [100e-6] * 10)
    assert looks[-1] == 1, looks


def test_a_loop_may_never_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher with a thread for its log sleeps at once."""
    assert sum(yields_after(Clock(monkeypatch, 10e-6), [10e-6] * 10, short_s=0.0)) == 0
