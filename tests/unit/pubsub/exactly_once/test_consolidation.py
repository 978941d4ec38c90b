"""Acknowledgements of many readers in one: nobody is taken to have acknowledged what it has not."""

from random import Random

import pytest

from tidewheel.pubsub.exactly_once.consolidation import Consolidation, Readers, of_one
from tidewheel.pubsub.messages.delivery_messages import ConsolidatedAck


def told(consolidation: Consolidation) -> ConsolidatedAck:
    [ack] = consolidation.take()
    return ack


def test_a_parent_that_has_missed_a_name_learns_nothing() -> None:
    """Until all are named: neither that the others have acknowledged more, nor who has gone."""
    relay, parent = Consolidation(0), Readers()
    relay.hear("a", of_one(0, "a", 10))
    assert parent.learn(told(relay)) == ({"a"}, set())
    relay.hear("b", of_one(0, "b", 5))
    told(relay)
    relay.hear("a", of_one(0, "a", 20))
    relay.hear("c", of_one(0, "c", 30))
    assert parent.learn(told(relay)) is None
    assert (parent.names, parent.end) == ({"a"}, 10)
    relay.name_all()
    assert parent.learn(told(relay)) == ({"b", "c"}, set())
    assert (parent.names, parent.end) == ({"a", "b", "c"}, 5)


def test_a_reader_behind_two_children_counts_until_both_have_lost_it() -> None:
    """It has moved from one to the other, and the first has not noticed that."""
    relay, parent = Consolidation(0), Readers()
    for child, end in (("relay/1", 10), ("relay/2", 20)):
        relay.hear(child, of_one(0, "moving", end))
    parent.learn(told(relay))
    assert (parent.names, parent.end) == ({"moving"}, 10)
    relay.leave("relay/1")
    assert parent.learn(told(relay)) == (set(), set())
    assert (parent.names, parent.end) == ({"moving"}, 20)
    relay.leave("relay/2")
    assert parent.learn(told(relay)) == (set(), {"moving"})


def test_progress_shows_while_any_reader_reads() -> None:
    """Though the slowest one does not: a publisher that ends waits as long as somebody reads."""
    relay = Consolidation(0)
    relay.hear("stuck", of_one(0, "stuck", 1))
    seen = set()
    for end in range(5):
        relay.hear("reading", of_one(0, "reading", end))
        seen.add(told(relay).progress)
    assert len(seen) == 5
    relay.hear("reading", of_one(0, "reading", 4))
    assert told(relay).progress in seen


@pytest.mark.parametrize("seed", range(30))
def test_what_a_parent_knows_is_true_whatever_is_lost(seed: int) -> None:
    """Messages are lost, come twice and out of order; at no time is a known end behind a position of a known reader."""
    random = Random(seed)
    relay, parent = Consolidation(0), Readers()
    ends: dict[str, int] = {}
    once_at: dict[str, int] = {}  # how far each reader was when it was there last
    under_way: list[ConsolidatedAck] = []
    for _ in range(400):
        child = f"reader {random.randrange(6)}"
        if random.random() < 0.2:
            relay.leave(child)
            ends.pop(child, None)
        else:
            once_at[child] = ends[child] = once_at.get(child, 0) + random.randrange(5)
            relay.hear(child, of_one(0, child, ends[child]))
        if random.random() < 0.5:
            under_way += relay.take()
        while under_way and random.random() < 0.6:
            ack = random.choice(under_way)
            if random.random() < 0.7:
                under_way.remove(ack)
            if random.random() < 0.3:
                continue
            if parent.learn(ack) is None:
                relay.name_all()
        for name in parent.names:
            assert parent.end <= once_at[name], (seed, name)
    relay.name_all()
    assert parent.learn(told(relay)) is not None
    assert (parent.names, parent.end) == (set(ends), min(ends.values(), default=parent.end)), seed
