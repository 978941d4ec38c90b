"""The unanswered questions of a relay: none is asked twice at a time, and none is remembered for ever."""

from tidewheel.pubsub.exactly_once.asked import Asked
from tidewheel.pubsub.exactly_once.round_trips import FIRST_S, LEAST_S, MOST_S, RoundTrips
from tidewheel.pubsub.messages.tick_set import FOREVER, TickSet


def ticks(*ranges: tuple[int, int]) -> TickSet:
    return TickSet(ranges)


def test_what_is_asked_is_not_asked_again_until_it_is_late() -> None:
    """Only what nobody has asked for yet, and then, all of it once more, a wait that is twice as long."""
    asked = Asked()
    assert asked.ask(ticks((0, 10)), 0.0) == ticks((0, 10))
    assert asked.ask(ticks((5, 20)), 0.9 * FIRST_S) == ticks((10, 20))
    assert asked.ask(ticks((0, 10)), 1.1 * FIRST_S) == ticks((0, 10))
    assert asked.ask(ticks((0, 10)), 3.0 * FIRST_S) == ticks()
    assert asked.ask(ticks((0, 10)), 3.2 * FIRST_S) == ticks((0, 10))


def test_what_is_answered_may_be_asked_again_at_once() -> None:
    """And the rest may not."""
    asked = Asked()
    asked.ask(ticks((0, 10)), 0.0)
    asked.answered(ticks((0, 5), (7, 8)), 0.1, more=False)
    assert asked.ask(ticks((0, 10)), 0.1) == ticks((0, 5), (7, 8))


def test_an_answer_that_leaves_something_out_is_one_to_all_behind_it() -> None:
    """What there was no room for nobody will send."""
    asked = Asked()
    asked.ask(ticks((0, 10), (20, 30)), 0.0)
    asked.answered(ticks((2, 5)), 0.1, more=True)
    assert asked.ask(ticks((0, 40)), 0.1) == ticks((2, 40))


def test_an_answer_without_a_tick_that_leaves_something_out_is_one_to_every_question() -> None:
    """A parent that has just sent the ticks to all its children leaves them out of the answer."""
    asked = Asked()
    asked.ask(ticks((0, 10)), 0.0)
    asked.answered(ticks(), 0.1, more=False)
    assert asked.ask(ticks((0, 10)), 0.1) == ticks()
    asked.answered(ticks(), 0.1, more=True)
    assert asked.ask(ticks((0, 10)), 0.1) == ticks((0, 10))


def test_a_question_without_an_end_is_answered_by_what_comes() -> None:
    """From there on: else it would count as asked in vain whenever somebody asks for what is next."""
    asked = Asked()
    for number in range(20):
        tick, now_s = 10 * number, 10.0 * number
        assert asked.ask(ticks((tick, FOREVER)), now_s) == ticks((tick, FOREVER))
        assert asked.ask(ticks((tick, FOREVER)), now_s + 0.9 * FIRST_S) == ticks()
        asked.answered(ticks((tick, tick + 10)), now_s + 0.9 * FIRST_S, more=False)
        assert len(asked.questions) == 0


def test_questions_that_nobody_repeats_are_forgotten() -> None:
    """However many answers get lost, and however often those who asked have gone."""
    asked = Asked()
    for number in range(10_000):
        asked.ask(ticks((number, number + 1)), float(number))
    assert len(asked.questions) < 10 * MOST_S


def test_another_peer_is_asked_everything_again() -> None:
    """It knows nothing of what was asked before."""
    asked = Asked()
    asked.ask(ticks((0, 10)), 0.0)
    asked.questions.clear()
    assert asked.ask(ticks((0, 10)), 0.0) == ticks((0, 10))


def test_the_wait_follows_what_answers_take() -> None:
    """Longer than they mostly take, and between a least and a most."""
    trips = RoundTrips()
    for _ in range(100):
        trips.learn(0.1)
    assert 0.1 <= trips.wait_s(0) < 0.15
    for number in range(100):
        trips.learn(0.1 + 0.1 * (number % 2))
    assert trips.wait_s(0) > 0.2
    for _ in range(100):
        trips.learn(0.0)
    assert trips.wait_s(0) == LEAST_S
    assert trips.wait_s(100) == MOST_S
    trips.learn(1000.0)
    assert trips.wait_s(0) == MOST_S
