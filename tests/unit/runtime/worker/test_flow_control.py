"""`FlowControl`: who answers for which bytes, when sources wait, and what peers have to be told."""

from tidewheel.runtime.messages.credit import Credit
from tidewheel.runtime.worker.flow_control import FlowControl

LIMIT = 800


def account(worker: int = 0, workers: int = 2) -> FlowControl:
    return FlowControl(worker, workers, LIMIT)


def held(flow: FlowControl) -> bool:
    """Ask anew each time."""
    return flow.is_held


def test_sources_wait_above_the_limit_until_half_of_it() -> None:
    """Both are said to all peers, once each."""
    flow = account()
    flow.add(LIMIT)
    assert (held(flow), flow.is_due) == (False, False)
    flow.add(1)
    assert held(flow)
    assert flow.drain() == {1: Credit(0, congested=True)}
    flow.add(10)
    flow.take(0, LIMIT // 2 + 10)
    assert held(flow)
    assert flow.drain() == {}
    flow.take(0, 1)
    assert not held(flow)
    assert flow.drain() == {1: Credit(0, congested=False)}
    assert flow.load == LIMIT // 2


def test_what_a_peer_has_not_taken_is_its_senders() -> None:
    """It counts until the peer says so; that it says it again changes nothing."""
    flow = account()
    flow.add(500)
    flow.receive(1, Credit(200, congested=False))
    assert flow.load == 300
    flow.receive(1, Credit(200, congested=False))
    assert flow.load == 300
    flow.receive(1, Credit(500, congested=False))
    assert flow.load == 0


def test_sources_wait_for_congested_peers() -> None:
    """Until each of them says that it is over."""
    flow = account(workers=3)
    flow.receive(1, Credit(0, congested=True))
    flow.receive(2, Credit(0, congested=True))
    flow.receive(1, Credit(0, congested=False))
    assert held(flow)
    flow.receive(2, Credit(0, congested=False))
    assert not held(flow)
    assert flow.drain() == {}


def test_little_is_not_told_unless_somebody_waits_for_it() -> None:
    """Else each message would be answered by another."""
    flow = account()
    flow.take(1, LIMIT // 8)
    assert not flow.is_due
    flow.take(1, 1)
    assert flow.drain() == {1: Credit(LIMIT // 8 + 1, congested=False)}
    flow.take(1, 3)
    assert not flow.is_due
    flow.receive(1, Credit(0, congested=True))
    assert flow.drain() == {1: Credit(LIMIT // 8 + 4, congested=False)}
    flow.take(1, 1)
    assert flow.drain() == {1: Credit(LIMIT // 8 + 5, congested=False)}


def test_alone_nobody_is_told() -> None:
    """A worker without peers holds its own sources."""
    flow = account(workers=1)
    flow.add(LIMIT + 1)
    assert held(flow)
    assert not flow.is_due
    flow.take(0, LIMIT + 1)
    assert not held(flow)
