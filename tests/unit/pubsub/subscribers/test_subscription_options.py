"""Options of subscriptions with exactly-once delivery, and the errors for those that cannot be."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.progress import Antichain, IntegerDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import Delivery, DeliveryOptions
from tidewheel.pubsub.messages.events import Frontier, RolledBack
from tidewheel.pubsub.publishers.topic_log import Log, TopicLog, topic_log
from tidewheel.pubsub.subscribers.subscription_options import (
    Acknowledging,
    DoneBatches,
    Durable,
    Start,
    SubscriptionOptions,
    check_options,
)


def info(delivery: Delivery) -> TopicInfo:
    return TopicInfo("bills", "job", IntegerDomain(), (), "life", None, delivery)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "1 to 200 characters that are no control characters, not ''"),
        ({"name": "a\nb"}, "control"),
        ({"name": 7}, "not 7"),
        ({"ack": "later"}, "ack is 'auto' or 'manual', not 'later'"),
        ({"order": "any"}, "order is 'publisher' or 'total', not 'any'"),
        ({"start": "now"}, "'live', 'earliest', or a tick, in microseconds since 1970, and not 'now'"),
        ({"start": -1}, "not -1"),
        ({"start": True}, "not True"),
    ],
    ids=["empty", "lines", "number", "ack", "order", "start", "negative", "bool"],
)
def test_what_makes_no_sense_is_an_error_at_once(arguments: dict[str, Any], message: str) -> None:
    """It says what can be said instead."""
    with pytest.raises(DeliveryError, match=re.escape(message)):
        SubscriptionOptions(**arguments)


def test_where_a_subscription_starts() -> None:
    """At what comes next, at the first that is kept, or at a tick."""
    starts: list[Start] = ["live", "earliest", 17]
    assert [SubscriptionOptions(start=start).tick for start in starts] == [None, 0, 17]


def test_what_a_topic_does_not_have_cannot_be_asked_of_it() -> None:
    """Best effort has no names; exactly once has no slow subscribers that would have to be told off."""
    with raises(DeliveryError):
        check_options(info("best_effort"), DeliveryOptions(), SubscriptionOptions(name="billing"))
    with raises(DeliveryError):
        check_options(info("exactly_once"), DeliveryOptions(slow="drop_epochs"), SubscriptionOptions())
    for delivery in ("best_effort", "exactly_once"):
        check_options(info(delivery), DeliveryOptions(slow="block"), SubscriptionOptions())
    check_options(
        info("exactly_once"), DeliveryOptions(), SubscriptionOptions("billing", "manual", "earliest", "total")
    )


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("/logs", "log is tw.Log(place), not '/logs'"),
        (Log(""), "the place of a log is a directory or a URL, not ''"),
        (Log(7), "not 7"),  # type: ignore[arg-type]
        (Log("/lo\0gs"), "the place of a log is a directory or a URL, not '/lo\\x00gs'"),
        (Log("ftp://host/logs"), "ftp://host/logs is no place for a log: use a path, file:///path, s3:"),
        (Log(Path("s3://bucket/logs")), "s3:/bucket/logs is no place for a log: a URL has two slashes"),
        (Log("s3://me:secret@bucket/logs?key=secret"), "s3://bucket/logs is given with a user, a query"),
        (Log("/logs", retention_s=0), "retention_s is a number of seconds above 0, not 0"),
        (Log("/logs", retention_s="a week"), "not 'a week'"),  # type: ignore[arg-type]
    ],
    ids=["no log", "empty", "number", "nul", "scheme", "path", "secret", "zero", "text"],
)
def test_a_publication_says_what_is_wrong_with_its_log(log: object, message: str) -> None:
    """With the name of the topic."""
    with pytest.raises(DeliveryError, match=re.escape(message)) as caught:
        topic_log("bills", log)
    assert caught.value.topic == "bills"


@pytest.mark.parametrize("arguments", [{"name": None}, {"name": ""}, {"name": "bills", "ack": "never"}])
def test_a_durable_subscription_has_a_name_and_a_way_to_acknowledge(arguments: dict[str, Any]) -> None:
    """It is checked where the program says it."""
    with pytest.raises(DeliveryError):
        Durable(**arguments)


def test_each_partition_has_a_directory_of_its_own() -> None:
    """Whatever the name of the topic has in it."""
    log = topic_log("../bills of/today", Log("/logs", retention_s=10))
    assert log == TopicLog("/logs", 10.0)
    assert log.of_partition("../bills of/today", 3) == "/logs/%2E%2E%2Fbills%20of%2Ftoday/partition-3"
    assert topic_log("bills", None) is None
    log = topic_log("bills", Log("s3://bucket/logs/"))
    assert log is not None
    assert log.of_partition("bills", 0) == "s3://bucket/logs/bills/partition-0"


@pytest.mark.parametrize("ack", ["auto", "manual"])
def test_returns_are_acknowledged_for_the_consumer(ack: Acknowledging) -> None:
    """Once it asks for more: it has no way to say it, and has to be told again if it dies before."""
    said: list[tuple[int, int]] = []
    done = DoneBatches("bills", said.extend, ack)
    done.give([RolledBack(1, 7, Antichain(IntegerDomain(), [3]), 9), Frontier(Antichain(IntegerDomain(), [4]))])
    assert said == []
    done.settle()
    assert said == [(1, 9)]
    done.pass_over(RolledBack(0, 7, Antichain(IntegerDomain(), [3]), 8))  # it reads whole epochs, and none may follow
    assert said == [(1, 9), (0, 8)]
