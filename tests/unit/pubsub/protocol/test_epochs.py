"""The states of epochs, the assembly of whole ones, and the items that wait until a frontier has passed them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tidewheel.progress import Antichain, IntegerDomain, ProductDomain, ProtocolError, TimeDomain
from tidewheel.progress.time_domain import Time
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.events import Batch, End, Frontier, RolledBack, SubscriberStatistics
from tidewheel.pubsub.protocol.epochs import EpochAssembler, EpochStates, WaitingEpochs

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)
MANY = 1_000

VOID_AND_OTHERS = [(1, 0, 9), (2, 0, 5), (2, 0, 6), (2, 1, 7), (3, 0, 8)]
"""Time, partition and number of batches, of which those of partition 0 behind number 5, from time 2 on, are void."""

pairs = st.tuples(st.integers(0, 4), st.integers(0, 4))


def batch(time: Any, partition: int = 0, records: Iterable[Any] = (0,)) -> Batch:
    return Batch(time, partition, encode_batch(time, list(records)), SubscriberStatistics())


def frontier(domain: TimeDomain, *times: Any) -> Frontier:
    return Frontier(Antichain(domain, times))


def test_an_epoch_comes_once_nothing_of_it_can_come() -> None:
    """Not with its last batch but with the frontier; with all batches, ordered by partition."""
    assembler = EpochAssembler(INTEGERS)
    for event in (batch(1, 1, "b"), batch(1, 0, "a"), batch(1, 1, "c"), frontier(INTEGERS, 1)):
        assert assembler.receive(event) == []
    [epoch] = assembler.receive(frontier(INTEGERS, 2))
    assert (epoch.time, epoch.records) == (1, ["a", "b", "c"])
    assert assembler.receive(frontier(INTEGERS)) == []
    assert assembler.receive(End()) == []


def test_epochs_without_data_do_not_come() -> None:
    """The frontier may pass many times; only those with batches are epochs."""
    assembler = EpochAssembler(INTEGERS)
    assembler.receive(batch(5))
    assert [epoch.time for epoch in assembler.receive(frontier(INTEGERS, 100))] == [5]


def test_whatever_the_order_of_arrival_no_epoch_comes_before_an_earlier_one() -> None:
    """Integers come out sorted."""
    assembler = EpochAssembler(INTEGERS)
    for time in (3, 1, 4, 0, 5, 9, 2, 6):
        assembler.receive(batch(time))
    assert len(assembler) == 8
    assert [epoch.time for epoch in assembler.receive(frontier(INTEGERS))] == [0, 1, 2, 3, 4, 5, 6, 9]


def test_unordered_epochs_come_as_they_arrived() -> None:
    """Among times that the order does not relate, the first to arrive is the first to come."""
    assembler = EpochAssembler(PAIRS)
    for time in ((2, 0), (0, 2), (1, 1), (0, 0)):
        assembler.receive(batch(time))
    assert [epoch.time for epoch in assembler.receive(frontier(PAIRS))] == [(0, 0), (2, 0), (0, 2), (1, 1)]


def test_in_a_partial_order_an_epoch_waits_only_for_what_is_before_it() -> None:
    """An element of the frontier holds back what is at or after it, and nothing else."""
    assembler = EpochAssembler(PAIRS)
    for time in ((0, 5), (3, 0), (3, 5)):
        assembler.receive(batch(time))
    assert [epoch.time for epoch in assembler.receive(frontier(PAIRS, (1, 1)))] == [(0, 5), (3, 0)]
    assert [epoch.time for epoch in assembler.receive(frontier(PAIRS))] == [(3, 5)]


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


def state(epochs: EpochStates, time: int) -> str:
    """Return completed, active or latent, by its first letter."""
    if epochs.is_completed(time):
        return "c"
    return "a" if time in epochs.active else "l"


def test_states_follow_data_and_frontier() -> None:
    """The seed's example: completed 0 to 2, active 3 and 5, latent 4, 6, 7 and so on."""
    epochs = EpochStates(IntegerDomain())
    epochs.observe(5)
    epochs.observe(3)
    epochs.advance([(0, -1), (3, 1)])
    assert "".join(state(epochs, time) for time in range(8)) == "cccalall"
    assert epochs.upper() == [5]
    assert list(epochs.lower) == [3]


