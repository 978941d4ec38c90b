"""A message that waits for its operator, as a snapshot has it."""

from typing import NamedTuple

from tidewheel.progress import Time
from tidewheel.runtime.substreams.labels import Labels
from tidewheel.transport.batches import Batch


class Unread(NamedTuple):
    """A message that an operator has not received."""

    time: Time
    batch: Batch
    label: Labels | None
