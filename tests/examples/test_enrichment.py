"""The example's calls of a service that takes its time and hangs up now and then."""

import pytest

from examples.first_steps import enrichment
from examples.first_steps.enrichment import Order
from examples.parts.price_service import PriceService
from tests.examples.running import captured, epochs, records


@pytest.mark.parametrize("workers", [1, 2])
def test_every_order_is_priced_once(workers: int) -> None:
    """All orders come out at their epoch with the right value, though every tenth call fails; calls do overlap."""
    minutes = [[Order("Ada", article, 1 + article % 3) for article in range(first, 100, 2)] for first in range(2)]
    service = PriceService(delay_s=0.01)
    with service.running() as port:
        found = captured(lambda flow: enrichment.values(flow.source("orders", epochs(minutes)), port), workers)
    for minute, orders in enumerate(minutes):
        expected = {order: (1 + order.article % 3) * (order.article * 7919 % 9973 + 1) for order in orders}
        priced = records(found[minute])
        assert dict(priced) == expected
        assert len(priced) == len(expected)
    assert service.asked > 100
    assert service.most_at_once > 10
