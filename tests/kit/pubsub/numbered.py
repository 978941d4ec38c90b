"""Messages of publishers without a log, by their numbers, and as they are told."""

from typing import Any

from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.wire import Numbered
from tidewheel.pubsub.protocol.fetched import opened
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.protocol.posted import Posted


def fetched(publisher: Any, *arguments: Any, **named: Any) -> list[Numbered]:
    """Return what a publisher's `fetch` returns, opened."""
    return opened(publisher.fetch(*arguments, **named))


def taken(publisher: Any, subscriber: str) -> list[Numbered]:
    """Return what a publisher's `take` returns, opened."""
    return opened(publisher.take(subscriber))


def told(numbered: Numbered, partition: int = 0) -> KnowledgeMessage:
    """Return how a publisher tells a message."""
    number, skipped = numbered.sequence, numbered.skipped
    silence = ((number - skipped, number),) if skipped else ()
    return KnowledgeMessage(partition, silence, ((number, encode(numbered.message)),))


def posted(numbered: Numbered, size: int | None = None) -> Posted:
    """Return a message for a queue, which counts for so many bytes."""
    return Posted(numbered.sequence, numbered.message, size=size)


def head(queue: OutgoingQueue, max_bytes: int) -> list[Numbered]:
    """Return what a queue's `head` returns, opened."""
    return opened(queue.head(max_bytes))
