"""Marks of ends that are among messages: on their way between operators, and at the inputs where they count."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.labels import Labels, MixedLabel, parts_by_key
from tidewheel.runtime.worker.flow_control import FlowControl
from tidewheel.transport.batches import Batch


@dataclass(frozen=True, slots=True)
class Markers:
    """Punctuations, which go over a channel in place of a label: behind them nothing of these keys comes over it.

    Attributes:
        declaration: its number.
        keys: of the substreams.
        is_last: whether nothing of any key comes any more.
    """

    declaration: int
    keys: Sequence[Key]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class EndsHere:
    """Ends in the queue of an input, in place of a label: what is before them was all of these substreams.

    Attributes:
        keys: of the substreams.
        is_last: whether these were the last.
    """

    keys: Sequence[Key]
    is_last: bool = False


Entry: TypeAlias = tuple[Time, Batch, int, int, "Labels | Markers | EndsHere | None"]
"""What waits at an input: (time, batch, bytes that count as in flight, worker that sent it, label)."""


def marking(what: Markers | EndsHere, sender: int) -> Entry:
    """Return marks as what waits at an input."""
    return None, [], 0, sender, what


def taken(entry: Entry, flow: FlowControl) -> Entry:
    """Count a message as taken, and return it as one that does not count."""
    time, batch, size, sender, label = entry
    flow.take(sender, size)
    return time, batch, 0, sender, label


def divided(entry: Entry, label: MixedLabel) -> list[Entry]:
    """Return a message of several substreams as one for each; the last counts for the bytes of all."""
    time, batch, size, sender, _ = entry
    parts: list[Any] = [
        (time, part, 0, sender, (label.declaration, key)) for key, part in parts_by_key(batch, label.keys)
    ]
    *_, (_, last, *_, last_label) = parts
    parts[-1] = (time, last, size, sender, last_label)
    return parts
