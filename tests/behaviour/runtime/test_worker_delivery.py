"""Workers whose envelopes are reordered, repeated or lost on the way."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.runtime.busy_flow import busy_flow, collected, plain_counts
from tests.kit.runtime.inboxes import missing
from tests.kit.runtime.worker_group import WorkerGroup
from tests.laws.strategies import SEEDS, law_settings
from tidewheel.progress import ProtocolError
from tidewheel.runtime.messages.envelope import Envelope

FEEDS = st.lists(st.lists(st.integers(0, 40), max_size=5), max_size=4)


def run_badly(group: WorkerGroup, random: Random) -> None:
    """Deliver in any order, some envelopes twice, some very late, with steps in between, until all is done."""
    delivered: list[tuple[int, Envelope]] = []
    workers = range(len(group.cores))
    while any(group.in_flight) or not all(core.is_idle for core in group.cores):
        worker = random.choice(workers)
        waiting = group.in_flight[worker]
        if waiting and random.random() < 0.7:
            index = random.randrange(len(waiting))
            envelope = waiting[index]
            del waiting[index]
            group.cores[worker].receive(envelope)
            delivered.append((worker, envelope))
        if delivered and random.random() < 0.3:
            receiver, envelope = random.choice(delivered)
            group.cores[receiver].receive(envelope)
        if random.random() < 0.5:
            group.step(worker)


@law_settings(40)
@given(FEEDS, st.integers(1, 3), SEEDS)
def test_any_order_and_any_repetition_gives_the_right_results(epochs: list[list[int]], workers: int, seed: int) -> None:
    """Each record is counted once and no time is sent before it is complete, however envelopes travel; all ends."""
    group = WorkerGroup(busy_flow(), workers)
    group.feed("numbers", *epochs)
    run_badly(group, Random(seed))
    assert group.is_complete
    assert collected(group.captured("counts")) == plain_counts(epochs)
    assert [missing(core._inbox) for core in group.cores] == [{}] * workers


def loaded_group() -> tuple[WorkerGroup, list[list[int]]]:
    """Return two workers with work for both before their first step."""
    group = WorkerGroup(busy_flow(), 2)
    epochs = [[1, 2, 3, 4, 5, 6, 7], [8, 9], [10]]
    group.feed("numbers", *epochs)
    return group, epochs


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_behind_a_lost_envelope_everything_waits(lost: int) -> None:
    """Nothing of a sender is taken in after a gap: the inbox tells which envelope is missing, and no time completes."""
    group, epochs = loaded_group()
    lost_ones: list[Envelope] = []
    for _ in range(50):
        for worker in range(2):
            for envelope in list(group.in_flight[worker]):
                if (worker, envelope.sender, envelope.sequence) == (1, 0, lost):
                    lost_ones.append(envelope)
                    group.in_flight[worker].remove(envelope)
            group.deliver(worker)
            group.step(worker)
    assert len(lost_ones) == 1
    assert all(core.is_idle for core in group.cores)
    assert missing(group.cores[1]._inbox) == {0: lost}
    assert not group.cores[1].is_complete
    assert len(group.cores[1].probes.frontier("done")) > 0
    assert collected(group.captured("counts")).keys() < plain_counts(epochs).keys()
    group.cores[1].receive(lost_ones[0])
    group.run()
    assert group.is_complete
    assert missing(group.cores[1]._inbox) == {}
    assert collected(group.captured("counts")) == plain_counts(epochs)


def test_a_command_of_the_driver_waits_for_those_before_it() -> None:
    """A close that overtakes the last batch does not cut it off."""
    group = WorkerGroup(busy_flow(), 1)
    group.send("numbers", [5])
    group.close("numbers")
    group.in_flight[0].reverse()
    group.run()
    assert group.is_complete
    assert collected(group.captured("counts")) == plain_counts([[5]])


@pytest.mark.parametrize("restarted", [0, 1])
def test_a_worker_that_restarts_is_refused(restarted: int) -> None:
    """It lost its state, so its peers must not go on with it: an envelope of another incarnation is an error."""
    group, _ = loaded_group()
    other = 1 - restarted
    group.deliver(restarted)
    group.step(restarted)
    group.deliver(other)
    again = WorkerGroup(busy_flow(), 2, incarnation=1)
    again.feed("numbers", [1, 2, 3])
    again.deliver(restarted)
    [(receiver, envelope)] = again.step(restarted)
    assert receiver == other
    with pytest.raises(ProtocolError, match=rf"sender {restarted} was incarnation 0 and is now 1: it has restarted"):
        group.cores[other].receive(envelope)


def test_repeated_envelopes_are_counted() -> None:
    """Repetitions leave no trace but a number."""
    group, epochs = loaded_group()
    repeated: list[Any] = []
    for _ in range(50):
        for worker in range(2):
            repeated.append(len(group.in_flight[worker]))
            for envelope in list(group.in_flight[worker]):
                group.cores[worker].receive(envelope)
            group.deliver(worker)
            group.step(worker)
    assert group.is_complete
    assert sum(core._inbox.duplicates for core in group.cores) == sum(repeated) > 0
    assert collected(group.captured("counts")) == plain_counts(epochs)
