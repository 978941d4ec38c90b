"""Orders enriched by a service that takes its time: many calls under way at once, each with a deadline and new tries.

The service speaks over TCP, as a real one would; it gives the price of an article after 20 ms, and hangs up on every
tenth call. An epoch, of a minute of orders, is complete when the last of its calls is done.
"""

import random
import time
from typing import NamedTuple

import tidewheel as tw
from examples.parts.price_service import PriceService, ask
from examples.parts.program import by_epoch, options

DELAY_S = 0.02


class Order(NamedTuple):
    """So many pieces of an article, for a customer."""

    customer: str
    article: int
    pieces: int


def values(orders: tw.Stream[Order], port: int) -> tw.Stream[tuple[Order, int]]:
    """Return each order with its value in cents, by the prices of the service at ``port``."""

    async def value(order: Order) -> tuple[Order, int]:
        return order, order.pieces * await ask(port, order.article)

    again = tw.Retry(attempts=6, first_pause_s=0.01, jitter=0.5, on=(ConnectionError, TimeoutError))
    return orders.rebalance().map_async(value, concurrency=64, timeout_s=5, retry=again)


def main() -> None:
    chosen = options(__doc__)
    random.seed(1)
    names = ("Ada", "Grace", "Edsger", "Barbara")
    minutes = [
        [Order(random.choice(names), random.randrange(1000), random.randint(1, 9)) for _ in range(200)]
        for _ in range(5)
    ]
    service = PriceService(DELAY_S)
    flow = tw.Dataflow("enrichment")
    orders = flow.source("orders", tw.IterableSource([list(enumerate(minutes))]))
    with service.running() as port:
        values(orders, port).aggregate(
            lambda valued: valued[0].customer, start=int, add=lambda total, valued: total + valued[1]
        ).capture("totals")
        with tw.run(flow, workers=chosen.workers, engine=chosen.engine) as job:
            began = time.perf_counter()
            job.wait(timeout_s=120)
            took_s = time.perf_counter() - began
            for minute, batches in by_epoch(job, "totals").items():
                totals = sorted(total for batch in batches for total in batch)
                print(f"minute {minute}: {', '.join(f'{name} {cents / 100:,.2f}' for name, cents in totals)}")
    print(
        f"{service.asked:,} calls in {took_s:.1f} s, up to {service.most_at_once} at once; "
        f"one after the other, they take at least {service.asked * DELAY_S:.1f} s"
    )


if __name__ == "__main__":
    main()
