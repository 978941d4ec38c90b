"""A message that waits for its operator, as a snapshot stores it."""

from typing import NamedTuple

from tidewheel.batches.batches import Batch
from tidewheel.progress import Time
from tidewheel.runtime.messages.labels import Labels


class Unread(NamedTuple):
    time: Time
    batch: Batch
    label: Labels | None
