"""A job whose operators send what they are ordered to, each to a topic: tidewheel's side of benchmarks of topics."""

import threading
from typing import Any

import tidewheel as tw
from benchmarks.measuring.pubsub_traffic import Order, Turn, prepare
from tidewheel.runtime.description.plan import Schedule

TIMES_A_TURN = 1_000_000
"""The number of epochs of the topic that belong to a turn; not all of them are used."""
HELD_S = 0.001
"""The pause before another look whether subscribers still hold the dataflow back."""


def orders_for(topic: str) -> str:
    """Return the name of the input for what a topic is to have."""
    return f"orders for {topic}"


def produced(flow: tw.Dataflow, topic: str) -> tw.Stream[Any]:
    """Return what an operator sends that takes orders; to be published as that topic."""
    return flow.input(orders_for(topic)).unary(build_produce, name="produce")


def give(job: tw.types.Job, topic: str, order: Order) -> None:
    """Have a job send what an order says to a topic; does not wait for it."""
    orders = job.input(orders_for(topic))
    orders.send([tuple(order)])
    orders.advance_to(orders.time + TIMES_A_TURN)


def build_produce(context: tw.OperatorContext) -> Schedule:
    """Build an operator that sends the batches of an order, each at a time of its own, and when it is due."""
    held: list[tuple[tw.TimestampToken, Turn]] = []
    prepare()

    def schedule(orders: tw.InputPort, output: tw.OutputPort) -> None:
        for lent, batch in orders:
            order = Order(*batch[0])
            held.append((lent.retain(), Turn(order)))
            if order.rate:
                threading.Thread(target=activate_when_due, args=(context, order), daemon=True).start()
        if not held:
            return
        token, turn = held[0]
        if context.is_held and not turn.is_paced:
            context.activator.after(HELD_S)
            return
        while turn.left_s <= 0:
            output.send(token, turn.next())
            if turn.is_over:
                held.pop()[0].discard()
                return
            token.downgrade(token.time + 1)
            if not turn.is_paced:
                context.activate()
                return

    return schedule


def activate_when_due(context: tw.OperatorContext, order: Order) -> None:
    """Have the operator run whenever another batch is due; for a thread of its own, which sleeps between."""
    for _ in Turn(order).paced():
        context.activate()
