"""Work that may wait takes a share of a busy loop's time, and all of an idle one's."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidewheel.host.background_turns import MOST_WAIT_S, SHARE, SMALL_SHARE, BackgroundTurns

TURN_S = 0.002


class Loop:
    """A loop whose time passes only during turns, and where it waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waited_s = 0.0
        self.due: deque[tuple[float, Callable[[], None]]] = deque()
        self.cancelled = 0

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], None]) -> Any:
        return self.call_later(0.0, call)

    def call_later(self, wait_s: float, call: Callable[[], None]) -> Any:
        self.due.append((wait_s, call))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def run(self) -> None:
        """Do the next call, once it is due."""
        wait_s, call = self.due.popleft()
        self.waited_s += wait_s
        self.now_s += wait_s
        call()


class Work:
    """So many turns of work on a loop, how much else it has done, and how much its thread has waited for a core."""

    def __init__(self, turns: int, waited_part: float = 0.0) -> None:
        self.loop = Loop()
        self.left = turns
        self.others = 0
        self.waited_part = waited_part
        self.turn_s = TURN_S
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.turns = BackgroundTurns(loop, self._turn, lambda: self.others, self._scheduled)

    def _scheduled(self) -> tuple[int, int]:
        wanted = self.loop.now_s * 1e9
        return int(wanted * (1 - self.waited_part)), int(wanted * self.waited_part)

    def _turn(self) -> bool:
        self.left -= 1
        self.loop.now_s += self.turn_s
        return self.left > 0


def test_an_idle_loop_does_not_wait() -> None:
    """One turn follows the other, until there is no more to do."""
    work = Work(10)
    work.turns.wake()
    work.turns.wake()
    while work.loop.due:
        work.loop.run()
    assert (work.left, work.loop.waited_s <= TURN_S * SHARE) == (0, True)
    work.left = 1
    work.turns.wake()
    work.loop.run()
    assert work.left == 0


@pytest.mark.parametrize(("waited_part", "share"), [(0.1, SHARE), (0.3, SMALL_SHARE)])
def test_a_busy_loop_gives_a_share_of_its_time(waited_part: float, share: int) -> None:
    """A small one where cores are short. Also where there is new work all the time, so that it is woken again."""
    work = Work(100, waited_part)
    work.turns.wake()
    while work.left > 0:
        work.others += 1
        work.loop.run()
        work.turns.wake()
    assert 1 / share * 0.95 < 100 * TURN_S / work.loop.now_s < 1 / share * 1.05


def test_a_turn_that_took_long_is_not_waited_for_ever() -> None:
    """A turn that the system has interrupted for a second must not stop the work."""
    work = Work(2, waited_part=0.9)
    work.others += 1
    work.turn_s = 1.0
    work.turns.wake()
    work.loop.run()
    work.loop.run()
    assert (work.left, work.loop.waited_s) == (0, MOST_WAIT_S)


def test_it_takes_no_turns_once_it_is_closed() -> None:
    """Nothing is left behind."""
    work = Work(10)
    work.turns.wake()
    work.turns.close()
    assert not work.loop.due
