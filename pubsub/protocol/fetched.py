"""Messages of one partition, as a reader receives them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.messages.wire import Numbered


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one partition, in order."""

    partition: int
    messages: Sequence[Numbered]


def opened(told: Iterable[KnowledgeMessage]) -> list[Numbered]:
    """Return the messages in what a publisher without a log tells, each with the silence directly before it.

    Raises:
        ProtocolError: a message cannot be decoded here.
    """
    found: list[Numbered] = []
    for knowledge in told:
        silence = {end: end - first for first, end in knowledge.final}
        found += [Numbered(number, decode(message), silence.get(number, 0)) for number, message in knowledge.data]
    return found
