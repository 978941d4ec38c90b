"""Leases."""

from tidewheel.pubsub.protocol.lease import Leases


def test_who_is_silent_for_the_duration_expires() -> None:
    """A renewal starts the time anew; expiry is told once."""
    leases = Leases(10.0)
    for holder in ("a", "b"):
        leases.grant(holder, 0.0)
    leases.renew("a", 5.0)
    assert leases.expire(9.9) == []
    assert leases.expire(10.0) == ["b"]
    assert leases.expire(14.9) == []
    assert leases.expire(15.0) == ["a"]


def test_a_lease_that_ran_out_or_was_released_cannot_be_renewed() -> None:
    """Who was given up has to ask anew."""
    leases = Leases(10.0)
    leases.grant("a", 0.0)
    leases.release("a")
    leases.renew("a", 1.0)
    assert leases.expire(100.0) == []
