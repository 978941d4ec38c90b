"""What a worker makes of a publisher that shows no sign of life, with a clock that tests turn."""

from dataclasses import dataclass, field
from itertools import count

import pytest

from tidewheel.pubsub.publishers.watched_publisher import PATIENCE_S, News, WatchedPublisher

LOOK_S = 1.0


@dataclass
class Worker:
    """Looks at a publisher every second."""

    watched: WatchedPublisher = field(default_factory=WatchedPublisher)
    now_s: float = 100.0

    def look(self, *, shows_life: bool = False, is_stopped: bool = False, after_s: float = LOOK_S) -> News:
        """Look once, some time after the last look."""
        self.now_s += after_s
        return self.watched.look(self.now_s, has_shown_life=shows_life, is_stopped=is_stopped)

    def looks_until_it_kills(self, *, after_s: float = LOOK_S) -> int:
        """Look at a stopped publisher until it is killed; return how often that was."""
        return next(number for number in count(1) if self.look(is_stopped=True, after_s=after_s) is News.STOPPED)


def test_a_stopped_publisher_is_killed() -> None:
    """Once it has been stopped for `PATIENCE_S` seconds, whether it was idle or busy before."""
    worker = Worker()
    worker.look(shows_life=True)
    began_s = worker.now_s
    worker.looks_until_it_kills()
    assert PATIENCE_S <= worker.now_s - began_s <= PATIENCE_S + 2 * LOOK_S


def test_it_is_killed_again_if_it_does_not_go() -> None:
    """But not at each look."""
    worker = Worker()
    worker.looks_until_it_kills()
    assert worker.looks_until_it_kills() > PATIENCE_S / LOOK_S


def test_a_slow_publisher_is_waited_for() -> None:
    """However long its loop is held up, by a disk or a large state: that is said once, and that it is back."""
    worker = Worker()
    news = [worker.look() for _ in range(3600)]
    assert [one for one in news if one is not News.NONE] == [News.SILENT]
    assert news.index(News.SILENT) * LOOK_S == pytest.approx(PATIENCE_S, abs=LOOK_S)
    assert [worker.look(shows_life=True) for _ in range(2)] == [News.BACK, News.NONE]


def test_a_slow_publisher_that_is_stopped_for_a_moment_is_waited_for() -> None:
    """It counts for how long it is stopped, not for how long it has been silent."""
    worker = Worker()
    for _ in range(100):
        assert worker.look() in {News.NONE, News.SILENT}
    for _ in range(100):
        assert [worker.look(is_stopped=stopped) for stopped in (True, True, True, False)] == [News.NONE] * 4


def test_a_stopped_publisher_that_is_continued_is_left_alone() -> None:
    """Its sign of life may come before its process is seen to run."""
    worker = Worker()
    for _ in range(10):
        for _ in range(4):
            assert worker.look(is_stopped=True) is News.NONE
        assert worker.look(shows_life=True, is_stopped=True) is News.NONE


@pytest.mark.parametrize("away_s", [10.0, 1e6])
def test_time_in_which_the_worker_does_not_look_does_not_count(away_s: float) -> None:
    """The worker was stopped, or the machine suspended, and the clock has jumped: the publisher has its time again."""
    worker = Worker()
    worker.look(shows_life=True)
    assert worker.look(after_s=away_s) is News.NONE
    assert worker.look(is_stopped=True, after_s=away_s) is News.NONE
    assert worker.looks_until_it_kills() >= 3
