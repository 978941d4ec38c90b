"""The clock of a pubend: it follows the pace of the real clock, and what others have reached."""

import pytest

from tidewheel.pubsub.exactly_once.tick_clock import TickClock

HOUR = 3_600_000_000


@pytest.mark.parametrize("step", [-HOUR, -1, 1, HOUR])
def test_a_step_of_the_real_clock_does_not_stop_it(step: int) -> None:
    """It goes on at the pace of the real clock from then on, and never back."""
    clock = TickClock(0)
    before = clock.at(HOUR)
    after = clock.at(HOUR + step)
    assert after == before + max(0, step)
    assert clock.at(HOUR + step + 10) == after + 10


def test_it_goes_on_from_what_others_have_reached() -> None:
    """And does not fall behind them again, as its pace is the same."""
    clock = TickClock(50)
    assert [clock.at(now) for now in (10, 20)] == [50, 60]
    clock.reach(HOUR)
    clock.reach(70)
    assert [clock.at(now) for now in (20, 25)] == [HOUR, HOUR + 5]
