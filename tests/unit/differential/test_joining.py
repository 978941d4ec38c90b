"""A join is right at every time of a partial order, however its updates arrive and whoever shares its arrangements."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.collections.plain_collection import PlainCollection
from tests.laws.strategies import law_settings
from tidewheel.differential.joining import Join
from tidewheel.differential.records import encode
from tidewheel.differential.shared_arrangement import MAIN, Number, SharedArrangement
from tidewheel.differential.updates import MOST_KEYS, FlatTime

Times = st.tuples(st.integers(0, 2), st.integers(0, 2))
Pairs = st.tuples(st.sampled_from((0, 1, 2.0, "a")), st.integers(0, 2))
Batches = st.tuples(Times, st.lists(st.tuples(Pairs, st.sampled_from((1, -1, 2))), min_size=1, max_size=4))
Steps = st.lists(st.one_of(st.tuples(st.integers(0, 1), Batches), st.integers(0, 5)), max_size=12)
"""Updates of the left or the right side, or the number of a queue from which a join receives."""


def less_equal(one: FlatTime, other: FlatTime) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


class Joins:
    """Joins of the same two arrangements, of the left one with itself, and of the right one with the left one."""

    def __init__(self, depths: tuple[int, int]) -> None:
        self.sides = [SharedArrangement(depth, "test") for depth in depths]
        self.which = ((0, 1), (0, 0), (1, 0))
        self.joins = [
            Join(2, f"join {number}", [self.sides[left], self.sides[right]])
            for number, (left, right) in enumerate(self.which)
        ]
        self.queues: list[list[Number]] = [[] for _ in range(6)]
        self.found: list[list[Any]] = [[], [], []]

    def add(self, side: int, time: FlatTime, updates: list[Any]) -> None:
        """Arrange updates; the joins are told of them, and receive that later."""
        array = encode([record for record, _ in updates], [count for _, count in updates])
        number = self.sides[side].receive(0, time, [array])
        if number is not None:
            for queue, of in zip(self.queues, (side for pair in self.which for side in pair), strict=True):
                if of == side:
                    queue.append(number)

    def receive(self, queue: int) -> None:
        """Have a join receive all that is in one of its two queues."""
        join, side = divmod(queue, 2)
        numbers, self.queues[queue] = self.queues[queue], []
        for joined in self.joins[join].receive(side, [[number] for number in numbers]):
            rows = zip(*(one.tolist() for one in (*joined.columns, *joined.times, joined.diffs)), strict=True)
            self.found[join] += [((e, r), (key, (left, right)), diff) for key, left, right, e, r, diff in rows]


@law_settings(80)
@given(Steps, st.tuples(st.integers(1, 2), st.integers(1, 2)))
def test_the_result_is_right_at_every_time(steps: list[Any], depths: tuple[int, int]) -> None:
    """Each pair of updates meets once, at the least upper bound of its times, of which some lack the round."""
    joins = Joins(depths)
    known: tuple[list[Any], list[Any]] = ([], [])
    for step in steps:
        if isinstance(step, int):
            joins.receive(step)
        else:
            side, (time, updates) = step
            joins.add(side, time[: depths[side]], updates)
            known[side].extend(((*time[: depths[side]], 0)[:2], record, count) for record, count in updates)
    for queue in range(6):
        joins.receive(queue)
    assert all(list(side.spines) == [MAIN] for side in joins.sides), "all have received all"
    for time in [(epoch, number) for epoch in range(3) for number in range(3)]:
        sides = [accumulated(updates, time) for updates in known]
        for (left, right), found in zip(joins.which, joins.found, strict=True):
            assert accumulated(found, time).counts == sides[left].join(sides[right]).counts


def accumulated(updates: list[Any], time: FlatTime) -> PlainCollection:
    sums: Counter[Any] = Counter()
    for at, record, count in updates:
        if less_equal(at, time):
            sums[record] += count
    return PlainCollection(sums)


def test_a_side_that_nobody_joins_any_more_is_dropped() -> None:
    """The end of one input frees the arrangement of the other."""
    left, right = SharedArrangement(1, "test"), SharedArrangement(1, "test")
    join = Join(1, "join", [left, right])
    for epoch in range(2):
        number = left.receive(0, (epoch,), [encode([(1, 2)])])
        assert number is not None
        assert not list(join.receive(0, [[number]]))
        join.let_go(left=(1,), right=None)
        assert len(left.spines[MAIN]) == 0


def test_it_receives_no_more_once_there_is_much() -> None:
    """What reads the result can read what there is, before the rest is made."""
    left, right = SharedArrangement(1, "left"), SharedArrangement(1, "right")
    join = Join(1, "join", [left, right])
    assert right.receive(0, (0,), [encode([(key, 0) for key in range(10)])]) == (0, 0)
    assert not list(join.receive(1, [[(0, 0)]]))
    numbers = [left.receive(0, (0,), [encode([(key % 10, key) for key in range(MOST_KEYS // 2)])]) for _ in range(4)]
    arriving = iter([[number] for number in numbers if number is not None])
    assert sum(len(joined.diffs) for joined in join.receive(0, arriving)) == MOST_KEYS // 2
    assert len(list(arriving)) == 2
