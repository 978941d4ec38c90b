"""The lag behind the inputs, by epochs and seconds."""

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.console.page.lag import Front, Lag, outer_epoch


def test_an_epoch_is_the_outermost_whole_number_of_all_times() -> None:
    """A frontier with a time of another kind has none: a wrong lag is worse than no lag."""
    assert outer_epoch(["((7, 1), 3)", "(9, 0)"]) == 7
    assert outer_epoch(["-1"]) == -1
    assert outer_epoch(["3", "1.5"]) is None
    assert outer_epoch(["'3'"]) is None
    assert outer_epoch([]) is None


def test_a_frontier_at_the_inputs_has_no_lag() -> None:
    """So an idle job shows none, however long it waits."""
    front = Front()
    assert front.lag_of(0, at=5.0) == Lag(0, 0.0)
    front.reach(4, at=1.0)
    assert front.lag_of(4, at=100.0) == Lag(0, 0.0)
    assert front.lag_of(9, at=100.0) == Lag(0, 0.0)


def test_seconds_count_from_the_moment_at_which_the_inputs_went_on() -> None:
    """Not from the moment at which they reached the epoch."""
    front = Front()
    for epoch, at in [(3, 1.0), (4, 50.0), (5, 51.0)]:
        front.reach(epoch, at)
    assert front.lag_of(3, at=52.0) == Lag(2, 2.0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=30), st.integers(-1, 21))
def test_lag_agrees_with_a_search_of_all_moments(steps: list[tuple[int, int]], epoch: int) -> None:
    """Also where an input goes back, as after a crash."""
    front, at, moments = Front(), 0.0, []
    for reached, later in steps:
        at += later
        front.reach(reached, at)
        moments.append((reached, at))
    highest = max((reached for reached, _ in moments), default=epoch)
    since = next((moment for reached, moment in moments if reached > epoch), at)
    assert front.lag_of(epoch, at) == Lag(max(0, highest - epoch), at - since)


def test_memory_is_bounded() -> None:
    """A job that runs for weeks keeps an hour of moments."""
    front = Front()
    for second in range(4000):
        front.reach(second, float(second))
    assert len(vars(front)["_epochs"]) == len(vars(front)["_since"]) == 3600
    assert front.lag_of(0, at=4000.0) == Lag(3999, 3600.0)
