"""The gaps in the inbox of a worker."""

from collections.abc import Hashable
from typing import Any

from tidewheel.runtime.worker.ordered_inbox import OrderedInbox


def missing(inbox: OrderedInbox[Any]) -> dict[Hashable, int]:
    """Return the number of the item that is missing, for each sender of which later ones have come."""
    return {sender: stream.expected for sender, stream in inbox._streams.items() if stream.early}
