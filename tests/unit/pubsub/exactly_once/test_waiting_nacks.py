"""Children that wait for answers have them in turn, and none that they do not wait for any more."""

from tidewheel.pubsub.exactly_once.waiting_nacks import WaitingNacks
from tidewheel.pubsub.messages.delivery_messages import RELAY_PREFIX, Nack
from tidewheel.pubsub.messages.tick_set import FOREVER


def nack(first: int, end: int = FOREVER, pubend: int = 0) -> Nack:
    return Nack(pubend, ((first, end),), 100)


def test_the_newest_nack_of_a_child_takes_the_place_of_the_others() -> None:
    """It keeps its turn; those of other pubends stay."""
    waiting = WaitingNacks()
    for child, asked in [("a", nack(1)), ("b", nack(2)), ("a", nack(3, pubend=1)), ("a", nack(9))]:
        waiting.add(child, asked)
    assert list(iter(waiting.take, None)) == [("a", nack(9)), ("b", nack(2)), ("a", nack(3, pubend=1))]
    assert not waiting


def test_a_child_that_asks_again_waits_behind_the_others() -> None:
    """So one that always asks at once does not have all the answers."""
    waiting = WaitingNacks()
    waiting.add("a", nack(1))
    waiting.add("b", nack(1))
    assert waiting.take() == ("a", nack(1))
    waiting.add("a", nack(2))
    assert waiting.take() == ("b", nack(1))


def test_the_nacks_of_a_relay_are_joined() -> None:
    """It asks for nothing twice, as its children wait for different ticks."""
    waiting = WaitingNacks()
    relay = f"{RELAY_PREFIX}1"
    waiting.add(relay, nack(1, 5))
    waiting.add(relay, nack(8, 9))
    assert waiting.take() == (relay, Nack(0, ((1, 5), (8, 9)), 100))


def test_who_has_gone_waits_for_nothing() -> None:
    """What it has asked is dropped."""
    waiting = WaitingNacks()
    waiting.add("a", nack(1))
    waiting.add("b", nack(1))
    waiting.leave("a")
    assert (waiting.take(), waiting.take()) == (("b", nack(1)), None)
