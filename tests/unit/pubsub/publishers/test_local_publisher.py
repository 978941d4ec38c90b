"""Connections, in their local form."""

import threading

from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob
from tests.kit.pubsub.numbered import fetched
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.wire import DataMessage, Failed, LowerFrontierUpdate, Message
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers.local_publisher import LocalConnection, LocalPublisher


def local() -> tuple[LocalPublisher, LocalConnection]:
    publisher = LocalPublisher(Publisher(IntegerDomain()), threading.Condition(), LocalJob().host.pump)
    publisher.attach("s")
    return publisher, LocalConnection("ranks", 3, publisher)


def messages(publisher: LocalPublisher) -> list[Message]:
    return [numbered.message for numbered in fetched(publisher.publisher, "s", -1)][1:]


def test_nothing_arrives_before_the_flush_and_then_all_in_order() -> None:
    """One step of the operator is one call."""
    publisher, connection = local()
    connection.data(0, [1, 2])
    connection.frontier([(0, -1), (1, 1)])
    assert messages(publisher) == []
    connection.flush()
    connection.flush()
    data, update = messages(publisher)
    assert isinstance(data, DataMessage)
    assert (data.time, data.records) == (0, 2)
    assert update == LowerFrontierUpdate([(0, -1), (1, 1)])


def test_a_batch_may_be_changed_after_it_was_given() -> None:
    """It is encoded at once, so subscribers get what it was."""
    publisher, connection = local()
    batch = [1]
    connection.data(0, batch)
    before = len(batch)
    batch.append(2)
    connection.flush()
    [message] = messages(publisher)
    assert isinstance(message, DataMessage)
    assert message.records == before


def test_an_empty_batch_is_no_news() -> None:
    """An epoch without records does not become active."""
    publisher, connection = local()
    connection.data(0, [])
    connection.flush()
    assert messages(publisher) == []


def test_a_batch_that_cannot_be_encoded_is_named() -> None:
    """The error says which topic, partition and time."""
    _, connection = local()
    with raises(DeliveryError) as caught:
        connection.data(5, [threading.Lock()])
    assert (caught.value.topic, caught.value.partition) == ("ranks", 3)


def test_what_the_publisher_refuses_fails_the_topic_and_the_worker() -> None:
    """Impossible events raise on the worker, and subscribers hear of it."""
    publisher, connection = local()
    connection.frontier([(0, -1), (2, 1)])
    connection.data(1, [1])
    with raises(DeliveryError):
        connection.flush()
    assert isinstance(messages(publisher)[-1], Failed)
