"""Partitions that go back one after the other, and several times; `tests/protocol/test_going_back.py` has the whole."""

from tidewheel.pubsub.messages.wire import WentBack
from tidewheel.pubsub.protocol.generations import Generations


def started(*generations: int) -> Generations:
    found = Generations(len(generations))
    for partition, generation in enumerate(generations):
        found.snapshot(partition, 10, generation)
    found.start()
    return found


def test_a_partition_that_joined_later_waits_for_the_others() -> None:
    """Its snapshot is of a later generation, so it has nothing to take back."""
    generations = started(0, 1)
    assert [generations.is_ahead(0), generations.is_ahead(1)] == [False, True]
    back = WentBack(1, 7, [2])
    generations.go_back(0, 12, back)
    assert generations.take() == [(0, 12, back)]
    assert not generations.is_ahead(1)


def test_the_first_return_counts_as_long_as_it_stands() -> None:
    """A second one that voids only what waits leaves it; one that voids the first takes its place."""
    for number, stands in ((20, True), (5, False)):
        generations = started(0, 0)
        first, second = WentBack(1, 11, [2]), WentBack(2, number, [1])
        generations.go_back(0, 15, first)
        generations.go_back(0, 30, second)
        assert generations.lower_of(0, [9]) == ([2] if stands else [1])
        assert generations.take() is None
        other = WentBack(2, 11, [2])
        generations.go_back(1, 15, other)
        assert generations.take() == [(0, 15, first) if stands else (0, 30, second), (1, 15, other)]


def test_a_return_before_the_start_moves_the_beginning() -> None:
    """Nothing has been delivered, so there is nothing to void."""
    generations = Generations(2)
    generations.snapshot(0, 10, 0)
    generations.go_back(0, 12, WentBack(1, 4, [3]))
    generations.snapshot(1, 10, 1)
    assert generations.lower_of(0, [8]) == [3]
    assert generations.start() == [(0, 12, WentBack(1, 4, [3]))]
    assert generations.take() is None
    assert not generations.is_ahead(0)
