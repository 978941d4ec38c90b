"""The owner of a topic, as its log has it."""

from tidewheel.progress import IntegerDomain, ProductDomain
from tidewheel.pubsub.publishers.topic_log import identity_of


def test_the_domain_in_a_log_stays_as_it_is() -> None:
    """A log of another domain is refused, so a shorter text for people must not reach logs that exist."""
    assert identity_of("t", 0, 1, IntegerDomain()).domain == "IntegerDomain(maximum=9223372036854775807)"
    assert identity_of("t", 0, 1, ProductDomain(IntegerDomain(), IntegerDomain(3))).domain == (
        "ProductDomain(outer=IntegerDomain(maximum=9223372036854775807), inner=IntegerDomain(maximum=3))"
    )
