"""Messages of one partition, in the form for a reader."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.delivery_messages import Downstream, KnowledgeMessage
from tidewheel.pubsub.messages.encoded_message import decode
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import Numbered, Rejected

_NONE: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one partition, in order."""

    partition: int
    messages: Sequence[Numbered]


def opened(told: Iterable[Downstream]) -> list[Numbered]:
    """Return the messages of a publisher without a log, each with the silence right before it.

    A rejection gets a number after the numbers of all messages.

    Raises:
        ProtocolError: a message cannot be decoded here, or a publisher without a log cannot have sent it.
    """
    found: list[Numbered] = []
    for knowledge in told:
        if isinstance(knowledge, Rejected):
            found.append(Numbered(FOREVER, knowledge))
            continue
        if not isinstance(knowledge, KnowledgeMessage):
            raise ProtocolError(f"a publisher without a log does not tell {knowledge!r}")
        silence = {end: end - first for first, end in knowledge.final} if knowledge.final else _NONE
        for number, message in knowledge.data:
            found.append(Numbered(number, decode(message), silence.get(number, 0)))
    return found
