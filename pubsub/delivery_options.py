"""How one subscriber wants a topic: which records, and what happens when it falls behind."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.where import Where

Slow: TypeAlias = Literal["disconnect", "drop_epochs"]
"""What happens to a subscriber for which more waits than the publisher keeps.

``"disconnect"`` cuts it off with an error; ``"drop_epochs"`` leaves out whole epochs, and says which.
"""


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """What a subscriber asks of the publishers of a topic.

    Attributes:
        where: which records it wants; None for all.
        slow: what happens when it falls behind.

    Raises:
        DeliveryError: there is no such policy.
    """

    where: Where | None = None
    slow: Slow = "disconnect"

    def __post_init__(self) -> None:
        if self.slow not in get_args(Slow):
            raise DeliveryError(f"slow is one of {', '.join(map(repr, get_args(Slow)))}, not {self.slow!r}")


EVERYTHING = DeliveryOptions()
"""What a subscriber gets that asks for nothing in particular."""
