"""Messages of one partition, as a reader receives them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidewheel.pubsub.messages.wire import Numbered


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one partition, in order."""

    partition: int
    messages: Sequence[Numbered]