def test_the_upper_frontier_is_the_maximal_active_epochs() -> None:
    """In a partial order it is an antichain, from which completed epochs are gone."""
    epochs = EpochStates(ProductDomain(IntegerDomain(), IntegerDomain()))
    for time in [(0, 2), (0, 1), (3, 0), (1, 1), (0, 2)]:
        epochs.observe(time)
    assert set(epochs.upper()) == {(0, 2), (3, 0), (1, 1)}
    epochs.advance([((0, 0), -1), ((1, 0), 1)])
    assert set(epochs.upper()) == {(3, 0), (1, 1)}
    assert len(epochs.active) == 2
    epochs.advance([((1, 0), -1)])
    assert epochs.upper() == []


def test_data_of_a_completed_epoch_is_refused() -> None:
    """Nobody may send at a time that the frontier has passed."""
    epochs = EpochStates(IntegerDomain())
    epochs.advance([(0, -1), (2, 1)])
    with raises(ProtocolError):
        epochs.observe(1)


def test_a_frontier_that_moves_back_is_refused() -> None:
    """A lower bound that was given cannot be taken back, not even an empty one."""
    epochs = EpochStates(IntegerDomain())
    epochs.advance([(0, -1), (2, 1)])
    with raises(ProtocolError):
        epochs.advance([(1, 1)])
    ended = EpochStates(IntegerDomain())
    ended.advance([(0, -1)])
    with raises(ProtocolError):
        ended.advance([(9, 1)])


def test_a_move_costs_what_it_completes() -> None:
    """However many epochs are open, in whichever order they have begun: a worker may be far ahead of the others."""
    domain = Counting()
    for times in (range(MANY), range(MANY - 1, -1, -1)):
        epochs = EpochStates(domain)
        for time in times:
            epochs.observe(time)
        Counting.compared = 0
        for time in range(MANY):
            epochs.advance([(time, -1), (time + 1, 1)])
            assert epochs.completed == [time]
        assert Counting.compared < 40 * MANY


@given(st.lists(st.one_of(pairs, st.lists(pairs, max_size=3))))
def test_the_active_epochs_are_those_that_a_search_through_all_finds(steps: list[Time]) -> None:
    """After each move, in the order in which they began; and those that are gone are completed, each once."""
    epochs = EpochStates(PAIRS)
    active: list[Time] = []
    for step in steps:
        if isinstance(step, tuple):
            if not epochs.is_completed(step):
                epochs.observe(step)
                active += [] if step in active else [step]
        else:
            after = Antichain(PAIRS, [(max(a, b), max(c, d)) for a, c in epochs.lower for b, d in step])
            before, epochs_before = epochs.lower, active
            epochs.advance([*((time, -1) for time in before), *((time, 1) for time in after)])
            active = [time for time in active if after.less_equal(time)]
            assert sorted(epochs.completed) == sorted(set(epochs_before) - set(active))
        assert list(epochs.active) == active


def test_void_batches_are_not_assembled() -> None:
    """Only those of one partition that came last, of epochs that are not complete; an epoch of nothing else is none."""
    assembler = EpochAssembler(INTEGERS)
    numbered = [replace(batch(time, partition), number=number) for time, partition, number in VOID_AND_OTHERS]
    for one in numbered:
        assembler.receive(one)
    size_bytes = assembler.size_bytes
    assert assembler.receive(RolledBack(0, 5, Antichain(INTEGERS, [2]))) == []
    left = [
        (one.time, one.partition, one.number)
        for epoch in assembler.receive(frontier(INTEGERS))
        for one in epoch.batches
    ]
    assert left == [(1, 0, 9), (2, 0, 5), (2, 1, 7)]
    assert size_bytes == len(numbered) * len(numbered[0].encoded.payload)
