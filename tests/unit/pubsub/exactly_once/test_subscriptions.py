"""What subscriptions have acknowledged, and what nobody needs any more."""

from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions


def test_without_subscriptions_nobody_knows_what_is_needed() -> None:
    """So nothing is said of it, and what those say who are not known is not taken."""
    subscriptions = Subscriptions()
    assert subscriptions.needed_from is None
    assert not subscriptions.acknowledge("a", [(0, 10)])
    assert (len(subscriptions), "a" in subscriptions, subscriptions.acknowledged("a")) == (0, False, ())


def test_the_slowest_says_what_is_needed() -> None:
    """What others have had, and what it has had behind a gap, does not count."""
    subscriptions = Subscriptions()
    subscriptions.begin("slow", 10)
    subscriptions.begin("fast", 10)
    assert subscriptions.acknowledge("fast", [(0, 100)])
    assert subscriptions.acknowledge("slow", [(20, 30)])
    assert subscriptions.needed_from == 10
    assert subscriptions.acknowledge("slow", [(10, 20)])
    assert subscriptions.needed_from == 30
    assert subscriptions.needing(31) == ["slow"]
    assert subscriptions.needing(30) == []
    subscriptions.end("slow")
    subscriptions.end("slow")
    assert subscriptions.needed_from == 100


def test_the_same_again_is_nothing_new() -> None:
    """Acknowledgements come again and again, and late ones say less than is known."""
    subscriptions = Subscriptions()
    subscriptions.begin("a", 0)
    assert subscriptions.acknowledge("a", [(0, 10), (20, 30)])
    assert not subscriptions.acknowledge("a", [(0, 10), (20, 30)])
    assert not subscriptions.acknowledge("a", [(0, 5)])
    assert subscriptions.acknowledged("a") == ((0, 10), (20, 30))


def test_who_comes_back_goes_on() -> None:
    """Wherever he says that he begins; and after a restart with what was kept of it."""
    subscriptions = Subscriptions()
    subscriptions.begin("a", 0)
    subscriptions.acknowledge("a", [(0, 10)])
    assert subscriptions.begin("a", 50) == ((0, 10),)
    again = Subscriptions()
    again.restore("a", subscriptions.acknowledged("a"))
    assert again.begin("a", 50) == ((0, 10),)
