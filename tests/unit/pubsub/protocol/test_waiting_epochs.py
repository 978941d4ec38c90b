"""`WaitingEpochs`: what a frontier has passed, in order, without looking at what it has not."""

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.progress import Antichain, IntegerDomain, ProductDomain
from tidewheel.progress.time_domain import Time
from tidewheel.pubsub.protocol.waiting_epochs import WaitingEpochs

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)
MANY = 1_000

pairs = st.tuples(st.integers(0, 4), st.integers(0, 4))


class Counting(IntegerDomain):
    """Integers that count their comparisons."""

    __slots__ = ()
    compared = 0

    def less_equal(self, a: Time, b: Time) -> bool:
        Counting.compared += 1
        return bool(a <= b)


def test_a_frontier_does_not_look_at_all_that_waits() -> None:
    """The cost of an epoch does not grow with the epochs that wait, in whichever order they came."""
    domain = Counting()
    for times in (range(MANY), range(MANY - 1, -1, -1)):
        waiting = WaitingEpochs[Time](domain)
        Counting.compared = 0
        for time in times:
            waiting.at(time)
        passed = [waiting.take_passed(Antichain(domain, [frontier])) for frontier in range(MANY + 1)]
        assert passed == [[], *([(time, [])] for time in range(MANY))]
        assert Counting.compared < 30 * MANY


@given(st.lists(st.one_of(pairs, st.lists(pairs, max_size=3))))
def test_times_that_are_in_no_order_come_as_a_frontier_passes_them(steps: list[Time]) -> None:
    """Each once, none before an earlier one; as many as in a search through all of them."""
    waiting, expected = WaitingEpochs[Time](PAIRS), set()
    for step in steps:
        if isinstance(step, tuple):
            waiting.at(step).append(step)
            expected.add(step)
        else:
            frontier = Antichain(PAIRS, step)
            passed = [time for time, items in waiting.take_passed(frontier) if set(items) == {time}]
            assert set(passed) == {time for time in expected if not frontier.less_equal(time)}
            assert len(passed) == len(set(passed))
            assert not any(PAIRS.less_than(late, early) for at, early in enumerate(passed) for late in passed[at:])
            expected.difference_update(passed)
        assert len(waiting) == len(expected)


def test_unordered_times_come_as_they_were_added() -> None:
    """And before all that are after them."""
    waiting = WaitingEpochs[Time](PAIRS)
    for time in ((2, 0), (0, 2), (1, 1), (0, 0), (0, 2)):
        waiting.at(time)
    assert [time for time, _ in waiting.take_passed(Antichain(PAIRS))] == [(0, 0), (2, 0), (0, 2), (1, 1)]
