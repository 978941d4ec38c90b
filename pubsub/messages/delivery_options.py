"""The options of one subscriber: its condition on records, and the policy for a subscriber that falls behind."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.where import Where

Slow: TypeAlias = Literal["disconnect", "drop_epochs", "block"]
"""The policy of a publisher when more messages wait for a subscriber than the publisher keeps.

``"disconnect"`` disconnects the subscriber with an error. ``"drop_epochs"`` leaves out whole epochs and names them.
``"block"`` makes the publishing dataflow and its sources wait, and disconnects a subscriber that long reads nothing.
"""

BLOCK_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """The options that a subscriber sends to the publishers of a topic.

    Attributes:
        where: the condition on records; None for all records.
        slow: the policy when the subscriber falls behind.
        block_limit: the longest time that a subscriber may block a publisher without reading, in seconds.

    Raises:
        DeliveryError: the policy does not exist, or the limit is no time.
    """

    where: Where | None = None
    slow: Slow = "disconnect"
    block_limit: float = BLOCK_LIMIT_S

    def __post_init__(self) -> None:
        if self.slow not in get_args(Slow):
            raise DeliveryError(f"slow is one of {', '.join(map(repr, get_args(Slow)))}, not {self.slow!r}")
        limit: object = self.block_limit
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
            raise DeliveryError(f"block_limit is a number of seconds above 0, not {limit!r}")


EVERYTHING = DeliveryOptions()
"""The options of a subscriber that sets none."""
