"""The options of one subscriber: which records it wants, and what happens when it falls behind."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.where import Where

Slow: TypeAlias = Literal["disconnect", "drop_epochs", "block"]
"""What happens to a subscriber for which more waits than the publisher keeps.

``"disconnect"`` cuts it off with an error; ``"drop_epochs"`` leaves out whole epochs, and says which; ``"block"`` holds
back the dataflow that publishes, which holds back its sources, and cuts off a subscriber that takes nothing for long.
"""

BLOCK_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """What a subscriber asks of the publishers of a topic.

    Attributes:
        where: which records it wants; None for all.
        slow: what happens when it falls behind.
        block_limit: for how long it may hold back a publisher and take nothing, in seconds.

    Raises:
        DeliveryError: there is no such policy, or the limit is no time.
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
"""What a subscriber gets that asks for nothing in particular."""
