"""What a running publication writes into its logs."""

from tidewheel.progress import IntegerDomain, ProductDomain
from tidewheel.pubsub.publishers.publisher_actors import _named


def test_the_domain_in_a_log_stays_as_it_is() -> None:
    """A log of another domain is refused, so a shorter text for people must not reach logs that exist."""
    assert _named(IntegerDomain()) == "IntegerDomain(maximum=9223372036854775807)"
    assert _named(ProductDomain(IntegerDomain(), IntegerDomain(3))) == (
        "ProductDomain(outer=IntegerDomain(maximum=9223372036854775807), inner=IntegerDomain(maximum=3))"
    )
