"""Durable subscriptions on a real Ray cluster that are ended for good."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import tidewheel as tw
from tests.ray.topics.test_exactly_once import DEADLINE_S, expected, publishing, read, send
from tidewheel.pubsub.errors import DeliveryError, UnknownTopic

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


def test_who_is_ended_has_an_error_and_begins_anew(tmp_path: Path) -> None:
    """Others go on; a name that there is not is an error with those there are, also once it has been ended."""
    topic = "of ended subscriptions"
    with ExitStack() as stack:
        job = stack.enter_context(publishing(topic, tmp_path))
        numbers = stack.enter_context(job.input("numbers"))
        with tw.subscribe(topic, durable=tw.Durable("away")):
            pass
        billing = stack.enter_context(tw.subscribe(topic, durable=tw.Durable("billing")))
        audit = stack.enter_context(tw.subscribe(topic, durable=tw.Durable("audit")))
        send(numbers, range(2))
        assert read(billing, 1) == expected(range(1))
        with pytest.raises(DeliveryError, match="no durable subscription 'biling'; those there are: 'audit', 'away', "):
            tw.end_subscription(topic, "biling")
        for name in ("billing", "away"):
            tw.end_subscription(topic, name)
        with pytest.raises(DeliveryError, match=r"no durable subscription 'billing'; those there are: 'audit'$"):
            tw.end_subscription(topic, "billing")
        send(numbers, range(2, 4))
        assert read(audit, 4) == expected(range(4))
        with pytest.raises(DeliveryError, match="subscription 'billing' has been ended"):
            list(billing.epochs(timeout_s=DEADLINE_S))
        again = stack.enter_context(tw.subscribe(topic, durable=tw.Durable("billing")))
        send(numbers, range(4, 5))
        assert read(again, 1) == expected(range(4, 5))


def test_what_has_no_durable_subscriptions_is_an_error() -> None:
    """Which is a name that is none, no topic, or one of best effort."""
    with pytest.raises(UnknownTopic):
        tw.end_subscription("of nobody", "billing", timeout_s=0)
    flow = tw.Dataflow("best")
    flow.input("numbers").publish("at best")
    with tw.run(flow, engine="local") as job:
        with pytest.raises(DeliveryError, match=r"'at best' of job .* has no durable subscription 'billing'.*: none"):
            tw.end_subscription("at best", "billing")
        with pytest.raises(DeliveryError, match="the name of a subscription is a text"):
            tw.end_subscription("at best", "")
        job.stop()
