"""The consistent cut as one worker sees it: when it begins, what is late, and when nothing can be late any more."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.runtime.state.cut import Cut


def test_a_worker_without_peers_waits_for_nobody() -> None:
    """What begins the snapshot is also the last that it waits for."""
    cut = Cut()
    cut.begin(1, [-1])
    assert cut.arrived(-1, 1)
    assert cut.settled == cut.number


def test_late_is_what_comes_of_the_old_number_while_the_cut_is_open() -> None:
    """Of whichever older number, and no more once each member has been heard of."""
    cut = Cut(3)
    assert not cut.is_late(2)
    cut.begin(5, [1, 2])
    assert (cut.is_late(4), cut.is_late(3), cut.is_late(5)) == (True, True, False)
    assert not cut.arrived(1, 4)
    assert not cut.arrived(1, 5)
    assert not cut.arrived(1, 5)
    assert cut.is_late(4)
    assert cut.arrived(2, 5)
    assert not cut.is_late(4)


def test_a_newer_snapshot_ends_the_one_under_way() -> None:
    """It waits for all members anew, and what was late of the older one does not end it."""
    cut = Cut()
    cut.begin(1, [1, 2])
    cut.arrived(1, 1)
    assert cut.begins(2)
    cut.begin(2, [1, 2])
    assert not cut.arrived(2, 1)
    assert not cut.arrived(2, 2)
    assert cut.arrived(1, 2)


@pytest.mark.parametrize("last", [1, 2])
def test_a_feeder_that_leaves_is_not_waited_for(last: int) -> None:
    """Be it the last or not; one that is unknown changes nothing."""
    cut = Cut()
    cut.begin(1, [])
    cut.wait_for([1, 2])
    assert not cut.gone(7, 0)
    assert not cut.gone(3 - last, 0)
    assert cut.gone(last, 0)
    assert cut.settled == cut.number


def test_feeders_are_waited_for_that_worker_0_names() -> None:
    """Others, which come later, are not; one whose first envelope of the number was here before is through."""
    cut = Cut()
    cut.begin(1, [0])
    cut.arrived(-5, 1)
    cut.wait_for([-5, -6])
    assert not cut.arrived(0, 1)
    assert not cut.arrived(-7, 1)
    assert cut.arrived(-6, 1)


def test_a_feeder_that_has_left_before_the_cut_is_not_waited_for() -> None:
    """Worker 0 is left last, so it may still name it: in this snapshot, and in the next one."""
    cut = Cut()
    cut.gone(-5, 0)
    for number in (1, 2):
        cut.begin(number, [0])
        cut.wait_for([-5])
        assert cut.arrived(0, number)


def test_a_feeder_that_came_after_worker_0_had_begun_may_be_named_next() -> None:
    """It has left this worker in the snapshot that worker 0 begins without it; then it is forgotten for good."""
    cut = Cut()
    cut.gone(-5, 1)
    for number, named in ((1, []), (2, [-5]), (3, [])):
        cut.begin(number, [0])
        cut.wait_for(named)
        assert cut.arrived(0, number)
    assert not cut._left


@given(st.integers(1, 4), st.integers(0, 2**32))
def test_each_channel_is_cut_at_the_senders_number(members: int, seed: int) -> None:
    """What a member has sent before its cut is in the receiver's part or in its state, and nothing else is."""
    random = Random(seed)
    channels = {member: [0] * random.randrange(4) + [1] * random.randrange(1, 4) for member in range(members)}
    before = {member: channel.count(0) for member, channel in channels.items()}
    cut = Cut()
    applied = dict.fromkeys(range(members), 0)
    late = dict.fromkeys(range(members), 0)
    taken = False
    while any(channels.values()):
        member = random.choice([member for member, channel in channels.items() if channel])
        number = channels[member].pop(0)
        if cut.begins(number):
            cut.begin(number, range(members))
            taken = True
        elif cut.is_late(number):
            late[member] += 1
        if not taken:
            applied[member] += 1
        cut.arrived(member, number)
    assert cut.settled == cut.number
    assert {member: applied[member] + late[member] for member in range(members)} == before
