"""Confirmations to a worker, which may forget what is durable and has a number."""

from tidewheel.pubsub.publishers.confirmed import Confirmed, Unconfirmed


def test_what_has_no_sure_number_waits() -> None:
    """A snapshot of the job between the two would take for standing what a return makes void."""
    unconfirmed = Unconfirmed()
    unconfirmed.add(5, Confirmed(1, 10, 3))
    unconfirmed.add(5, Confirmed(2, 20, 3), is_sure=False)
    assert unconfirmed.take(9) == Confirmed(1, 10, 3)
    assert unconfirmed.take(9) == Confirmed(0, 0)
    unconfirmed.add(5, Confirmed(4, 40, 7))
    assert unconfirmed.take(4) == Confirmed(0, 0)
    assert unconfirmed.take(5) == Confirmed(6, 60, 7)
